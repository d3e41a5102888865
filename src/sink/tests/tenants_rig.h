// A node with the sinks of several tenants: a broker for each, one bucket store, rows of the control plane.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "auth/payload_cipher.h"
#include "s3/memory_store.h"
#include "sink/control_plane.h"
#include "sink/sink.h"
#include "sink/tests/borrowed.h"
#include "sink/tests/recording_log.h"
#include "sink/tests/task_rig.h"

namespace queen::sink::test {

inline constexpr const char* kTenantA = "aaaaaaaa-0000-4000-8000-000000000001";
inline constexpr const char* kTenantB = "bbbbbbbb-0000-4000-8000-000000000002";
inline const std::string kKeyHex(64, '1');
inline const std::string kOtherKeyHex(64, '2');

inline std::unique_ptr<auth::PayloadCipher> cipher_of(const std::string& hex) {
  auto cipher = auth::PayloadCipher::from_hex(hex);
  EXPECT_TRUE(cipher);
  return std::move(*cipher);
}

class FakeControlPlane final : public ControlPlanePort {
 public:
  std::map<std::string, SinkRow> rows;  // by key
  int fail = 0;
  int reads = 0;

  Task<CallOutcome<SinkRowPage>> page(std::string after) override {
    ++reads;
    if (fail > 0) {
      --fail;
      co_return tl::unexpected(make_call_error(CallClass::status, 503, "no leader"));
    }
    SinkRowPage out;
    auto next = rows.upper_bound(after);
    if (next != rows.end()) out.rows.push_back(next->second);
    if (next != rows.end() && std::next(next) != rows.end()) out.next = next->first;
    co_return out;
  }
};

struct Cluster {
  ManualClock clock{kEpoch + 10 * kSecond};
  ManualExecutor executor{clock};
  std::map<std::string, std::unique_ptr<FakeBroker>> brokers;  // by tenant
  std::map<std::string, std::unique_ptr<s3::MemoryStore>> buckets;
  FakeControlPlane control_plane;

  FakeBroker& broker(const std::string& tenant) {
    auto& found = brokers[tenant];
    if (!found) found = std::make_unique<FakeBroker>(executor);
    return *found;
  }
  s3::MemoryStore& bucket(const std::string& name) {
    auto& found = buckets[name];
    if (!found) found = std::make_unique<s3::MemoryStore>(executor);
    return *found;
  }
  std::uint64_t committed_k(const std::string& tenant) {
    const auto row = broker(tenant).live(committed_key("default", kQueue));
    return row ? parse_committed(row->value)->k : 0;
  }
  template <class Done>
  bool run_until(Done done, std::int64_t us = 600 * kSecond) {
    for (std::int64_t passed = 0; passed < us && !done(); passed += 10'000) executor.run_for(10'000);
    return done();
  }
  // The row of a sink as the control plane stores it; `more` are fields of its document.
  void set_row(const std::string& cluster, const std::string& tenant, std::int64_t updated_at,
               const std::string& bucket_name, const std::string& key_hex = kKeyHex, bool enabled = true,
               const std::string& more = "") {
    const std::string config = fmt::format(
        R"({{"endpoint":"http://minio:9000","region":"r","bucket":"{}","accessKey":"AK","queues":"rides","start":"earliest","maxWindowMs":10000{}}})",
        bucket_name, more);
    const auto sealed = cipher_of(key_hex)->seal("hush-hush");
    const std::string value = fmt::format(
        R"({{"cluster_id":"{}","broker_tenant":"{}","enabled":{},"config":{},"secret_key_sealed":{},"updated_at_us":{}}})",
        cluster, tenant, enabled, config, json_string(*sealed), updated_at);
    control_plane.rows["#" + cluster] = {
        .key = "#" + cluster,
        .value = value,
        .standing = {.slug = "slug-" + cluster, .cluster = Standing::active, .owner = Standing::active}};
  }
  ClusterStanding& standing(const std::string& cluster) {
    return control_plane.rows.at("#" + cluster).standing;
  }
};

// A manager over a Cluster. Drains before it goes.
class TenantNode {
 public:
  // Without `unit` no sink of the environment runs.
  TenantNode(Cluster& cluster, std::optional<UnitSettings> unit, LogSink& log = null_log())
      : cluster_(cluster), cipher_(cipher_of(kKeyHex)) {
    if (unit) unit->secret_key = "hush-hush";
    SinkSettings settings{.environment = unit, .node = quick_node(), .ignored = {}};
    SinkParts parts;
    parts.broker = [this](const std::string& tenant) -> std::unique_ptr<BrokerPort> {
      if (broker_of) return broker_of(tenant);
      return std::make_unique<BorrowedPort>(cluster_.broker(tenant));
    };
    parts.store = [this](const s3::ClientSettings& client) {
      secrets.push_back(client.secret_key);
      client.on_attempt({.op = "list", .status = 200});
      return std::make_unique<BorrowedStore>(cluster_.bucket(client.bucket));
    };
    parts.control_plane = &cluster.control_plane;
    parts.cipher = cipher_.get();
    manager_ = make_sink(settings, std::move(parts), cluster.executor, random_, Logger(log, "x"), "0.1.0");
    manager_->start();
  }
  ~TenantNode() { EXPECT_TRUE(drain()); }
  bool drain(std::int64_t us = 60 * kSecond) {
    if (!asked_) manager_->drain([this] { drained_ = true; });
    asked_ = true;
    return cluster_.run_until([this] { return drained_; }, us);
  }
  std::string status() const { return manager_->status_json(); }
  std::string metrics() const { return manager_->metrics_text(); }

  std::vector<std::string> secrets;  // that clients were made with
  std::function<std::unique_ptr<BrokerPort>(const std::string&)> broker_of;

 private:
  Cluster& cluster_;
  std::unique_ptr<auth::PayloadCipher> cipher_;
  SeededRandom random_{11};
  std::unique_ptr<SinkManager> manager_;
  bool asked_ = false, drained_ = false;
};

}  // namespace queen::sink::test
