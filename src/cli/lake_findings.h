// What `queenctl lake verify` has to say about a lake.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace queen::cli {

// `reason` is one of the words of docs/guides/verify-a-lake.md. What does not apply is empty or 0.
struct LakeFinding {
  std::string reason;
  std::uint64_t k = 0;  // window
  std::string key;      // object
  std::optional<std::string> partition;
  std::optional<std::uint64_t> offset;
  std::string what;  // one sentence part; never a payload
};

// Keeps the first findings and counts the rest, so that a lake that is all wrong fits in memory.
class LakeFindings {
 public:
  static constexpr std::size_t kKeptMax = 10'000;

  void add(LakeFinding finding) {
    ++count_;
    if (kept_.size() < kKeptMax) kept_.push_back(std::move(finding));
  }
  bool any() const { return count_ > 0; }
  const std::vector<LakeFinding>& kept() const { return kept_; }
  std::uint64_t left_out() const { return count_ - kept_.size(); }

 private:
  std::vector<LakeFinding> kept_;
  std::uint64_t count_ = 0;
};

}  // namespace queen::cli
