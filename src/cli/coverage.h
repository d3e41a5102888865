// Whether the logs hold what the rows of the store say: every message that is retained, once, and each append
// row as its record has it.
#pragma once

#include <string>
#include <unordered_map>

#include "base/finding.h"
#include "qlog/verify.h"
#include "store/rows.h"
#include "store/store.h"

namespace queen::cli {

struct CoverageInput {
  const store::Store& store;  // nobody writes it
  const qlog::DurableState& durable;
  std::string directory;  // .../qlog
  bool store_known = true;     // false: which entries the rows contain is not known, nothing is compared
  bool store_complete = true;  // false: rows may be missing, which is told of elsewhere
};

class Coverage final : public qlog::RecordReader {
 public:
  Coverage(CoverageInput input, Findings& findings) : input_(std::move(input)), findings_(findings) {}

  void message(const qlog::RecordPlace& place, const qlog::Record& record) override;
  Status entry(const qlog::RecordPlace& place, const qlog::Record& record) override;
  // When all logs were read: partitions whose end was not reached.
  void finish();

 private:
  struct Partition {
    LogId log;
    std::int64_t log_start = 0, rows_start = 0, last_offset = -1;
    std::int64_t next = 0;  // the first offset that no record has shown yet
    bool known = false;
  };
  Partition& partition_of(Pid pid);
  void gap(Pid pid, const Partition& partition, std::int64_t from, std::int64_t to);
  void compare_row(const qlog::RecordPlace& place, const qlog::Record& record, const Partition& partition);
  void tell(const char* rule, const qlog::RecordPlace& place, std::string what);

  const CoverageInput input_;
  Findings& findings_;
  std::unordered_map<Pid, Partition> partitions_;
};

}  // namespace queen::cli
