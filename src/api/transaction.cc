// Transactions: outcomes to the answer, and the route.
#include "api/detail/transaction.h"

#include "api/detail/ack.h"
#include "api/detail/names.h"
#include "api/detail/submit.h"
#include "api/json_writer.h"
#include "base/invariant.h"

namespace queen::api {
namespace {

using machine::TransactionOutcome;

JsonWriter& open_answer(JsonWriter& out, const Uuid& id, bool success) {
  return out.open('{').name("transactionId").uuid(id).name("success").boolean(success);
}

// The ids of the items that were stored, by their place in the command: a repeat tells the first one's.
class StoredIds {
 public:
  StoredIds(const std::vector<PushPlace>& places, const machine::PushOutcome& outcome)
      : places_(places), outcome_(outcome), ids_(outcome.batches.size()) {
    for (std::size_t i = 0; i < ids_.size(); ++i) ids_[i].resize(outcome.batches[i].items.size());
    for (const PushPlace& place : places) ids_[place.batch][place.index] = place.id;
  }
  bool is_repeat(std::size_t item) const { return outcome_of(item).first_in_batch.has_value(); }
  const Uuid& of(std::size_t item) const {
    const PushPlace& place = places_[item];
    return ids_[place.batch][outcome_of(item).first_in_batch.value_or(place.index)];
  }

 private:
  const machine::PushItemOutcome& outcome_of(std::size_t item) const {
    return outcome_.batches[places_[item].batch].items[places_[item].index];
  }
  const std::vector<PushPlace>& places_;
  const machine::PushOutcome& outcome_;
  std::vector<std::vector<Uuid>> ids_;
};

// The results, one after the other in one index space: operations, KV, timers, positions.
class Results {
 public:
  Results(JsonWriter& out, const TransactionEcho& echo, const TransactionOutcome& outcome)
      : out_(out), echo_(echo), outcome_(outcome), ids_(echo.places, outcome.push) {}

  void write() {
    for (const TransactionPart& part : echo_.parts) {
      if (part.kind == TransactionPart::Kind::push)
        write_push(part);
      else
        write_ack(part);
    }
    for (std::size_t i = 0; i < echo_.kv.size(); ++i) {
      open("kv", i);
      write_kv_result(out_, echo_.kv[i], outcome_.kv.ops[i]);
      out_.close('}');
    }
    for (std::size_t i = 0; i < echo_.timers.size(); ++i) {
      open("timer", i);
      write_timer_result(out_, echo_.timers[i], outcome_.timers.ops[i]);
      out_.close('}');
    }
    for (std::size_t i = 0; i < echo_.positions; ++i) {
      open("position", i);
      out_.name("success").boolean(true).close('}');
    }
  }

 private:
  void open(std::string_view type, std::optional<std::size_t> own_index = std::nullopt) {
    out_.open('{').name("index").number(index_++);
    if (own_index) out_.name("opIndex").number(*own_index);
    out_.name("type").text(type);
  }

  void write_push(const TransactionPart& part) {
    const PushItem& item = echo_.push.items[part.index];
    open("push");
    out_.name("success").boolean(true).name("transactionId");
    if (item.transaction_id) {
      out_.text(*item.transaction_id);
    } else {
      out_.uuid(echo_.places[part.index].id);
    }
    out_.name("messageId").uuid(ids_.of(part.index)).name("queueName").text(item.queue);
    if (ids_.is_repeat(part.index)) out_.name("duplicate").boolean(true);
    out_.close('}');
  }

  void write_ack(const TransactionPart& part) {
    const machine::AckItemOutcome& item = outcome_.acks[part.index].items[part.item];
    open("ack");
    out_.name("success").boolean(true).name("transactionId").text(echo_.ack_ids[acks_++]);
    out_.name("error").null().name("dlq").boolean(item.dlq).close('}');
  }

  JsonWriter& out_;
  const TransactionEcho& echo_;
  const TransactionOutcome& outcome_;
  StoredIds ids_;
  std::size_t index_ = 0, acks_ = 0;
};

void write_rollback(JsonWriter& out, const Uuid& id, std::string_view reason, std::string_view error) {
  open_answer(out, id, false).name("reason").text(reason).name("error").text(error);
  out.name("results").raw("[]");
}

// Takes the pushed items and the parts; the command stays.
TransactionEcho take_echo(TransactionBody& body, const Uuid& id) {
  TransactionEcho echo;
  echo.id = id;
  echo.push = std::move(body.push);
  for (const TransactionPart& part : body.parts)
    if (part.kind == TransactionPart::Kind::ack)
      echo.ack_ids.push_back(body.command.acks[part.index].items[part.item].transaction_id);
  echo.parts = std::move(body.parts);
  echo.kv = echo_of(body.command.kv);
  echo.timers = echo_of(body.command.timers);
  echo.positions = body.command.positions.size();
  return echo;
}

// What a transaction keeps from the request until its answer: the items' views point into the body.
struct TransactionJob {
  std::string tenant;
  std::string body;
  TransactionEcho echo;
  TimerCharge timers_charge;                // null: it schedules none
  std::optional<Ladder::Charge> kv_charge;  // nothing: it has no KV operations

  // Nothing of it took place.
  void give_back() {
    if (timers_charge) timers_charge->give_back();
    if (kv_charge) kv_charge->give_back();
  }
};

// The KV operations' place in the allowance of the tenant: no rate counts them here.
std::optional<Denied> charge_kv(Ladder& ladder, const machine::KvCommand& kv, TransactionJob& job) {
  if (kv.ops.empty()) return std::nullopt;
  Weight adds;
  for (const machine::KvOp& op : kv.ops) {
    using machine::KvKind;
    if (op.kind != KvKind::put && op.kind != KvKind::put_if_absent && op.kind != KvKind::incr) continue;
    ++adds.rows;
    adds.bytes += static_cast<std::int64_t>(op.value.size());
  }
  auto pass = ladder.kv_in_transaction(job.tenant, adds);
  if (!pass) return std::move(pass).error();
  job.kv_charge.emplace(*std::move(pass));
  return std::nullopt;
}

void refuse(Reply& reply, const Uuid& id, const TransactionRefusal& refusal) {
  if (const auto* engine = std::get_if<broker::Refusal>(&refusal))
    return reply.send(refusal_response(*engine));
  reply.send(rolled_back_response(id, std::get<RolledBack>(refusal)));
}

// A horizon of the tenant's own rolls back as the node's does (D3).
http::Response denied_transaction(const Uuid& id, const Denied& denied) {
  const bool horizon = denied.error == "timer_horizon_exceeded";
  http::Response response = horizon ? rolled_back_response(id, {200, "bad_request", denied.detail})
                                    : rolled_back_response(id, {denied.status, denied.error, denied.detail});
  if (denied.retry_after_s > 0)
    response.headers.emplace_back("Retry-After", std::to_string(denied.retry_after_s));
  return response;
}

machine::TransactionCommand prepare(const SharedContext& context, TransactionBody body, TransactionJob& job,
                                    const Uuid& id) {
  const Sealer sealer(*context, job.tenant);
  const PushMint mint{
      context->clock.wall_us(),          context->random, context->compressors, context->broker.zstd_level(),
      context->broker.entry_bytes_max(), &sealer};
  job.echo = take_echo(body, id);
  machine::TransactionCommand command = std::move(body.command);
  for (machine::AckCommand& ack : command.acks) mint_dead_letter_ids(ack, mint.wall_us, mint.random);
  PreparedPush push = prepare_push(job.echo.push, mint);
  job.echo.places = std::move(push.places);
  command.push = std::move(push.command);
  prepare_timers(command.timers, mint.wall_us, mint.random, sealer);
  command.positions_bytes_max = mint.batch_bytes_max;
  return command;
}

// The body was parsed once already, and is what it was.
machine::Command prepared_again(const SharedContext& context, TransactionJob& job, const Uuid& id,
                                std::int64_t deadline) {
  TimerLimits timers = timer_limits(context, job.tenant);
  timers.ops_max = SIZE_MAX;
  timers.encrypts = nullptr;  // what the body may say of that was judged by the queues of then
  auto parsed = parse_transaction(job.body, job.tenant, context->settings, timers);
  INVARIANT(parsed.has_value(), "a body of {} bytes was a transaction and is none", job.body.size());
  return {job.tenant, id, prepare(context, *std::move(parsed), job, id), deadline};
}

}  // namespace

http::Response rolled_back_response(const Uuid& id, const RolledBack& why) {
  std::string text;
  JsonWriter out(text);
  write_rollback(out, id, why.reason, why.error);
  out.close('}');
  return json_response(why.status, std::move(text));
}

std::string render_transaction(const TransactionEcho& echo, const TransactionOutcome& outcome) {
  std::string text;
  JsonWriter out(text);
  if (!outcome.reason.empty()) {
    write_rollback(out, echo.id, outcome.reason, outcome.error);
    if (const auto failed = outcome.kv.failed_index) {
      const auto& row = outcome.kv.failed_row;
      out.name("ok").boolean(false).name("failedIndex").number(echo.parts.size() + *failed);
      out.name("kvReason").text(outcome.kv.failed_reason).name("version").number(row ? row->version : 0);
      out.name("value").raw(row ? std::string_view(row->value) : "null");
    }
  } else {
    open_answer(out, echo.id, true).name("results").open('[');
    Results(out, echo, outcome).write();
    out.close(']');
  }
  out.close('}');
  return text;
}

void handle_transaction(const SharedContext& context, Inbound inbound) {
  auto job = std::make_shared<TransactionJob>();
  job->body = std::move(inbound.request.body);
  const Uuid id = make_uuid_v7(context->clock.wall_us(), context->random);
  job->tenant = std::move(inbound.tenant);
  TimerLimits timers = timer_limits(context, job->tenant);
  timers.ops_max = SIZE_MAX;
  auto parsed = parse_transaction(job->body, job->tenant, context->settings, timers);
  if (!parsed) return refuse(*inbound.reply, id, parsed.error());
  auto charge = charge_timers(context->ladder, job->tenant, parsed->command.timers, Within::transaction);
  if (!charge) return inbound.reply->send(denied_transaction(id, charge.error()));
  job->timers_charge = *std::move(charge);
  if (const auto denied = charge_kv(context->ladder, parsed->command.kv, *job)) {
    job->give_back();
    return inbound.reply->send(denied_transaction(id, *denied));
  }
  machine::Command command{job->tenant, id, prepare(context, *std::move(parsed), *job, id)};
  submit_command<TransactionOutcome>(
      context, std::move(inbound.reply), context->settings.stmt_timeout_ms, std::move(command),
      [context, job, id](machine::Command transaction, auto done) {
        const std::int64_t deadline = transaction.deadline_mono_us;
        submit_sealing<machine::Outcome>(
            context, std::move(transaction),
            [&broker = context->broker](machine::Command prepared, auto then) {
              broker.ack(std::move(prepared), std::move(then));
            },
            [context, job, id, deadline] { return prepared_again(context, *job, id, deadline); },
            std::move(done));
      },
      [job](const TransactionOutcome& outcome) {
        if (!outcome.reason.empty()) job->give_back();
        return json_response(200, render_transaction(job->echo, outcome));
      },
      [job](const broker::Refusal& refusal) {
        if (is_certain(refusal)) job->give_back();
        return refusal_response(refusal);
      });
}

}  // namespace queen::api
