// A node whose upkeep makes directories over sealed files.
#pragma once

#include <fmt/format.h>

#include "upkeep_support.h"
#include "watched_disk.h"

namespace queen::qlog {

// Sealed files of one log, each with appends of two hot partitions and one of its own.
struct DirectoryNode : UpkeepNode {
  WatchedDisk watched{disk};
  std::uint64_t filled = 0;
  using Node::put;
  using UpkeepNode::put;

  DirectoryNode() {
    seen = &watched;
    options.segment_bytes = 33;
  }
  ~DirectoryNode() {
    upkeep.reset();
    logs.reset();
  }
  void fill(std::uint64_t files) {
    for (std::uint64_t i = 0; i < files; ++i) {
      const std::uint64_t n = filled++;
      TestEntry entry = push(written + 1, 5, 1, 2 * n, {"a" + std::to_string(n), "b" + std::to_string(n)});
      if (n % 3 == 0) entry.messages.push_back({{5}, {2}, n / 3, {"c" + std::to_string(n)}});
      entry.messages.push_back({{5}, {1000 + n}, 0, {"d"}});
      for (const auto& messages : entry.messages)
        host.partitions.try_emplace(messages.pid.value, UpkeepHost::Partition{.log = {5}, .txns_start = 0});
      ASSERT_TRUE(put({entry}));
    }
  }
  std::vector<std::string> directory_names() const {
    std::vector<std::string> names;
    for (const auto& [path, bytes] : disk.files())
      if (path.ends_with(".qdx")) names.push_back(path.substr(path.rfind('/') + 1));
    return names;
  }
  // Everything that readers can ask.
  std::vector<std::string> answers() {
    std::vector<std::string> all;
    for (const std::uint64_t pid :
         {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{1003}, std::uint64_t{9}}) {
      for (std::uint64_t from = 0; from <= 2 * filled; from += 1 + filled / 20) {
        const auto places = logs->locate({5}, {pid}, from, 3);
        EXPECT_TRUE(places);
        for (const auto& at : *places) all.push_back(fmt::format("{} {} {}", pid, at.base_offset, at.end));
        const auto stamped = logs->first_stamped_at_or_after({5}, {pid}, 0, 10'000,
                                                             1'000'000 + static_cast<std::int64_t>(from));
        EXPECT_TRUE(stamped);
        all.push_back(fmt::format("{} since {}", pid, *stamped));
      }
      for (const auto& text : texts({5}, {pid})) all.push_back(text);
    }
    return all;
  }
};

}  // namespace queen::qlog
