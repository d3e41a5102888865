// The broker port and the object store as coroutines of one executor, each broker call with its time budget.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/task.h"
#include "s3/object_store.h"
#include "sink/broker_port.h"

namespace queen::sink {

// Calls of one sink. Only on its executor, which must outlive the last callback of `port`. A call that is not
// answered within its budget (fetch, changed, list: 30 s; kv: 10 s) fails as transport; its late answer is
// dropped.
class BrokerCalls {
 public:
  BrokerCalls(BrokerPort& port, Executor& executor) : port_(port), executor_(executor) {}
  Task<CallOutcome<FetchAnswer>> fetch(std::string queue, std::vector<FetchRequest> requests);
  Task<CallOutcome<ChangedPage>> changed(std::string queue, ChangedRequest request);
  Task<CallOutcome<machine::KvOutcome>> kv(std::vector<machine::KvOp> ops);
  Task<CallOutcome<std::vector<std::string>>> list_queues();
  Executor& executor() { return executor_; }

 private:
  BrokerPort& port_;
  Executor& executor_;
};

// Requests to the bucket; each resumes on the executor.
class StoreCalls {
 public:
  StoreCalls(s3::ObjectStore& store, Executor& executor) : store_(store), executor_(executor) {}
  Task<s3::Outcome<s3::PutDone>> put(std::string key, std::shared_ptr<const Bytes> body,
                                     s3::PutOptions options);
  Task<s3::Outcome<std::optional<Bytes>>> get(std::string key, std::uint64_t bytes_max);
  Task<s3::Outcome<std::optional<std::uint64_t>>> head(std::string key);
  Task<s3::Outcome<s3::Listing>> list(std::string prefix, std::string start_after, int max_keys);
  s3::ObjectStore& store() { return store_; }

 private:
  s3::ObjectStore& store_;
  Executor& executor_;
};

// `what` is the step that failed, for status and logs: `kv intent: …`.
std::string sentence(std::string_view what, const CallError& error);
std::string sentence(std::string_view what, const s3::S3Error& error);

// KV operations in the sink's namespace.
machine::KvOp kv_get(std::string key);
machine::KvOp kv_put(std::string key, std::string value, std::optional<std::int64_t> ttl_seconds);
machine::KvOp kv_delete(std::string key, std::uint64_t expect);
// With `expect` and `required`: the whole batch rolls back when the row is at another version.
machine::KvOp kv_put_required(std::string key, std::string value, std::optional<std::int64_t> ttl_seconds,
                              std::uint64_t expect);

}  // namespace queen::sink
