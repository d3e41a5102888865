#include "desk.h"

#include "broker/state_reads.h"
#include "broker/traces.h"
#include "desk_book.h"
#include "traffic.h"

namespace queen::sim {
namespace {

using store::EphemeralRow;
using store::QuotaKind;
using store::QuotaRow;

constexpr const char* kOtherTenant = "00000000-0000-0000-0000-0000000000aa";  // whom no quota hinders
constexpr const char* kTraceQueue = "traced";
constexpr std::size_t kTracesMax = 1000;

struct TraceSent {
  store::TraceRow row;
  std::string transaction_id;
  std::optional<Pid> pid;
  std::optional<std::int64_t> before_us;  // log time before the call that was answered
};

class Desk final : public Workload {
 public:
  Desk(Scene& scene, DeskPlan plan) : scene_(scene), plan_(plan), tasks_(scene.clients.lane) {}

  std::string_view name() const override { return "desk"; }
  void start() override;
  bool ended() const override { return tasks_.ended(); }
  void check() override;

 private:
  Task<void> use(Client& client);
  Task<void> set_flag(Client& client);
  Task<void> set_quota(Client& client);
  Task<void> declare(Client& client);
  Task<void> trace(Client& client);
  Task<std::optional<Pid>> traced_partition(Client& client);
  void check_traces();
  void check_trace(const broker::TraceEvent& seen, std::map<std::string, TraceSent>& missing);
  void unexplained(std::string_view what, const std::string& name) {
    scene_.story.violate("the desk's rows are as answered", "{} {}", what, name);
  }

  Scene& scene_;
  DeskPlan plan_;
  Tasks tasks_;
  std::vector<std::unique_ptr<Client>> clients_;
  OneWriterBook<std::optional<Bytes>> flags_;
  OneWriterBook<std::optional<QuotaRow>> quotas_;
  OneWriterBook<std::optional<EphemeralRow>> declared_;  // without its time
  std::map<std::string, TraceSent> traces_;              // by id
  std::optional<Pid> pid_;
  std::uint64_t numbers_ = 0;
};

void Desk::start() {
  for (std::int64_t i = 0; i < plan_.clients; ++i) {
    clients_.push_back(scene_.new_client());
    tasks_.start(use(*clients_.back()));
  }
}

Task<void> Desk::use(Client& client) {
  Dice& dice = client.dice();
  for (std::int64_t i = 0; i < plan_.calls && !scene_.quiet && !scene_.story.failed(); ++i) {
    ++scene_.calls;
    switch (dice.below(6)) {
      case 0:
        co_await set_flag(client);
        break;
      case 1:
        co_await set_quota(client);
        break;
      case 2:
        co_await declare(client);
        break;
      default:
        co_await trace(client);
        break;
    }
    co_await client.sleep(dice.between(0, plan_.pause_us_max));
  }
}

// Notes in `book` what came of a call that sets `name` to `row`.
template <class Book, class Row, class Outcome>
void note(Book& book, const std::string& name, const Row& row, const std::optional<Said<Outcome>>& said) {
  if (said && !said->code.empty()) return;
  if (said)
    book.answered(name, row);
  else
    book.unknown(name, row);
}

Task<void> Desk::set_flag(Client& client) {
  machine::FlagCommand body;
  body.name = fmt::format("sim_{}_{}", client.end(), client.dice().below(2));
  if (client.dice().chance(70)) body.value = std::to_string(++numbers_);
  const machine::FlagCommand sent = body;
  const auto said = co_await submit<machine::Nothing>(client, std::move(body), kCallTimeoutUs);
  note(flags_, sent.name, sent.value, said);
}

Task<void> Desk::set_quota(Client& client) {
  Dice& dice = client.dice();
  machine::QuotaCommand body;
  body.kind = dice.pick({QuotaKind::kv, QuotaKind::ephemeral, QuotaKind::streams});
  // The last digit is the client's, so that each row has one writer.
  body.tenant = std::string(kOtherTenant).substr(0, 34) + fmt::format("{:02x}", client.end() % 256);
  if (dice.chance(70)) {
    QuotaRow row;
    row.enabled = dice.chance(50);
    row.max_rows = static_cast<std::int64_t>(dice.below(1000));
    row.max_queries = static_cast<std::int64_t>(++numbers_);
    body.row = row;
  }
  const machine::QuotaCommand sent = body;
  const auto said = co_await submit<machine::Nothing>(client, std::move(body), kCallTimeoutUs);
  note(quotas_, fmt::format("{} {}", static_cast<int>(sent.kind), sent.tenant), sent.row, said);
}

Task<void> Desk::declare(Client& client) {
  Dice& dice = client.dice();
  const std::string queue = fmt::format("memory{}_{}", client.end(), dice.below(2));
  if (dice.chance(30)) {
    machine::EphemeralDeleteCommand body;
    body.queue = queue;
    const auto said =
        co_await submit<machine::EphemeralDeleteOutcome>(client, std::move(body), kCallTimeoutUs);
    note(declared_, queue, std::optional<EphemeralRow>(), said);
    co_return;
  }
  machine::EphemeralConfigureCommand body;
  body.queue = queue;
  body.row.max_length = static_cast<std::int64_t>(++numbers_);
  body.row.ttl_seconds = static_cast<std::int64_t>(dice.below(100));
  const std::optional<EphemeralRow> sent = body.row;
  const auto said =
      co_await submit<machine::EphemeralConfigureOutcome>(client, std::move(body), kCallTimeoutUs);
  note(declared_, queue, sent, said);
}

// Of a queue of its own. Nothing: no answer.
Task<std::optional<Pid>> Desk::traced_partition(Client& client) {
  if (pid_) co_return pid_;
  scene_.ledger.set_rules(kTraceQueue, {});
  const PartitionName where{kTraceQueue, "p"};
  Batches batches;
  batches.emplace_back(where, std::vector{fmt::format("{}/p/{}", kTraceQueue, ++numbers_)});
  const bool pushed = co_await push_known(scene_, client, std::move(batches));
  if (!pushed || !scene_.node.up() || scene_.node.dark()) co_return std::nullopt;
  const std::array<broker::ChangedEntry, 1> ask = {{{kTraceQueue, std::nullopt, "", 10}}};
  auto& broker = scene_.node.broker();
  const auto changed = broker.changed(std::string(kDefaultTenant), ask);
  for (const auto& partition : changed.entries.at(0).partitions)
    pid_ = broker.traces().partition(std::string(kDefaultTenant), partition.id.str());
  co_return pid_;
}

Task<void> Desk::trace(Client& client) {
  Dice& dice = client.dice();
  TraceSent sent;
  if (dice.chance(60)) sent.pid = co_await traced_partition(client);
  sent.transaction_id = fmt::format("traced/p/{}", dice.below(3));
  sent.row.id = client.uuid();
  sent.row.trace_id = client.uuid();
  sent.row.event_type = dice.pick<const char*>({"begin", "end", "error"});
  sent.row.data = fmt::format(R"({{"n":{}}})", ++numbers_);
  if (dice.chance(50)) sent.row.names.emplace_back("morning");
  if (dice.chance(50)) sent.row.names.emplace_back("evening");
  const std::string id = sent.row.id.str();
  traces_[id] = sent;
  machine::TraceCommand body;
  body.pid = sent.pid;
  body.transaction_id = sent.transaction_id;
  body.row = sent.row;
  const auto said = co_await submit<machine::TraceOutcome>(client, std::move(body), kCallTimeoutUs);
  if (said && !said->code.empty()) traces_.erase(id);
  if (!said || !said->code.empty()) co_return;
  if (!said->outcome.stored) co_return scene_.story.violate("traces are as answered", "{} not stored", id);
  traces_[id].before_us = said->before_us;
}

void Desk::check() {
  const auto& state = scene_.node.broker().state();
  for (const auto& name : flags_.names())
    if (!flags_.explains(name, state.flag(name))) unexplained("flag", name);
  for (const auto& name : quotas_.names()) {
    const auto kind = static_cast<QuotaKind>(name[0] - '0');
    if (!quotas_.explains(name, state.quota(kind, name.substr(2)))) unexplained("quota", name);
  }
  for (const auto& name : declared_.names()) {
    auto row = state.ephemeral(kDefaultTenant, name);
    if (row) row->created = 0;
    if (!declared_.explains(name, row)) unexplained("declaration", name);
  }
  for (const auto& [name, row] : state.ephemerals(kDefaultTenant))
    if (state.ephemeral(kDefaultTenant, name) != row) unexplained("declaration", name);
  check_traces();
}

// What was answered is there under each of its names until it is old enough, and nothing else is.
void Desk::check_traces() {
  const auto& traces = scene_.node.broker().traces();
  const std::string tenant(kDefaultTenant);
  for (const char* name : {"morning", "evening"}) {
    std::map<std::string, TraceSent> missing;
    for (const auto& [id, sent] : traces_)
      if (std::find(sent.row.names.begin(), sent.row.names.end(), name) != sent.row.names.end())
        missing[id] = sent;
    for (const auto& event : traces.by_name(tenant, name, {kTracesMax, 0}).events)
      check_trace(event, missing);
    const std::int64_t old = scene_.node.safe_time_us() - plan_.trace_retention_us;
    for (const auto& [id, sent] : missing)
      if (sent.before_us && *sent.before_us > old)
        return scene_.story.violate("traces are as answered", "{} named {} is gone", id, name);
  }
  if (!pid_) return;
  for (int i = 0; i < 3; ++i) {
    std::map<std::string, TraceSent> known = traces_;
    const auto page = traces.of_message(tenant, *pid_, fmt::format("traced/p/{}", i), {kTracesMax, 0});
    for (const auto& event : page.events) check_trace(event, known);
  }
  if (traces.names(tenant, {kTracesMax, 0}).total > 2)
    scene_.story.violate("traces are as answered", "names that nobody gave");
}

void Desk::check_trace(const broker::TraceEvent& seen, std::map<std::string, TraceSent>& missing) {
  const auto sent = missing.find(seen.row.id.str());
  store::TraceRow row = seen.row;
  row.created_at = 0;
  if (sent == missing.end() || sent->second.row != row || sent->second.pid != seen.pid ||
      sent->second.transaction_id != seen.transaction_id)
    return scene_.story.violate("traces are as answered", "{} is not as sent", seen.row.id.str());
  missing.erase(sent);
}

}  // namespace

DeskPlan draw_desk(Dice& dice, bool small, bool /*encrypted*/) {
  DeskPlan out;
  out.clients = dice.pick({1, 2});
  out.calls = small ? dice.pick({3, 6, 12}) : dice.pick({10, 40});
  out.pause_us_max = dice.pick({kMsUs, 50 * kMsUs, 300 * kMsUs});
  if (dice.chance(40)) out.trace_retention_us = dice.pick({kSecondUs, 3 * kSecondUs});
  return out;
}

std::unique_ptr<Workload> make_desk(Scene& scene, DeskPlan plan) {
  return std::make_unique<Desk>(scene, plan);
}

}  // namespace queen::sim
