// A broker that records what it is asked and answers when the test says so, and a reply that keeps what it is
// sent.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/detail/context.h"
#include "broker/dead_letters.h"
#include "broker/groups.h"
#include "broker/resources.h"
#include "broker/state_reads.h"
#include "broker/traces.h"

namespace queen::api {

// Answers what a test has put there.
class FakeResources final : public broker::Resources {
 public:
  template <class T>
  broker::Answer<T> given(T value) const {
    if (refused) return tl::unexpected(broker::Refusal{"internal", "damaged"});
    return value;
  }
  std::optional<broker::QueueView> queue(const std::string&, const std::string& queue, std::size_t) override {
    asked = queue;
    return queue_view;
  }
  broker::Answer<std::optional<broker::DepthView>> depth(const std::string&, const std::string& queue,
                                                         const std::optional<std::string>& group) override {
    asked = queue + "/" + group.value_or("-");
    return given(depth_view);
  }
  std::optional<broker::SizesView> sizes(const std::string&, const std::string&, std::size_t) override {
    return sizes_view;
  }
  broker::Answer<std::optional<broker::BusyView>> busiest(const std::string&,
                                                          const std::optional<std::string>& queue,
                                                          std::size_t limit, std::size_t) override {
    asked = queue.value_or("-") + " " + std::to_string(limit);
    return given(busy_view);
  }
  broker::Answer<broker::OverviewView> overview(const std::string&) override { return given(overview_view); }
  broker::StandingView standing(const std::string&, const broker::QueueFilter& filter) override {
    filtered = filter;
    broker::StandingView out = standing_view;
    std::erase_if(out.queues, [&](const auto& queue) { return !filter.matches(queue.name, queue.row); });
    return out;
  }
  broker::Answer<broker::MessagesView> messages(const std::string&,
                                                const broker::MessageQuery& query) override {
    browsed = query;
    return given(messages_view);
  }
  broker::Answer<std::optional<broker::MessageDetail>> message(const std::string&, std::string_view partition,
                                                               std::string_view transaction_id,
                                                               std::int64_t) override {
    asked = std::string(partition) + " " + std::string(transaction_id);
    return given(message_view);
  }

  bool refused = false;
  std::string asked;
  std::optional<broker::QueueView> queue_view;
  std::optional<broker::DepthView> depth_view;
  std::optional<broker::SizesView> sizes_view;
  std::optional<broker::BusyView> busy_view;
  broker::OverviewView overview_view;
  std::optional<broker::QueueFilter> filtered;
  broker::StandingView standing_view;
  std::optional<broker::MessageQuery> browsed;
  broker::MessagesView messages_view;
  std::optional<broker::MessageDetail> message_view;
};

class FakeGroups final : public broker::Groups {
 public:
  std::vector<broker::GroupOnQueue> all(const std::string&) override { return found; }
  std::vector<broker::GroupOnQueue> one(const std::string&, const std::string&) override { return found; }
  std::vector<broker::GroupCursor> lagging(const std::string&, std::int64_t longer_than_us) override {
    lagging_asked.push_back(longer_than_us);
    return cursors;
  }
  std::vector<broker::PositionAnswer> positions(
      const std::string&, const std::string& group,
      const std::optional<std::vector<broker::PositionAsk>>& asked) override {
    positions_asked.emplace_back(group, asked);
    return standing;
  }

  std::vector<broker::GroupOnQueue> found;
  std::vector<std::int64_t> lagging_asked;
  std::vector<broker::GroupCursor> cursors;
  std::vector<std::pair<std::string, std::optional<std::vector<broker::PositionAsk>>>> positions_asked;
  std::vector<broker::PositionAnswer> standing;
};

class FakeMeter final : public broker::Meter {
 public:
  broker::OpCounts totals() const override { return sum; }
  std::int64_t uptime_us() const override { return 61'000'000; }
  broker::LagSum loop_lag() const override { return loop; }
  broker::NodeGauges gauges() const override { return now; }
  broker::ProcessUse process() const override { return {}; }
  std::vector<broker::ParkedPops> parked() const override { return {}; }
  std::vector<broker::QueueOpsRow> last_rows() const override { return {}; }
  std::optional<std::int64_t> written_until_us() const override { return written_until; }
  std::vector<broker::NodeRow> node_rows(std::int64_t from_us, std::int64_t to_us) const override {
    auto rows = nodes;
    std::erase_if(rows, [&](const auto& row) { return row.from_us < from_us || row.from_us > to_us; });
    return rows;
  }
  std::vector<broker::QueueOpsRow> queue_rows(const std::string& tenant, std::int64_t from_us,
                                              std::int64_t to_us) const override {
    auto rows = queues;
    std::erase_if(rows, [&](const auto& row) {
      return row.tenant != tenant || row.from_us < from_us || row.from_us > to_us;
    });
    return rows;
  }
  std::vector<broker::DeadLetterDepth> dead_letters() const override { return {}; }

  broker::OpCounts sum;
  broker::LagSum loop;
  broker::NodeGauges now;
  std::optional<std::int64_t> written_until;
  std::vector<broker::NodeRow> nodes;
  std::vector<broker::QueueOpsRow> queues;
};

class FakeBroker final : public broker::Broker {
 public:
  using OutcomeDone = UniqueFunction<void(broker::Answer<machine::Outcome>)>;
  using PushDone = UniqueFunction<void(broker::Answer<broker::PushAnswer>)>;
  using PopDone = UniqueFunction<void(broker::Answer<broker::PopAnswer>)>;

  void submit(machine::Command command, OutcomeDone done) override {
    commands.push_back(std::move(command));
    outcomes.push_back(std::move(done));
  }
  void push(machine::Command command, PushDone done, std::shared_ptr<broker::WritePermit> permit) override {
    commands.push_back(std::move(command));
    pushes.push_back(std::move(done));
    permits.push_back(std::move(permit));
  }
  void admit(std::uint64_t bytes,
             UniqueFunction<void(broker::Answer<std::shared_ptr<broker::WritePermit>>)> done) override {
    admitted_bytes.push_back(bytes);
    if (refuse_room) return done(tl::unexpected(broker::Refusal{"overloaded", "full"}));
    done(std::make_shared<broker::WritePermit>());
  }
  PopId pop(machine::Command command, bool wait, std::int64_t deadline_mono_us, PopDone done) override {
    commands.push_back(std::move(command));
    pops.push_back(std::move(done));
    pop_waits.push_back(wait);
    pop_deadlines.push_back(deadline_mono_us);
    return pops.size();
  }
  void cancel_pop(PopId id) override { cancelled_pops.push_back(id); }
  void hand_back(const std::string&, const std::string& group, Uuid, const broker::PopAnswer&) override {
    handed_back.push_back(group);
  }
  void release_parked() override { released = true; }
  bool released_parked() const override { return released; }
  void ack(machine::Command command, OutcomeDone done) override {
    submit(std::move(command), std::move(done));
  }

  broker::Answer<std::vector<broker::FetchEntryAnswer>> fetch(
      const std::string&, std::span<const broker::FetchEntry> entries) override {
    fetched.emplace_back(entries.begin(), entries.end());
    if (refuse_reads) return tl::unexpected(broker::Refusal{"internal", "damaged"});
    std::vector<broker::FetchEntryAnswer> out;
    for (std::size_t i = 0; i < entries.size(); ++i) out.push_back(fetch_answer);
    return out;
  }
  broker::Answer<std::vector<broker::OffsetEntryAnswer>> offsets(
      const std::string&, std::span<const broker::OffsetEntry> entries) override {
    offsets_asked.assign(entries.begin(), entries.end());
    if (refuse_reads) return tl::unexpected(broker::Refusal{"internal", "damaged"});
    return offsets_answer;
  }
  broker::ChangedAnswer changed(const std::string&, std::span<const broker::ChangedEntry> entries) override {
    changed_asked.assign(entries.begin(), entries.end());
    return changed_answer;
  }
  broker::QueuesAnswer queues(const std::string&, broker::QueueDetail detail) override {
    queues_detail = detail;
    return queues_answer;
  }
  void delete_group(std::string, broker::GroupDeletion deletion,
                    UniqueFunction<void(broker::Answer<broker::GroupDeleted>)> done) override {
    group_deletions.push_back(std::move(deletion));
    done(group_deleted);
  }
  const broker::DeadLetters& dead_letters() const override { return letters; }
  const broker::Traces& traces() const override { return stored_traces; }
  const broker::StateReads& state() const override { return state_reads; }
  WaitId on_append(const std::string&, std::vector<std::string> queues,
                   UniqueFunction<void()> wake) override {
    waited_queues.push_back(std::move(queues));
    wakes.push_back(std::move(wake));
    return wakes.size();
  }
  void cancel_wait(WaitId id) override { cancelled_waits.push_back(id); }
  void barrier(UniqueFunction<void(broker::Answer<void>)> done) override {
    barriers.push_back(std::move(done));
  }
  broker::Resources& resources() override { return shown; }
  broker::Groups& groups() override { return group_reads; }
  void look(UniqueFunction<void()> work) override { work(); }
  void run(UniqueFunction<void()> work) override { work(); }
  const broker::Meter& meter() const override { return figures; }
  broker::Health health() override { return {}; }
  int zstd_level() const override { return 1; }
  std::uint64_t entry_bytes_max() const override { return entry_bytes; }
  void stop() override {}

  FakeResources shown;
  FakeGroups group_reads;
  FakeMeter figures;
  std::deque<UniqueFunction<void(broker::Answer<void>)>> barriers;
  store::Store store;  // of dead letters and traces; filled by the test
  broker::DeadLetters letters{store};
  broker::Traces stored_traces{store};
  broker::StateReads state_reads{store};
  std::vector<machine::Command> commands;
  std::deque<OutcomeDone> outcomes;
  std::deque<PushDone> pushes;
  std::vector<std::shared_ptr<broker::WritePermit>> permits;
  std::vector<std::uint64_t> admitted_bytes;
  bool refuse_room = false;
  std::uint64_t entry_bytes = 96ULL << 20;
  std::deque<PopDone> pops;
  std::vector<bool> pop_waits;
  std::vector<std::int64_t> pop_deadlines;
  std::vector<PopId> cancelled_pops;
  std::vector<std::string> handed_back;
  std::vector<std::vector<broker::FetchEntry>> fetched;
  broker::FetchEntryAnswer fetch_answer;
  bool refuse_reads = false;
  std::vector<broker::OffsetEntry> offsets_asked;
  std::vector<broker::OffsetEntryAnswer> offsets_answer;
  bool released = false;
  std::vector<broker::ChangedEntry> changed_asked;
  broker::ChangedAnswer changed_answer;
  broker::QueueDetail queues_detail = broker::QueueDetail::counts;
  broker::QueuesAnswer queues_answer;
  std::vector<broker::GroupDeletion> group_deletions;
  broker::GroupDeleted group_deleted;
  std::vector<std::vector<std::string>> waited_queues;
  std::deque<UniqueFunction<void()>> wakes;
  std::vector<WaitId> cancelled_waits;
};

struct Sent {
  std::vector<http::Response> responses;
  UniqueFunction<void()> gone;
  bool client_gone = false;
  bool taken = true;  // the client reads its answers
};
class FakeReply final : public Reply {
 public:
  explicit FakeReply(std::shared_ptr<Sent> sent) : sent_(std::move(sent)) {}
  void send(http::Response response) override {
    if (response.undelivered && sent_->taken) response.undelivered->run = nullptr;
    sent_->responses.push_back(std::move(response));
  }
  void on_disconnect(UniqueFunction<void()> gone) override { sent_->gone = std::move(gone); }
  bool client_gone() const override { return sent_->client_gone; }

 private:
  std::shared_ptr<Sent> sent_;
};

// Handlers over the fake broker, in virtual time.
struct Rig {
  // A job that was never answered holds its reply, and the reply what to do when the client goes: the job.
  ~Rig() {
    for (const auto& sent : all_sent) {
      sent->gone = nullptr;
      sent->responses.clear();
    }
  }
  std::vector<std::shared_ptr<Sent>> all_sent;
  ManualClock clock;
  ManualExecutor timers{clock};
  SeededRandom random{7};
  FakeBroker broker;
  SharedContext context{new Context{broker, clock, random, timers, {}, Logger(null_log(), "api")}};

  std::shared_ptr<Sent> call(RouteHandler handler, http::Request request) {
    auto sent = std::make_shared<Sent>();
    all_sent.push_back(sent);
    serve(context, handler, std::move(request), std::make_unique<FakeReply>(sent));
    return sent;
  }
  std::shared_ptr<Sent> post(RouteHandler handler, std::string body) {
    http::Request request;
    request.method = http::Method::post;
    request.body = std::move(body);
    return call(handler, std::move(request));
  }
};

// The one answer of a request, `status body`.
inline std::string answer_of(const std::shared_ptr<Sent>& sent) {
  if (sent->responses.size() != 1) return std::to_string(sent->responses.size()) + " answers";
  return std::to_string(sent->responses[0].status) + " " + sent->responses[0].body;
}
inline std::string header_of(const http::Response& response, std::string_view name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return "";
}

}  // namespace queen::api
