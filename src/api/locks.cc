// Locks: the route. A call is one read, one write with all rows, and then what was lost to somebody
// meanwhile.
#include "api/detail/locks.h"

#include <algorithm>

#include "api/detail/kv_call.h"

namespace queen::api {
namespace {

struct LocksJob {
  SharedContext context;
  KvCaller caller;
  std::vector<LockStep> steps;
  std::shared_ptr<Pending> pending;  // shared with its deadline
  std::shared_ptr<Ladder::Charge> charge;
};

std::vector<std::size_t> steps_that_want(const LocksJob& job, LockStep::Wants wants) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < job.steps.size(); ++i)
    if (job.steps[i].wants() == wants) out.push_back(i);
  return out;
}

std::string render(const LocksJob& job) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("results").open('[');
  for (std::size_t i = 0; i < job.steps.size(); ++i) {
    out.open('{').name("index").number(i);
    job.steps[i].write(out);
    out.close('}');
  }
  out.close(']').close('}');
  return text;
}

// Asks the store for all that is wanted: reads first, so that the writes of all operations are one call.
void advance(const std::shared_ptr<LocksJob>& job) {
  auto asked = steps_that_want(*job, LockStep::Wants::read);
  if (asked.empty()) asked = steps_that_want(*job, LockStep::Wants::write);
  if (asked.empty()) {
    const auto added = [](const LockStep& step) { return step.added_row(); };
    if (std::none_of(job->steps.begin(), job->steps.end(), added)) job->charge->give_back();
    job->pending->answer(json_response(200, render(*job)));
    return;
  }
  machine::KvCommand command;
  for (const std::size_t i : asked) command.ops.push_back(job->steps[i].ask(job->context->random));
  run_kv(job->context, job->caller, std::move(command),
         [job, asked = std::move(asked)](tl::expected<machine::KvOutcome, http::Response> outcome) {
           if (!outcome) {
             job->pending->answer(std::move(outcome).error());
             return;
           }
           for (std::size_t i = 0; i < asked.size(); ++i) job->steps[asked[i]].told(outcome->ops[i]);
           advance(job);
         });
}

}  // namespace

void handle_locks(const SharedContext& context, Inbound inbound) {
  auto operations = parse_locks(inbound.request.body);
  if (!operations) return inbound.reply->send(kv_fault_response(operations.error()));
  const auto acquires = std::count_if(operations->begin(), operations->end(),
                                      [](const LockOp& op) { return op.kind == LockKind::acquire; });
  const bool writes = std::any_of(operations->begin(), operations->end(),
                                  [](const LockOp& op) { return op.kind != LockKind::get; });
  auto pass = context->ladder.kv(inbound.tenant, writes, {.rows = acquires});
  if (!pass) return inbound.reply->send(kv_fault_response(kv_denied(pass.error())));
  auto pending = std::make_shared<Pending>(context->deadlines, std::move(inbound.reply));
  auto job = std::make_shared<LocksJob>(
      LocksJob{context,
               {std::move(inbound.tenant), context->deadline_us(context->settings.default_timeout_ms)},
               {},
               pending,
               std::make_shared<Ladder::Charge>(*std::move(pass))});
  for (LockOp& op : *operations) job->steps.emplace_back(std::move(op));
  pending->set_deadline(job->caller.deadline_mono_us,
                        [pending] { pending->answer(kv_refusal_response(kv_too_late())); });
  advance(job);
}

}  // namespace queen::api
