// Random groups over random logs against a map: after each reopening all is replayed and read back in order.
#include <gtest/gtest.h>
// After gtest, which it uses without including it.
#include <rapidcheck/gtest.h>

#include "support.h"

namespace queen::qlog {
namespace {

struct Model {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::string>> texts;  // by (log, pid)
  std::uint64_t last_index = 0;

  TestEntry next_entry() {
    TestEntry entry{
        .index = ++last_index, .messages = {}, .touched = {}, .note = *rc::gen::arbitrary<std::string>()};
    for (int left = *rc::gen::inRange(0, 4); left > 0; --left) {
      const auto log = *rc::gen::inRange<std::uint64_t>(1, 5);
      const auto pid = log * 10 + *rc::gen::inRange<std::uint64_t>(0, 3);
      auto& known = texts[{log, pid}];
      auto more = *rc::gen::container<std::vector<std::string>>(
          static_cast<std::size_t>(*rc::gen::inRange(1, 6)), rc::gen::arbitrary<std::string>());
      if (*rc::gen::inRange(0, 5) == 0) more.push_back(std::string(2000, 'z'));
      entry.messages.push_back({{log}, {pid}, known.size(), more});
      known.insert(known.end(), more.begin(), more.end());
    }
    if (*rc::gen::inRange(0, 3) == 0) entry.touched.push_back({*rc::gen::inRange<std::uint64_t>(0, 6)});
    return entry;
  }
};

void check(Node& node, const Model& model) {
  const auto indexes = node.replayed();
  RC_ASSERT(indexes.size() == model.last_index);
  for (std::size_t i = 0; i < indexes.size(); ++i) RC_ASSERT(indexes[i] == i + 1);
  for (const auto& [where, expected] : model.texts) {
    const auto from = *rc::gen::inRange<std::size_t>(0, expected.size());
    const std::vector<std::string> tail(expected.begin() + static_cast<std::ptrdiff_t>(from), expected.end());
    RC_ASSERT(node.texts({where.first}, {where.second}, from) == tail);
  }
}

RC_GTEST_PROP(QueueLogsProperty, EverythingComesBackInOrder, ()) {
  Node node;
  node.options.segment_bytes = *rc::gen::inRange<std::uint64_t>(33, 5000);
  node.options.entry_copies = *rc::gen::arbitrary<bool>();
  node.options.precreate = *rc::gen::arbitrary<bool>();
  node.options.prealloc_min_syncs = *rc::gen::inRange<std::uint32_t>(0, 3);
  node.options.prealloc_bytes = *rc::gen::inRange<std::uint64_t>(0, 2000);
  node.options.fd_cache = *rc::gen::inRange<std::uint32_t>(0, 4);
  RC_ASSERT(node.open().has_value());
  Model model;
  for (int groups = *rc::gen::inRange(1, 12); groups > 0; --groups) {
    std::vector<TestEntry> group;
    for (int entries = *rc::gen::inRange(1, 5); entries > 0; --entries) group.push_back(model.next_entry());
    RC_ASSERT(node.write(group).has_value());
    if (*rc::gen::inRange(0, 4) != 0) continue;
    if (*rc::gen::arbitrary<bool>()) node.disk.crash();
    RC_ASSERT(node.open().has_value());
    check(node, model);
  }
  node.disk.crash();
  RC_ASSERT(node.open().has_value());
  check(node, model);
}

// Any byte of any file may change: the node refuses, or opens with fewer entries or a read that says so.
RC_GTEST_PROP(QueueLogsProperty, ADamagedByteIsNeverASilentlyWrongMessage, ()) {
  Node node;
  node.options.segment_bytes = 600;
  RC_ASSERT(node.open().has_value());
  Model model;
  for (int i = 0; i < 6; ++i) RC_ASSERT(node.write({model.next_entry(), model.next_entry()}).has_value());
  node.logs.reset();
  const auto files = node.disk.files();
  auto victim = files.begin();
  std::advance(victim, *rc::gen::inRange<std::size_t>(0, files.size()));
  RC_PRE(!victim->second.empty());
  node.flip(victim->first, *rc::gen::inRange<std::size_t>(0, victim->second.size()));
  if (!node.open()) return;
  for (const auto& [where, expected] : model.texts) {
    const auto batch = node.logs->read({where.first}, {where.second}, 0, Node::kAll);
    if (!batch) continue;
    for (const auto& message : batch->messages)
      RC_ASSERT(message.frame.payload == expected.at(message.offset));
  }
}

}  // namespace
}  // namespace queen::qlog
