// Sending a dead letter back: it is read, its copy is prepared as a push would, and one command moves it
// (D-1).
#include "api/detail/dlq.h"
#include "api/detail/names.h"
#include "api/detail/push.h"
#include "api/detail/submit.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

using Verdict = machine::DeadLetterReplayOutcome::Verdict;

std::string copy_id(const Uuid& dlq_id) {
  return "dlq:" + dlq_id.str();
}

http::Response gone() {
  return json_response(404, R"({"success":false,"result":"gone","error":"Message not found"})");
}

http::Response target_refused(const broker::Refusal& refusal) {
  std::string text;
  JsonWriter(text)
      .open('{')
      .name("success")
      .boolean(false)
      .name("error")
      .text(refusal.error)
      .name("code")
      .text(refusal.code)
      .close('}');
  return json_response(400, std::move(text));
}

http::Response replay_conflict(std::string_view reason, std::string_view error) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("success").boolean(false).name("error").text(error);
  out.name("reason").text(reason).name("dlqRowRemoved").boolean(false).close('}');
  return json_response(409, std::move(text));
}

// What the engine will not take is a conflict; what may be tried again, and a full disk, answer as
// everywhere.
http::Response replay_refused(const broker::Refusal& refusal) {
  if (error_row(refusal.code).status != 400) return refusal_response(refusal);
  return replay_conflict(refusal.code, refusal.error);
}

// What a replay keeps from its reading until its answer.
struct ReplayJob {
  std::string tenant;
  broker::DeadLetter letter;
  ReplayEcho echo;
};

// A timer that could not become a message was refused for what it is: its copy would be refused as well, and
// its dead letter may show it as another text than the one that was scheduled (TM-9).
bool was_timer(const broker::DeadLetter& letter) {
  return letter.row.offset < 0;
}

ReplayEcho echo_of(const broker::DeadLetter& letter, ReplayTarget target) {
  ReplayEcho echo;
  echo.queue = std::move(target.queue).value_or(letter.queue);
  echo.partition =
      std::move(target.partition).value_or(letter.partition.value_or(std::string(kDefaultPartition)));
  echo.group = letter.row.group;
  echo.transaction_id = letter.row.transaction_id;
  echo.dlq_id = letter.id;
  return echo;
}

machine::Command prepare(Context& context, ReplayJob& job) {
  const std::string transaction_id = copy_id(job.letter.id);
  PushItem item;
  item.queue = job.echo.queue;
  item.partition = job.echo.partition;
  item.null_payload = job.letter.row.payload == "null";
  if (!item.null_payload) item.payload = job.letter.row.payload;
  item.transaction_id = transaction_id;
  PushBody body;
  body.items.push_back(item);
  const Sealer sealer(context, job.tenant);
  const PushMint mint{
      context.clock.wall_us(),          context.random, context.compressors, context.broker.zstd_level(),
      context.broker.entry_bytes_max(), &sealer};
  PreparedPush push = prepare_push(body, mint);
  job.echo.message_id = push.places.at(0).id;
  return {job.tenant, make_uuid_v7(mint.wall_us, mint.random),
          machine::DeadLetterReplayCommand{job.letter.queue, job.letter.id, std::move(push.command)}};
}

// On a thread that may wait for the store.
void replay(const SharedContext& context, Inbound inbound, std::optional<broker::DeadLetter> letter,
            ReplayTarget target) {
  if (!letter) return inbound.reply->send(gone());
  if (was_timer(*letter))
    return inbound.reply->send(
        replay_conflict("timer_dead_letter", "a dead timer is scheduled again, not replayed"));
  auto job = std::make_shared<ReplayJob>(
      ReplayJob{std::move(inbound.tenant), *letter, echo_of(*letter, std::move(target))});
  if (!names_fit(job->tenant, job->echo.queue, job->echo.partition))
    return inbound.reply->send(refusal_response(name_too_long()));
  submit_command<machine::DeadLetterReplayOutcome>(
      context, std::move(inbound.reply), context->settings.default_timeout_ms, prepare(*context, *job),
      [context, job](machine::Command move, auto done) {
        const std::int64_t deadline = move.deadline_mono_us;
        submit_sealing<machine::Outcome>(
            context, std::move(move),
            [&broker = context->broker](machine::Command prepared, auto then) {
              broker.submit(std::move(prepared), std::move(then));
            },
            [context, job, deadline] {
              machine::Command command = prepare(*context, *job);
              command.deadline_mono_us = deadline;
              return command;
            },
            std::move(done));
      },
      [job](const machine::DeadLetterReplayOutcome& outcome) { return render_replay(job->echo, outcome); },
      replay_refused);
}

std::optional<std::string> name_of(const JsonFields& fields, std::string_view name,
                                   std::optional<broker::Refusal>& refusal) {
  const JsonValue* value = fields.find_set(name);
  if (value == nullptr || refusal) return std::nullopt;
  auto text = string_of(*value);
  if (!text)
    refusal = bad_body(std::string(name) + " must be a string");
  else if (text->empty())
    refusal = bad_request(std::string(name) + " must not be empty");
  return text;
}

}  // namespace

broker::Answer<ReplayTarget> parse_replay(std::string_view body) {
  ReplayTarget target;
  if (body.empty()) return target;
  const auto value = body_value(body);
  if (!value) return tl::unexpected(value.error());
  const auto fields = JsonFields::of(*value);
  if (!fields) return tl::unexpected(bad_body("the body must be an object"));
  std::optional<broker::Refusal> refusal;
  target.queue = name_of(*fields, "queue", refusal);
  target.partition = name_of(*fields, "partition", refusal);
  if (refusal) return tl::unexpected(*std::move(refusal));
  return target;
}

http::Response render_replay(const ReplayEcho& echo, const machine::DeadLetterReplayOutcome& outcome) {
  if (outcome.verdict == Verdict::gone) return gone();
  const bool moved = outcome.verdict == Verdict::moved;
  std::string text;
  JsonWriter out(text);
  out.open('{').name("success").boolean(true).name("result").text(moved ? "moved" : "duplicate");
  out.name("queue").text(echo.queue).name("partition").text(echo.partition);
  out.name("consumerGroup").text(echo.group).name("dlqId").uuid(echo.dlq_id);
  out.name("originalTransactionId").text(echo.transaction_id).name("replayedAs").open('{');
  out.name("index").number(0).name("message_id").uuid(moved ? echo.message_id : Uuid{});
  out.name("transaction_id").text(copy_id(echo.dlq_id)).name("queueName").text(echo.queue);
  out.name("status").text(moved ? "queued" : "duplicate").name("offset").number(outcome.offset).close('}');
  out.name("dlqRowRemoved").boolean(moved).close('}');
  return json_response(200, std::move(text));
}

void handle_dlq_replay(const SharedContext& context, Inbound inbound) {
  auto target = parse_replay(inbound.request.body);
  if (!target) return inbound.reply->send(target_refused(target.error()));
  const auto id = Uuid::parse(inbound.request.params.at(0));
  if (!id) return inbound.reply->send(gone());
  context->broker.look(
      [context, inbound = std::move(inbound), id = *id, target = *std::move(target)]() mutable {
        auto letter = context->broker.dead_letters().by_id(inbound.tenant, id);
        replay(context, std::move(inbound), std::move(letter), std::move(target));
      });
}

// Several groups may have given up on the message: the oldest dead letter goes first, the next call takes the
// next. Dead timers of that id stand in nobody's way.
void handle_message_retry(const SharedContext& context, Inbound inbound) {
  auto target = parse_replay(inbound.request.body);
  if (!target) return inbound.reply->send(target_refused(target.error()));
  context->broker.look([context, inbound = std::move(inbound), target = *std::move(target)]() mutable {
    const broker::DeadLetters& letters = context->broker.dead_letters();
    const auto found =
        letters.of_message(inbound.tenant, inbound.request.params.at(0), inbound.request.params.at(1));
    std::optional<broker::DeadLetter> letter;
    for (const Uuid& id : found ? found->ids : std::vector<Uuid>()) {
      auto one = letters.by_id(inbound.tenant, id);
      if (one && (!letter || was_timer(*letter))) letter = std::move(one);
      if (letter && !was_timer(*letter)) break;
    }
    replay(context, std::move(inbound), std::move(letter), std::move(target));
  });
}

}  // namespace queen::api
