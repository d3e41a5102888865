// What a check of a data directory found: the words of recovery, of the scrubs and of `queenctl data verify`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace queen {

enum class Severity : std::uint8_t {
  note,    // unusual, and nothing is lost: what a crash may leave, what is made again
  damage,  // bytes that must be right are wrong, or missing
};
// Whether a node would refuse to boot for it.
enum class Boot : bool { starts, refused };

struct Finding {
  Severity severity = Severity::damage;
  Boot boot = Boot::starts;
  std::string rule;                       // of storage.md that the place breaks: `BR-1`, `CR-6`, `QL-15`
  std::string what;                       // one sentence for a person
  std::string path;                       // of the file; empty when it is about several
  std::optional<std::uint64_t> position;  // byte in that file
  std::string keyspace;                   // of a row; empty when it is about none
  std::string key;                        // of a row, raw
};

// Takes findings in the order of the check. Called from one thread.
class Findings {
 public:
  virtual ~Findings() = default;
  virtual void add(Finding finding) = 0;
};

// Keeps all of them.
class FindingList final : public Findings {
 public:
  void add(Finding finding) override { all.push_back(std::move(finding)); }
  std::vector<Finding> all;
};

}  // namespace queen
