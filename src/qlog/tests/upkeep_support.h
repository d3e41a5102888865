// A node whose logs are kept up: checkpoints by hand, partitions as a test says.
#pragma once

#include "qlog/upkeep.h"
#include "support.h"

namespace queen::qlog {

// The room above: a table of partitions, and the numbers of checkpoints.
class FakeHost final : public UpkeepHost {
 public:
  std::vector<std::optional<Partition>> look_up(std::span<const Pid> pids) override {
    std::vector<std::optional<Partition>> found;
    asked += pids.size();
    most_at_once = std::max(most_at_once, pids.size());
    if (on_look_up) on_look_up();
    for (const Pid pid : pids) {
      const auto at = partitions.find(pid.value);
      found.push_back(at == partitions.end() ? std::nullopt : std::optional(at->second));
    }
    return found;
  }
  EntryIndex recovery_floor() override { return {floor}; }
  std::uint64_t cuts_begun() override { return begun; }
  std::uint64_t cut_durable() override { return durable; }
  bool go_on() override { return running; }

  std::map<std::uint64_t, Partition> partitions;
  std::uint64_t floor = 0, begun = 0, durable = 0;
  bool running = true;
  std::uint64_t asked = 0;
  std::size_t most_at_once = 0;
  std::function<void()> on_look_up;
};

// A checkpoint that was cut.
struct TestCut {
  std::uint64_t number = 0;
  DurableState state;
  std::map<std::uint64_t, UpkeepHost::Partition> partitions;
};

struct UpkeepNode : Node {
  ManualClock clock;
  FakeHost host;
  UpkeepSettings settings;
  std::unique_ptr<LogUpkeep> upkeep;
  std::map<LogId, std::uint64_t> tails;
  std::uint64_t written = 0;
  TestCut on_disk;  // the checkpoint that a crash leaves

  UpkeepNode() { settings.clock = &clock; }
  ~UpkeepNode() { upkeep.reset(); }

  Status start() {
    upkeep.reset();
    durable = on_disk.state;
    if (auto done = open(); !done) return done;
    host.floor = durable.durable_index;
    host.partitions = on_disk.partitions;
    host.begun = host.durable = on_disk.number;
    for (const auto& [id, tail] : logs->recovery().replayed_tails) tails[id] = tail;
    written = logs->recovery().last_index;
    upkeep = logs->make_upkeep(host, settings);
    return {};
  }
  void must_start() {
    const auto done = start();
    ASSERT_TRUE(done) << done.error().what;
  }
  // One entry of its own: messages of one partition, which is there from then on.
  Status append(std::uint64_t to, std::uint64_t pid, std::uint64_t base, std::vector<std::string> texts) {
    host.partitions.try_emplace(pid, UpkeepHost::Partition{.log = {to}, .txns_start = 0});
    return put({push(written + 1, to, pid, base, std::move(texts))});
  }
  // An entry without messages.
  Status touch(std::uint64_t to) {
    return put({{.index = written + 1, .messages = {}, .touched = {{to}}, .note = "note"}});
  }
  Status put(const std::vector<TestEntry>& group) {
    if (auto done = write(group); !done) return done;
    written = group.back().index;
    for (const auto& entry : group) {
      for (const auto& messages : entry.messages) tails[messages.log] = entry.index;
      for (const LogId id : entry.touched) tails[id] = entry.index;
    }
    return {};
  }

  // What the checkpointer does: the rows that say which files there are, and the applied index.
  TestCut cut() {
    TestCut taken{.number = ++host.begun, .state = on_disk.state, .partitions = host.partitions};
    taken.state.durable_index = taken.state.qlog_durable_index = written;
    for (auto& [id, ids] : logs->take_changed_files()) {
      if (ids) {
        taken.state.files[id] = std::move(*ids);
        continue;
      }
      taken.state.files.erase(id);
      taken.state.tails.erase(id);
      tails.erase(id);
    }
    for (const auto& [id, tail] : tails) taken.state.tails[id] = tail;
    return taken;
  }
  void commit(TestCut taken) {
    on_disk = std::move(taken);
    host.durable = on_disk.number;
    host.floor = on_disk.state.durable_index;
  }
  void checkpoint() { commit(cut()); }

  void dead_below(std::uint64_t pid, std::uint64_t txns_start) {
    host.partitions.at(pid).txns_start = txns_start;
  }
  std::vector<std::uint32_t> listed(std::uint64_t of) {
    return on_disk.state.files.contains({of}) ? on_disk.state.files.at({of}) : std::vector<std::uint32_t>{};
  }
  bool has(const std::string& path) const { return disk.files().contains(path); }
  std::string index_of(std::uint64_t of, std::uint32_t id) const {
    return detail::index_path(options.directory, {of}, id);
  }
  std::string compact_of(std::uint64_t of, std::uint32_t id) const {
    return detail::compact_path(options.directory, {of}, id);
  }
  // Far enough in time that every file is looked at again.
  ReclaimReport pass() {
    clock.advance(120'000'000);
    return upkeep->reclaim_pass();
  }
};

// One sealed file with `messages` of pid 1 and an empty one behind it that is written to.
inline void one_sealed_file(UpkeepNode& node, std::uint64_t log, std::uint64_t messages) {
  node.options.segment_bytes = 1U << 20;
  if (node.logs == nullptr) node.must_start();
  for (std::uint64_t i = 0; i < messages; ++i)
    ASSERT_TRUE(node.append(log, 1, i, {"text " + std::to_string(i)}));
  ASSERT_EQ(node.upkeep->idle_pass(10'000'000'000'000)->sealed, 1u);
  node.checkpoint();
  ASSERT_EQ(node.listed(log), (std::vector<std::uint32_t>{1, 2}));
}

inline void rewrite_file_one(UpkeepNode& node) {
  ASSERT_EQ(node.pass().rewritten, 1u);
  node.checkpoint();
  node.pass();
}

}  // namespace queen::qlog
