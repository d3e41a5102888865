// Feeds any bytes to the readers of index files and of directory files, and asks what they accept. Nothing
// may crash, read beyond the input or allocate beyond it. Both are guarded by checksums that keep almost
// every mutation out, so the bytes are also tried with the checksums made right.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/hash.h"
#include "base/invariant.h"
#include "qlog/detail/directory_file.h"
#include "qlog/detail/sealed_index.h"

namespace {

using queen::Bytes;
using queen::BytesView;
using queen::qlog::detail::IndexQuery;

class Held final : public queen::disk::Mapping {
 public:
  explicit Held(Bytes bytes) : bytes_(std::move(bytes)) {}
  BytesView bytes() const override { return bytes_; }
  const char* path() const override { return "fuzz"; }

 private:
  const Bytes bytes_;
};

void put(Bytes& bytes, std::size_t at, std::uint64_t value) {
  queen::store_le(bytes.data() + at, value);
}

void read_index(const Bytes& bytes) {
  const auto header = queen::qlog::detail::verify_index_file(bytes);
  if (!header) return;
  const auto index = queen::qlog::detail::SealedIndex::over(
      std::make_unique<Held>(bytes), static_cast<std::uint32_t>(header->file_id), header->file_bytes);
  if (!index) return;
  INVARIANT((*index)->count() == header->count, "{} records of {}", (*index)->count(), header->count);
  (*index)->for_each(0, header->count, [&](const auto& record) {
    const auto found = (*index)->find({.pid = record.pid, .offset = record.base_offset}, 3);
    INVARIANT(record.count == 0 || (!found.records.empty() && found.records.front() == record),
              "record at {} is not found", record.position);
  });
}

void read_directory(const Bytes& bytes) {
  const auto header = queen::qlog::detail::verify_directory_file(bytes);
  if (!header) return;
  const auto directory = queen::qlog::detail::SealedDirectory::over(
      std::make_unique<Held>(bytes), header->log, header->files.front(), header->files.back());
  INVARIANT(directory.has_value(), "a directory that verifies does not open");
  for (std::uint64_t place = 0; place < header->rows; ++place) {
    const auto row = (*directory)->at(place);
    const auto found = (*directory)->find({.pid = row.pid, .offset = row.first_offset});
    INVARIANT(found.place <= header->rows, "place {} of {}", found.place, header->rows);
    (void)(*directory)->at(found.place, row.pid);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(reinterpret_cast<const char*>(data), size);
  read_index(bytes);
  read_directory(bytes);
  if (size < queen::qlog::detail::kDirectoryHeaderBytes) return 0;
  Bytes index = bytes;
  index.replace(0, 8, BytesView("QQIDX1\0\0", 8));
  put(index, 16,
      (std::uint64_t{queen::qlog::detail::kIndexRecordBytes} << 32) |
          (size - queen::qlog::detail::kIndexHeaderBytes) / queen::qlog::detail::kIndexRecordBytes);
  put(index, 32, queen::xxh3_64(BytesView(index).substr(queen::qlog::detail::kIndexHeaderBytes)));
  put(index, 40, queen::xxh3_64(BytesView(index).substr(0, 40)));
  read_index(index);
  bytes.replace(0, 8, BytesView("QDIRX1\0\0", 8));
  put(bytes, 32, 0);
  put(bytes, 40, queen::xxh3_64(BytesView(bytes).substr(queen::qlog::detail::kDirectoryHeaderBytes)));
  put(bytes, 48, queen::xxh3_64(BytesView(bytes).substr(0, 48)));
  read_directory(bytes);
  return 0;
}
