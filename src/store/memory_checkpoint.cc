// The checkpoint file of tests that need none: rows in a map. And how refusals name a key.
#include <fmt/format.h>

#include <map>

#include "base/text.h"
#include "store/checkpoint_file.h"

namespace queen::store {
namespace {

constexpr std::size_t kShownBytesMax = 96;

class MemoryCheckpoint final : public CheckpointFile {
 public:
  Status load(Store& store) override {
    for (std::size_t i = 0; i < kKeyspaceCount; ++i)
      for (const auto& [key, row] : tables_[i])
        store.load(static_cast<Keyspace>(i), key, *row.value, row.checksum);
    return {};
  }
  Status write(const Cut& cut) override {
    for (std::size_t i = 0; i < kKeyspaceCount; ++i) {
      if (auto checked = check(static_cast<Keyspace>(i), cut.rows[i]); !checked) return checked;
    }
    for (std::size_t i = 0; i < kKeyspaceCount; ++i) {
      for (const CutRow& row : cut.rows[i]) {
        if (row.value)
          tables_[i].insert_or_assign(row.key, row);
        else
          tables_[i].erase(row.key);
      }
    }
    fresh_ = false;
    return {};
  }
  bool fresh() const override { return fresh_; }
  Usage usage() const override { return {}; }

 private:
  static Status check(Keyspace keyspace, const std::vector<CutRow>& rows) {
    for (const CutRow& row : rows) {
      if (!row.value || row_checksum(keyspace, row.key, *row.value) == row.checksum) continue;
      return Error{Errc::corrupt, fmt::format("store keyspace {}, key {}: checksum does not match in memory",
                                              name_of(keyspace), describe_key(row.key))};
    }
    return {};
  }
  std::array<std::map<Bytes, CutRow>, kKeyspaceCount> tables_;
  bool fresh_ = true;
};

}  // namespace

std::unique_ptr<CheckpointFile> make_memory_checkpoint() {
  return std::make_unique<MemoryCheckpoint>();
}

std::string describe_key(BytesView key) {
  const BytesView shown = key.substr(0, kShownBytesMax);
  std::string printable;
  for (const char c : shown) printable.push_back(c >= 0x20 && c < 0x7F ? c : '.');
  return fmt::format("{}{} (\"{}\")", hex_lower(shown), shown.size() < key.size() ? "..." : "", printable);
}

}  // namespace queen::store
