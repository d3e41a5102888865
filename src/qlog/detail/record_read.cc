#include "qlog/detail/record_read.h"

#include <fmt/format.h>

namespace queen::qlog::detail {
namespace {

bool names(const Record& record, const IndexRecord& at) {
  return record.kind == RecordKind::message && record.pid == at.pid && record.base_offset == at.base_offset &&
         record.count == at.count && record.created_at == at.created_at;
}

}  // namespace

Error damaged(const FileKey& file, std::uint64_t position, std::string_view what) {
  return {Errc::corrupt,
          fmt::format("log q{} file id {} byte {}: {}", file.log.value, file.file_id, position, what)};
}

Result<std::shared_ptr<const Bytes>> read_bytes(Shared& shared, const FileKey& key, std::uint64_t position,
                                                std::uint32_t size) {
  auto file = shared.open_file(key);
  if (!file) return std::move(file).error();
  auto bytes = std::make_shared<Bytes>(size, '\0');
  const auto got = (*file)->pread(position, *bytes);
  if (!got) return got.error();
  if (*got != size) return damaged(key, position, "the file ends inside the record");
  return std::shared_ptr<const Bytes>(std::move(bytes));
}

Result<ReadRecord> read_record(Shared& shared, const FileKey& key, const IndexRecord& at) {
  auto bytes = read_bytes(shared, key, at.position, at.length);
  if (!bytes) return std::move(bytes).error();
  const ScanResult found = scan_record(**bytes);
  if (found.outcome != Scan::record || found.bytes != at.length || !names(found.record, at))
    return damaged(key, at.position, "the record the index names is damaged");
  return ReadRecord{.record = found.record, .buffer = std::move(*bytes)};
}

Error report(Shared& shared, const FileKey& key, const IndexRecord& at, Error error) {
  if (error.code == Errc::corrupt) shared.damage.record(key, at.position, error.what);
  return error;
}

}  // namespace queen::qlog::detail
