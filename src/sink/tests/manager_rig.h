// Whole nodes, each with its manager, over one fake broker and one bucket, in virtual time: every request to
// the bucket and every log line is kept, and a node can be cut off from both as if its process had died.
#pragma once

#include <simdjson.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sink/sink.h"
#include "sink/tests/task_rig.h"

namespace queen::sink::test {

// A request that some node made of the bucket.
struct StoreRequest {
  enum class Kind : std::uint8_t { put, get, head, list } kind = Kind::put;
  std::string key;  // of a listing: its prefix
  int max_keys = 0;
};

// Whether a node still reaches the world.
struct Link {
  bool dead = false;
  bool final = false;  // of a dead one: what it still asks for is refused for good, so that its tasks end
  bool lists_get_stuck = false;  // a listing of checkpoints does not advance (HD-10)
  int fail_first_reads = 0;
};

// A store that is owned by a manager and leads to the bucket that all of them share.
class LinkedStore final : public s3::ObjectStore {
 public:
  LinkedStore(Cell& cell, const Link& link, std::vector<StoreRequest>& requests)
      : cell_(cell), link_(link), requests_(requests) {}
  void put(std::string key, std::shared_ptr<const Bytes> body, s3::PutOptions options,
           Done<s3::PutDone> done) override {
    requests_.push_back({StoreRequest::Kind::put, key});
    if (!cut(done)) cell_.store.put(std::move(key), std::move(body), std::move(options), std::move(done));
  }
  void get(std::string key, std::uint64_t bytes_max, Done<std::optional<Bytes>> done) override {
    requests_.push_back({StoreRequest::Kind::get, key});
    if (!cut(done)) cell_.store.get(std::move(key), bytes_max, std::move(done));
  }
  void head(std::string key, Done<std::optional<std::uint64_t>> done) override {
    requests_.push_back({StoreRequest::Kind::head, key});
    if (!cut(done)) cell_.store.head(std::move(key), std::move(done));
  }
  void list(std::string prefix, std::string start_after, int max_keys, Done<s3::Listing> done) override {
    requests_.push_back({StoreRequest::Kind::list, prefix, max_keys});
    if (link_.lists_get_stuck && prefix.ends_with("/checkpoint/")) {
      s3::Listing stuck;
      stuck.stuck = true;
      return cell_.executor.post([done = std::move(done), stuck = std::move(stuck)]() mutable {
        done(s3::Outcome<s3::Listing>{std::move(stuck), std::nullopt});
      });
    }
    if (!cut(done)) cell_.store.list(std::move(prefix), std::move(start_after), max_keys, std::move(done));
  }
  void cancel() override { cell_.store.cancel(); }
  void resume() override { cell_.store.resume(); }
  void cancel_keys(const std::vector<std::string>& prefixes) override { cell_.store.cancel_keys(prefixes); }

 private:
  template <class T>
  bool cut(Done<T>& done) {
    if (!link_.dead) return false;
    s3::S3Error error;
    error.retriable = !link_.final;
    cell_.executor.post_after(link_.final ? 0 : kSecond, [done = std::move(done), error]() mutable {
      done(s3::Outcome<T>{std::nullopt, error});
    });
    return true;
  }
  Cell& cell_;
  const Link& link_;
  std::vector<StoreRequest>& requests_;
};

class LinkedPort final : public BrokerPort {
 public:
  LinkedPort(Cell& cell, Link& link) : cell_(cell), link_(link) {}
  void fetch(std::string queue, std::vector<FetchRequest> requests, CallDone<FetchAnswer> done) override {
    if (!cut(done)) cell_.broker.fetch(std::move(queue), std::move(requests), std::move(done));
  }
  void changed(std::string queue, ChangedRequest request, CallDone<ChangedPage> done) override {
    if (!cut(done)) cell_.broker.changed(std::move(queue), std::move(request), std::move(done));
  }
  void kv(std::vector<machine::KvOp> ops, CallDone<machine::KvOutcome> done) override {
    if (!cut(done)) cell_.broker.kv(std::move(ops), std::move(done));
  }
  void list_queues(CallDone<std::vector<std::string>> done) override {
    if (!cut(done)) cell_.broker.list_queues(std::move(done));
  }

 private:
  template <class T>
  bool cut(CallDone<T>& done) {
    if (!link_.dead && link_.fail_first_reads == 0) return false;
    if (link_.fail_first_reads > 0) --link_.fail_first_reads;
    const CallClass cls = link_.final ? CallClass::config : CallClass::transport;
    cell_.executor.post_after(link_.dead && !link_.final ? kSecond : 1000,
                              [done = std::move(done), cls]() mutable {
                                done(tl::unexpected(make_call_error(cls, 0, "the node is cut off")));
                              });
    return true;
  }
  Cell& cell_;
  Link& link_;
};

// `event key=value …` of each line.
class KeptLog final : public LogSink {
 public:
  bool enabled(LogLevel level, std::string_view /*target*/) const override { return level >= LogLevel::info; }
  void write(LogLevel /*level*/, std::string_view /*target*/, std::string_view event,
             std::span<const LogField> fields) override {
    std::string line(event);
    for (const LogField& field : fields) line += " " + field.key + "=" + field.text;
    lines.push_back(std::move(line));
  }
  std::size_t count(std::string_view event) const {
    return static_cast<std::size_t>(std::count_if(
        lines.begin(), lines.end(), [&](const std::string& line) { return line.starts_with(event); }));
  }
  std::vector<std::string> lines;
};

// A manager outlives its last timer, and here time goes on after a node has ended: the cell keeps what it was
// made of.
class Managed {
  struct Parts {
    Parts(Cell& cell, Link first) : link(first), random(++cell.nodes_made) {}
    std::vector<StoreRequest> requests;
    KeptLog log;
    Link link;
    SeededRandom random;
    std::unique_ptr<SinkManager> manager;
    bool drained = false;
  };

 public:
  Managed(Cell& cell, UnitSettings unit, const std::string& instance, NodeSettings node = quick_node(),
          Link link = Link())
      : cell_(cell), parts_(std::make_shared<Parts>(cell, link)) {
    cell.kept.push_back(parts_);
    unit.secret_key = "hush-hush";
    SinkSettings settings{.environment = unit, .node = std::move(node), .ignored = {}};
    settings.node.instance = instance;
    SinkParts parts;
    parts.broker = [&cell, kept = parts_.get()](const std::string& /*tenant*/) {
      return std::make_unique<LinkedPort>(cell, kept->link);
    };
    parts.store = [&cell, kept = parts_.get()](const s3::ClientSettings& /*client*/) {
      return std::make_unique<LinkedStore>(cell, kept->link, kept->requests);
    };
    parts_->manager =
        make_sink(settings, std::move(parts), cell.executor, parts_->random, Logger(log, "x"), "0.1.0");
    parts_->manager->start();
  }
  ~Managed() {
    cell_.broker.fail_kv = 0;
    parts_->link.final = parts_->link.dead;
    EXPECT_TRUE(drain(20 * kSecond)) << "its tasks do not end";  // well inside the grace
  }
  // SIGTERM; gives whether it ended in time.
  bool drain(std::int64_t us = 60 * kSecond) {
    if (!asked_) parts_->manager->drain([parts = parts_.get()] { parts->drained = true; });
    asked_ = true;
    return cell_.run_until([this] { return parts_->drained; }, us);
  }
  // SIGKILL, for all that others can see.
  void die() { parts_->link.dead = true; }
  SinkManager& manager() { return *parts_->manager; }
  std::string status() const { return parts_->manager->status_json(); }
  int held() const { return number("held"); }
  int number(const char* of_placement) const {
    simdjson::dom::parser parser;
    simdjson::dom::element json;
    std::int64_t found = -1;
    if (parser.parse(status()).get(json) || json["sinks"].at(0)["placement"][of_placement].get(found))
      return -1;
    return static_cast<int>(found);
  }

 private:
  Cell& cell_;
  std::shared_ptr<Parts> parts_;
  bool asked_ = false;

 public:
  std::vector<StoreRequest>& requests = parts_->requests;
  KeptLog& log = parts_->log;
};

// Who holds each queue by the rows of the KV, as `instance`; a queue whose row is free is left out.
inline std::map<std::string, std::string> owners(const Cell& cell, const std::vector<std::string>& queues) {
  std::map<std::string, std::string> out;
  for (const std::string& queue : queues) {
    const auto row = cell.broker.live(lease_key("default", queue));
    if (row) out[queue] = parse_lease_row(row->value)->instance;
  }
  return out;
}
// How many queues `instance` holds.
inline int held_by(const Cell& cell, const std::vector<std::string>& queues, const std::string& instance) {
  int held = 0;
  for (const auto& [queue, owner] : owners(cell, queues)) held += owner == instance;
  return held;
}

}  // namespace queen::sink::test
