#include "sink/calls.h"

#include <fmt/format.h>

#include <coroutine>

namespace queen::sink {
namespace {

constexpr std::int64_t kReadBudgetUs = 30'000'000;
constexpr std::int64_t kKvBudgetUs = 10'000'000;

// The first of answer and time-out wins. Lives on the executor; both ends arrive there as posted work.
template <class T>
struct Race {
  std::optional<CallOutcome<T>> value;
  std::coroutine_handle<> waiter;
  bool over = false;

  void finish(CallOutcome<T> outcome) {
    if (over) return;
    over = true;
    value.emplace(std::move(outcome));
    if (waiter) waiter.resume();
  }
};

template <class T>
class RaceAwaiter {
 public:
  explicit RaceAwaiter(std::shared_ptr<Race<T>> race) : race_(std::move(race)) {}
  bool await_ready() const noexcept { return race_->over; }
  void await_suspend(std::coroutine_handle<> caller) { race_->waiter = caller; }
  CallOutcome<T> await_resume() {
    CallOutcome<T> out = std::move(*race_->value);
    race_->value.reset();
    return out;
  }

 private:
  std::shared_ptr<Race<T>> race_;
};

template <class T>
std::shared_ptr<Race<T>> start_race(Executor& executor, std::int64_t budget_us, const char* what) {
  auto race = std::make_shared<Race<T>>();
  executor.post_after(budget_us, [race, budget_us, what] {
    if (race->over) return;
    auto text = fmt::format("{} was not answered in {} s", what, budget_us / 1'000'000);
    race->finish(tl::unexpected(make_call_error(CallClass::transport, 0, std::move(text))));
  });
  return race;
}

template <class T>
CallDone<T> end_of(Executor& executor, const std::shared_ptr<Race<T>>& race) {
  return [&executor, race](CallOutcome<T> outcome) {
    auto held = std::make_shared<CallOutcome<T>>(std::move(outcome));
    executor.post([race, held] { race->finish(std::move(*held)); });
  };
}

}  // namespace

Task<CallOutcome<FetchAnswer>> BrokerCalls::fetch(std::string queue, std::vector<FetchRequest> requests) {
  const std::size_t asked = requests.size();
  auto race = start_race<FetchAnswer>(executor_, kReadBudgetUs, "fetch");
  port_.fetch(std::move(queue), std::move(requests), end_of(executor_, race));
  RaceAwaiter<FetchAnswer> awaiter(race);
  CallOutcome<FetchAnswer> out = co_await awaiter;
  if (out && out->entries.size() != asked) {
    auto text = fmt::format("{} entries answered for {} asked", out->entries.size(), asked);
    out = tl::unexpected(make_call_error(CallClass::body, 0, std::move(text)));
  }
  co_return out;
}

Task<CallOutcome<ChangedPage>> BrokerCalls::changed(std::string queue, ChangedRequest request) {
  auto race = start_race<ChangedPage>(executor_, kReadBudgetUs, "partitions/changed");
  port_.changed(std::move(queue), std::move(request), end_of(executor_, race));
  RaceAwaiter<ChangedPage> awaiter(race);
  co_return co_await awaiter;
}

Task<CallOutcome<machine::KvOutcome>> BrokerCalls::kv(std::vector<machine::KvOp> ops) {
  const std::size_t asked = ops.size();
  auto race = start_race<machine::KvOutcome>(executor_, kKvBudgetUs, "kv");
  port_.kv(std::move(ops), end_of(executor_, race));
  RaceAwaiter<machine::KvOutcome> awaiter(race);
  CallOutcome<machine::KvOutcome> out = co_await awaiter;
  const bool readable = !out || out->failed_index || out->ops.size() == asked;
  if (!readable) {
    auto text = fmt::format("{} results answered for {} operations", out->ops.size(), asked);
    out = tl::unexpected(make_call_error(CallClass::body, 0, std::move(text)));
  }
  co_return out;
}

Task<CallOutcome<std::vector<std::string>>> BrokerCalls::list_queues() {
  using Names = std::vector<std::string>;
  auto race = start_race<Names>(executor_, kReadBudgetUs, "the list of queues");
  port_.list_queues(end_of(executor_, race));
  RaceAwaiter<Names> awaiter(race);
  co_return co_await awaiter;
}

Task<s3::Outcome<s3::PutDone>> StoreCalls::put(std::string key, std::shared_ptr<const Bytes> body,
                                               s3::PutOptions options) {
  using Value = s3::Outcome<s3::PutDone>;
  auto start = [&](UniqueFunction<void(Value)> done) {
    store_.put(std::move(key), std::move(body), std::move(options), std::move(done));
  };
  auto awaiter = callback_result<Value>(executor_, start);
  co_return co_await awaiter;
}

Task<s3::Outcome<std::optional<Bytes>>> StoreCalls::get(std::string key, std::uint64_t bytes_max) {
  using Value = s3::Outcome<std::optional<Bytes>>;
  auto start = [&](UniqueFunction<void(Value)> done) {
    store_.get(std::move(key), bytes_max, std::move(done));
  };
  auto awaiter = callback_result<Value>(executor_, start);
  co_return co_await awaiter;
}

Task<s3::Outcome<std::optional<std::uint64_t>>> StoreCalls::head(std::string key) {
  using Value = s3::Outcome<std::optional<std::uint64_t>>;
  auto start = [&](UniqueFunction<void(Value)> done) { store_.head(std::move(key), std::move(done)); };
  auto awaiter = callback_result<Value>(executor_, start);
  co_return co_await awaiter;
}

Task<s3::Outcome<s3::Listing>> StoreCalls::list(std::string prefix, std::string start_after, int max_keys) {
  using Value = s3::Outcome<s3::Listing>;
  auto start = [&](UniqueFunction<void(Value)> done) {
    store_.list(std::move(prefix), std::move(start_after), max_keys, std::move(done));
  };
  auto awaiter = callback_result<Value>(executor_, start);
  co_return co_await awaiter;
}

std::string sentence(std::string_view what, const CallError& error) {
  if (error.cls == CallClass::status) return fmt::format("{}: status {}: {}", what, error.status, error.text);
  return fmt::format("{}: {}: {}", what, name_of(error.cls), error.text);
}

std::string sentence(std::string_view what, const s3::S3Error& error) {
  return fmt::format("{}: {}", what, error.sentence);
}

machine::KvOp kv_get(std::string key) {
  machine::KvOp op;
  op.kind = machine::KvKind::get;
  op.ns = kKvNamespace;
  op.key = std::move(key);
  return op;
}

machine::KvOp kv_put(std::string key, std::string value, std::optional<std::int64_t> ttl_seconds) {
  machine::KvOp op;
  op.kind = machine::KvKind::put;
  op.ns = kKvNamespace;
  op.key = std::move(key);
  op.value = std::move(value);
  op.ttl_seconds = ttl_seconds;
  return op;
}

machine::KvOp kv_delete(std::string key, std::uint64_t expect) {
  machine::KvOp op;
  op.kind = machine::KvKind::del;
  op.ns = kKvNamespace;
  op.key = std::move(key);
  op.expect = expect;
  return op;
}

machine::KvOp kv_put_required(std::string key, std::string value, std::optional<std::int64_t> ttl_seconds,
                              std::uint64_t expect) {
  machine::KvOp op = kv_put(std::move(key), std::move(value), ttl_seconds);
  op.expect = expect;
  op.required = true;
  return op;
}

}  // namespace queen::sink
