#include "tenants.h"

#include "base/text.h"
#include "broker/kv_reads.h"
#include "checkers/lake_oracle.h"
#include "s3/digests.h"
#include "sink/broker_port.h"
#include "sink/control_plane.h"
#include "traffic.h"

namespace queen::sim {
namespace {

using PushAnswered = broker::Answer<broker::PushAnswer>;
using CommandAnswered = broker::Answer<machine::Outcome>;

constexpr const char* kTenant = "aaaaaaaa-0000-4000-8000-000000000001";
constexpr const char* kOther = "bbbbbbbb-0000-4000-8000-000000000002";
constexpr const char* kSink = "default";
constexpr const char* kPrefix = "lakes";
constexpr std::int64_t kLookEveryUs = 700 * kMsUs;

class Tenants final : public Workload {
 public:
  Tenants(Scene& scene, TenantsPlan plan)
      : scene_(scene), plan_(std::move(plan)), tasks_(scene.clients.lane) {}

  std::string_view name() const override { return "tenants"; }
  void start() override;
  bool ended() const override { return tasks_.ended(); }
  void drain() override;
  void check() override;

 private:
  Task<void> produce(Client& client);
  Task<void> push(Client& client, PartitionName where, std::vector<std::string> ids);
  Task<void> rule(Client& client);
  Task<void> wait_for_bucket(Client& client);
  // Until it is answered.
  Task<void> put_row(Client& client, std::string key, std::string value);
  std::string row(Client& client, bool enabled);
  std::optional<sink::Committed> pointer();
  bool read_logs();
  void check_lake_of_tenant();
  sink::LakePath path() const { return {kPrefix, kTenant, plan_.queue}; }
  std::int64_t last_stamp() const;

  Scene& scene_;
  TenantsPlan plan_;
  Tasks tasks_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::map<PartitionName, std::map<std::string, std::optional<std::uint64_t>>> sent_;  // offsets as answered
  std::map<PartitionName, PartitionRead> logs_;
  std::uint64_t numbers_ = 0, versions_ = 0;
};

void Tenants::start() {
  const auto add = [&]() -> Client& { return *clients_.emplace_back(scene_.new_client()); };
  tasks_.start(produce(add()));
  tasks_.start(rule(add()));
}

Task<void> Tenants::produce(Client& client) {
  Dice& dice = client.dice();
  for (std::int64_t i = 0; i < plan_.pushes && !scene_.quiet && !scene_.story.failed(); ++i) {
    const PartitionName where{plan_.queue,
                              fmt::format("p{}", dice.below(static_cast<std::uint64_t>(plan_.partitions)))};
    std::vector<std::string> ids;
    for (std::int64_t count = dice.pick({1, 2, 5}); count > 0; --count)
      ids.push_back(fmt::format("{}/{}/{}", where.queue, where.partition, ++numbers_));
    co_await push(client, where, std::move(ids));
    co_await client.sleep(dice.between(0, plan_.pause_us_max));
  }
}

Task<void> Tenants::push(Client& client, PartitionName where, std::vector<std::string> ids) {
  for (const auto& id : ids) sent_[where].try_emplace(id);
  machine::PushCommand body;
  body.batches.push_back(batch_of(client, where, ids, nullptr));
  const machine::Command command{kTenant, client.uuid(), std::move(body)};
  Client::Start<PushAnswered> start = [command](broker::Broker& broker,
                                                UniqueFunction<void(PushAnswered)> done) {
    broker.push(command, std::move(done));
  };
  ++scene_.calls;
  const auto reply = co_await client.call<PushAnswered>(std::move(start), kCallTimeoutUs);
  if (!reply || !reply->value) co_return;
  ++scene_.answers;
  const auto& items = reply->value->batches.at(0);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (items.at(i).status == broker::PushItemAnswer::Status::queued) sent_[where][ids[i]] = items[i].offset;
}

std::string Tenants::row(Client& client, bool enabled) {
  Dice& dice = client.dice();
  const std::string_view queues = plan_.all_queues ? R"("*")" : R"(["rides"])";
  const std::string config = fmt::format(
      R"({{"endpoint":"http://bucket","region":"r","bucket":"lake","accessKey":"AK","prefix":"{}","queues":{},)"
      R"("start":"earliest","maxWindowMs":{},"targetMb":"1","format":"{}","compression":"{}","layout":"{}","sse":null}})",
      kPrefix, queues, dice.pick({200, 1000}), dice.pick<const char*>({"jsonl", "jsonl", "parquet"}),
      dice.pick<const char*>({"zstd", "gzip", "none"}), dice.pick<const char*>({"merged", "per-partition"}));
  return fmt::format(
      R"({{"cluster_id":"one","broker_tenant":"{}","enabled":{},"config":{},"secret_key_sealed":{},"updated_at_us":{}}})",
      kTenant, enabled, config, json_string(sealed_text(client, "hush-hush", scene_.cipher)), ++versions_);
}

Task<void> Tenants::put_row(Client& client, std::string key, std::string value) {
  for (;;) {
    machine::KvOp put;
    put.kind = machine::KvKind::put;
    put.ns = sink::kSinkRowNamespace;
    put.key = key;
    put.value = value;
    machine::KvCommand body;
    body.ops.push_back(std::move(put));
    const machine::Command command{std::string(sink::kProxyTenant), client.uuid(), std::move(body)};
    Client::Start<CommandAnswered> start = [command](broker::Broker& broker,
                                                     UniqueFunction<void(CommandAnswered)> done) {
      broker.submit(command, std::move(done));
    };
    ++scene_.calls;
    const auto reply = co_await client.call<CommandAnswered>(std::move(start), kCallTimeoutUs);
    if (reply && reply->value && reply->value->code.empty()) co_return;
    if (scene_.story.failed()) co_return;
    co_await client.sleep(client.dice().between(kMsUs, 500 * kMsUs));
  }
}

// As the control plane: a sink comes, is changed, and is off for a while.
Task<void> Tenants::rule(Client& client) {
  Dice& dice = client.dice();
  if (plan_.bad_rows) {
    co_await put_row(client, "#bad", R"({"cluster_id":"bad"})");
    co_await put_row(
        client, "#worse",
        fmt::format(
            R"({{"cluster_id":"worse","broker_tenant":"{}","enabled":true,"config":{{"format":"csv"}},"secret_key_sealed":{},"updated_at_us":1}})",
            kOther, json_string(sealed_text(client, "hush-hush", scene_.cipher))));
  }
  for (std::int64_t i = 0; i < plan_.changes && !scene_.quiet; ++i) {
    const bool enabled = i == 0 || dice.chance(60);
    std::string value = row(client, enabled);
    co_await put_row(client, "#one", std::move(value));
    co_await client.sleep(dice.between(0, 4 * kSecondUs));
  }
}

void Tenants::drain() {
  clients_.push_back(scene_.new_client());
  tasks_.start(wait_for_bucket(*clients_.back()));
}

std::optional<sink::Committed> Tenants::pointer() {
  const broker::KvReads rows(scene_.node.broker().state());
  broker::KvListQuery query;
  query.ns = sink::kKvNamespace;
  query.prefix = sink::committed_key(kSink, plan_.queue);
  for (const auto& one : rows.list(kTenant, query, 0).rows) {
    if (one.key != query.prefix) continue;
    const auto committed = sink::parse_committed(one.row.value);
    if (committed) return *committed;
    scene_.story.violate("the commit pointer can be read", "{}: {}", plan_.queue, committed.error().what);
  }
  return std::nullopt;
}

bool Tenants::read_logs() {
  for (const auto& [where, ids] : sent_) {
    auto log = scene_.ledger.read(scene_.node, where, kTenant);
    if (!log) return false;
    logs_[where] = std::move(*log);
  }
  return true;
}

std::int64_t Tenants::last_stamp() const {
  std::int64_t last = INT64_MIN;
  for (const auto& [where, log] : logs_)
    if (!log.records.empty()) last = std::max(last, log.records.back().ts_us);
  return last;
}

// Whatever the row went through, the sink is on in the end.
Task<void> Tenants::wait_for_bucket(Client& client) {
  std::string value = row(client, true);
  co_await put_row(client, "#one", std::move(value));
  while (!scene_.story.failed()) {
    if (scene_.node.up() && read_logs()) {
      const auto committed = pointer();
      const std::int64_t last = last_stamp();
      if (last == INT64_MIN || (committed && committed->t_end > last)) co_return;
    }
    co_await client.sleep(kLookEveryUs);
  }
}

void Tenants::check() {
  if (!read_logs()) return;
  for (const auto& [where, ids] : sent_) {
    const auto& records = logs_[where].records;
    for (const auto& [id, offset] : ids)
      if (offset && (*offset >= records.size() || records[*offset].transaction_id != id))
        return scene_.story.violate("nothing answered is lost", "{}/{} {} at offset {}", where.queue,
                                    where.partition, id, *offset);
    for (const auto& record : records)
      if (!ids.contains(record.transaction_id) || record.payload != payload_of(record.transaction_id))
        return scene_.story.violate("nothing that nobody sent", "{}/{} {}", where.queue, where.partition,
                                    record.transaction_id);
  }
  check_lake_of_tenant();
  for (const auto& [key, body] : scene_.bucket.objects())
    if (key.find(kOther) != std::string::npos)
      return scene_.story.violate("a sink that cannot be made writes nothing", "{}", key);
}

void Tenants::check_lake_of_tenant() {
  LakeQuestion question;
  question.path = path();
  question.sink = kSink;
  question.pointer = pointer();
  for (const auto& [key, body] : scene_.bucket.objects()) question.objects[key] = *body;
  const std::string example = sink::data_key(path(), question.align, {}, "x");
  const std::string root = example.substr(0, example.rfind("/dt=") + 1);
  for (const auto& put : scene_.bucket.puts())
    if (put.key.starts_with(root)) question.puts.emplace_back(put.key, s3::sha256_hex(*put.body));
  for (const auto& [where, log] : logs_) {
    PartitionLife life{where.partition, {}};
    for (const auto& record : log.records)
      life.records.push_back(
          {record.offset, record.ts_us, record.transaction_id, record.payload, Fate::kept, true});
    question.log.push_back(std::move(life));
  }
  const LakeAnswer answer = check_lake(question);
  if (!answer.right())
    scene_.story.violate("the lake is right", "tenant {}: {}", kTenant, answer.complaints.front());
}

}  // namespace

TenantsPlan draw_tenants(Dice& dice, bool small) {
  TenantsPlan out;
  out.partitions = dice.pick({1, 2, 3});
  out.pushes = small ? dice.pick({3, 6}) : dice.pick({10, 30});
  out.changes = small ? dice.pick({1, 2}) : dice.pick({1, 4});
  out.pause_us_max = dice.pick({50 * kMsUs, 500 * kMsUs});
  out.all_queues = dice.chance(30);
  out.bad_rows = dice.chance(40);
  return out;
}

std::unique_ptr<Workload> make_tenants(Scene& scene, TenantsPlan plan) {
  return std::make_unique<Tenants>(scene, std::move(plan));
}

}  // namespace queen::sim
