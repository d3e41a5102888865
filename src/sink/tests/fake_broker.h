// A broker for the sink in virtual time: one log per queue, and a KV with versions, expiry and preconditions.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/executor.h"
#include "sink/broker_port.h"
#include "sink/tests/fake_log.h"

namespace queen::sink::test {

struct KvRow {
  std::string value;
  std::uint64_t version = 0;
  std::optional<std::int64_t> expires_at;  // wall clock, µs
};

// Answers arrive on the executor, `latency_us` after the call; what they say is judged when they arrive.
class FakeBroker final : public BrokerPort {
 public:
  explicit FakeBroker(Executor& executor) : executor_(executor) {}

  std::map<std::string, FakeLog> queues;
  std::map<std::string, KvRow> rows;  // expired ones stay until written
  int fail_reads = 0, fail_kv = 0, fail_lists = 0;
  int refuse_kv = 0;        // with a status that no repeat gets past
  int lose_kv_answers = 0;  // applied, and never heard of
  std::int64_t latency_us = 0, kv_latency_us = 0;
  std::optional<std::int64_t> pinned_safe;
  std::uint64_t fetch_bytes_most = 0;  // payload bytes that one call asked for
  std::uint64_t fetch_calls = 0, changed_calls = 0, kv_calls = 0, kv_writes = 0;

  // Stamps follow the clock, and go on by one within a tick of it.
  std::int64_t push(const std::string& queue, const std::string& partition, const std::string& payload) {
    FakeLog& log = at(queue);
    last_ = log.now = std::max(last_, log.now);
    const std::int64_t ts = log.push(partition, payload);
    last_ = std::max(last_, ts);
    return ts;
  }
  FakeLog& at(const std::string& queue) {
    FakeLog& log = queues[queue];
    log.now = std::max(log.now, executor_.clock().wall_us());
    return log;
  }
  std::optional<KvRow> live(const std::string& key) const {
    const auto found = rows.find(key);
    if (found == rows.end() || expired(found->second)) return std::nullopt;
    return found->second;
  }
  void put_behind(const std::string& key, const std::string& value) {
    rows[key] = KvRow{.value = value, .version = ++version_, .expires_at = std::nullopt};
  }

  void fetch(std::string queue, std::vector<FetchRequest> requests, CallDone<FetchAnswer> done) override {
    ++fetch_calls;
    std::uint64_t asked = 0;
    for (const FetchRequest& request : requests) asked += request.bytes_max;
    fetch_bytes_most = std::max(fetch_bytes_most, asked);
    auto answer = [this, queue, requests = std::move(requests), done = std::move(done)]() mutable {
      if (take(fail_reads)) return done(down());
      FetchAnswer out;
      for (const FetchRequest& request : requests) {
        if (queues.contains(queue)) {
          out.entries.push_back(at(queue).fetch(request));
        } else {
          out.entries.emplace_back();
          out.entries.back().error = kErrorUnknown;
        }
      }
      done(std::move(out));
    };
    executor_.post_after(latency_us, std::move(answer));
  }

  void changed(std::string queue, ChangedRequest request, CallDone<ChangedPage> done) override {
    ++changed_calls;
    auto answer = [this, queue, request, done = std::move(done)]() mutable {
      if (take(fail_reads)) return done(down());
      ChangedPage page;
      page.error = kErrorUnknown;
      if (queues.contains(queue)) page = at(queue).changed(request);
      if (pinned_safe) page.safe_time = *pinned_safe;
      done(std::move(page));
    };
    executor_.post_after(latency_us, std::move(answer));
  }

  void kv(std::vector<machine::KvOp> ops, CallDone<machine::KvOutcome> done) override {
    ++kv_calls;
    auto answer = [this, ops = std::move(ops), done = std::move(done)]() mutable {
      if (take(fail_kv)) return done(down());
      if (take(refuse_kv))
        return done(tl::unexpected(make_call_error(CallClass::status, 400, "bad_request: told to")));
      const bool lost = take(lose_kv_answers);
      machine::KvOutcome outcome = apply(ops);
      if (lost) return done(tl::unexpected(make_call_error(CallClass::transport, 0, "the answer is lost")));
      done(std::move(outcome));
    };
    executor_.post_after(kv_latency_us, std::move(answer));
  }

  void list_queues(CallDone<std::vector<std::string>> done) override {
    auto answer = [this, done = std::move(done)]() mutable {
      if (take(fail_lists)) return done(down());
      std::vector<std::string> names;
      for (const auto& [name, log] : queues) names.push_back(name);
      done(std::move(names));
    };
    executor_.post_after(latency_us, std::move(answer));
  }

 private:
  static bool take(int& left) { return left > 0 && left-- > 0; }
  static tl::unexpected<CallError> down() {
    return tl::unexpected(make_call_error(CallClass::status, 503, "retry: the broker is told to fail"));
  }
  bool expired(const KvRow& row) const {
    return row.expires_at && *row.expires_at <= executor_.clock().wall_us();
  }
  static machine::KvFound found_of(const std::string& key, const KvRow& row) {
    machine::KvFound out;
    out.key = key;
    out.value = row.value;
    out.version = row.version;
    return out;
  }

  machine::KvOutcome apply(const std::vector<machine::KvOp>& ops) {
    const auto before = rows;
    machine::KvOutcome out;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      machine::KvOpOutcome one = apply_one(ops[i]);
      const bool write = ops[i].kind >= machine::KvKind::put;
      if (write && !one.applied && ops[i].required) {
        rows = before;
        machine::KvOutcome lost;
        lost.failed_index = static_cast<std::uint32_t>(i);
        lost.failed_reason = one.reason;
        lost.failed_row = one.row;
        return lost;
      }
      if (write && one.applied) ++kv_writes;
      out.ops.push_back(std::move(one));
    }
    return out;
  }

  machine::KvOpOutcome apply_one(const machine::KvOp& op) {
    machine::KvOpOutcome out;
    if (op.kind == machine::KvKind::get_prefix) return prefix(op);
    if (op.kind == machine::KvKind::get_many) {
      for (const std::string& key : op.keys) {
        if (const auto row = live(key)) {
          out.rows.push_back(found_of(key, *row));
        } else {
          out.missing.push_back(key);
        }
      }
      return out;
    }
    const auto row = live(op.key);
    if (row) out.row = found_of(op.key, *row);
    if (op.kind == machine::KvKind::get) return out;
    const std::uint64_t at_version = row ? row->version : 0;
    if (op.kind == machine::KvKind::put_if_absent && row) {
      out.reason = "exists";
      return out;
    }
    if (op.expect && *op.expect != at_version) {
      out.reason = row ? "version" : "absent";
      return out;
    }
    out.applied = op.kind != machine::KvKind::del || row.has_value();
    if (op.kind == machine::KvKind::del) {
      rows.erase(op.key);
      return out;
    }
    KvRow made{.value = op.value, .version = ++version_, .expires_at = std::nullopt};
    if (op.ttl_seconds) made.expires_at = executor_.clock().wall_us() + *op.ttl_seconds * 1'000'000;
    rows[op.key] = made;
    out.row = found_of(op.key, made);
    return out;
  }

  machine::KvOpOutcome prefix(const machine::KvOp& op) const {
    machine::KvOpOutcome out;
    for (auto at = rows.upper_bound(std::max(op.prefix, op.after)); at != rows.end(); ++at) {
      if (!at->first.starts_with(op.prefix)) break;
      if (expired(at->second)) continue;
      if (out.rows.size() == op.limit) {
        out.truncated = true;
        out.next_after = out.rows.back().key;
        break;
      }
      out.rows.push_back(found_of(at->first, at->second));
    }
    return out;
  }

  Executor& executor_;
  std::int64_t last_ = 0;
  std::uint64_t version_ = 100;
};

}  // namespace queen::sink::test
