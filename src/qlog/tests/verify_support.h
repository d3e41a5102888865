// Verification of a test's logs, with what it found.
#pragma once

#include "qlog/verify.h"
#include "support.h"

namespace queen::qlog {

class Seen final : public RecordReader {
 public:
  void message(const RecordPlace&, const Record&) override { ++messages; }
  Status entry(const RecordPlace&, const Record&) override {
    ++entries;
    return {};
  }
  std::size_t messages = 0, entries = 0;
};

struct Verified {
  FindingList found;
  Seen seen;
  LogFacts facts;
  std::vector<std::string> rules(Severity severity) const {
    std::vector<std::string> out;
    for (const auto& finding : found.all)
      if (finding.severity == severity) out.push_back(finding.rule);
    return out;
  }
};

inline Verified verify(Node& node, std::size_t parts_max = 1000) {
  Verified out;
  ManualClock clock;
  const AppendsOf appends = appends_of;
  const auto before = node.disk.files();
  auto facts = verify_logs({node.disk, node.options.directory, node.durable, appends, clock,
                            Logger(null_log(), "verify"), parts_max},
                           out.seen, out.found);
  EXPECT_TRUE(facts) << facts.error().what;
  if (facts) out.facts = *facts;
  EXPECT_EQ(node.disk.files(), before);
  return out;
}

}  // namespace queen::qlog
