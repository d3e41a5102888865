// All state that is not message bytes, in RAM. One writer (apply); any number of readers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "store/damage.h"
#include "store/view.h"

namespace queen::store {

// One changed row of a cut: its value and checksum, or nothing when it was deleted.
struct CutRow {
  Bytes key;
  std::optional<Bytes> value;
  std::uint64_t checksum = 0;
};
// Everything that changed since the cut before, rows in key order.
struct Cut {
  std::array<std::vector<CutRow>, kKeyspaceCount> rows;
  std::size_t count() const;
};

// A reader sees whole entries only while it holds read_gate(); the writer holds write_gate() while it runs
// one entry (AP-3). Neither is held across I/O. Writers are preferred, so readers cannot starve apply.
class Store final : public View {
 public:
  // With VerifyReads::yes a damaged row that is read ends the process (CK-3, CR-1).
  enum class VerifyReads : bool { no, yes };
  explicit Store(VerifyReads verify_reads = VerifyReads::no);
  ~Store() override;

  class ReadGate;
  class WriteGate;
  [[nodiscard]] ReadGate read_gate() const;
  [[nodiscard]] WriteGate write_gate();

  // View. get/scan need a read gate (or the writer's own thread); put/erase need the write gate.
  std::optional<Bytes> get(Keyspace keyspace, BytesView key) const override;
  void put(Keyspace keyspace, BytesView key, BytesView value) override;
  // The same for who knows row_checksum() of the row already (a wrong one is found as damage).
  void put(Keyspace keyspace, BytesView key, BytesView value, std::uint64_t checksum);
  bool erase(Keyspace keyspace, BytesView key) override;
  void scan(Keyspace keyspace, BytesView prefix, BytesView from, const Visit& visit) const override;
  std::optional<Row> last_at_or_below(Keyspace keyspace, BytesView prefix, BytesView to) const override;

  // A row as the checkpoint file holds it: not dirty afterwards. For loading an empty store only: keys of 1
  // to kKeyBytesMax bytes, ascending in each table; `checksum` is taken as it is. Calls for different tables
  // may come from different threads.
  void load(Keyspace keyspace, BytesView key, BytesView value, std::uint64_t checksum);
  std::size_t rows(Keyspace keyspace) const;
  // Memory that the rows of a table take, without the allocator's own.
  std::size_t bytes(Keyspace keyspace) const;

  // Says that the changes until now are the cut: costs nothing per row. Needs the write gate, between two
  // entries. One cut at a time.
  void begin_cut();
  // The changed rows as they were at begin_cut(), while the writer goes on. Any thread that holds no gate;
  // takes the write gate for a few rows at a time, behind writers that wait for it.
  Cut collect_cut();
  // Both at once. Needs the write gate.
  Cut cut();
  // Puts a cut that could not be written back: a newer value of a key wins. Needs the write gate.
  void put_back(const Cut& cut);

  // Verifies the checksums of at most `rows_max` rows from `from` on, under one read gate of its own. Errors:
  // corrupt: names keyspace, key and what failed; then end the process (CR-1).
  Result<Verified> verify(const RowPlace& from, std::size_t rows_max) const;
  // From now on nobody gets a gate: no call is served from a store that is known to be damaged. The caller
  // ends the process. Any thread that holds no gate.
  void poison();

  // xxh3 over all replicated rows in order: equal on two nodes at one applied index. Slow; for tests. Leaves
  // out the node-local meta rows (durable_index, qlog_durable_index, qlog_tail/, qlog_files/, rows/).
  std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Store::ReadGate {
 public:
  explicit ReadGate(const Store& store);
  ~ReadGate();
  ReadGate(ReadGate&& other) noexcept : store_(std::exchange(other.store_, nullptr)) {}
  ReadGate& operator=(ReadGate&&) = delete;

 private:
  const Store* store_;
};

class Store::WriteGate {
 public:
  explicit WriteGate(Store& store);
  ~WriteGate();
  WriteGate(WriteGate&& other) noexcept : store_(std::exchange(other.store_, nullptr)) {}
  WriteGate& operator=(WriteGate&&) = delete;

 private:
  Store* store_;
};

}  // namespace queen::store
