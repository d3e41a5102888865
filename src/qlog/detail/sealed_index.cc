#include "qlog/detail/sealed_index.h"

#include <fmt/format.h>

namespace queen::qlog::detail {

Status SealedIndex::verify(std::uint32_t file_id, std::uint64_t file_bytes) {
  const Reading reading(*this);
  const auto header = verify_index_file(reading.bytes);
  if (!header) return header.error();
  if (header->file_id != file_id || header->file_bytes != file_bytes)
    return Error{Errc::corrupt, fmt::format("index file: describes file {} of {} bytes", header->file_id,
                                            header->file_bytes)};
  count_ = header->count;
  return {};
}

Result<std::shared_ptr<const SealedIndex>> SealedIndex::hold(Bytes bytes, std::uint32_t file_id,
                                                             std::uint64_t file_bytes) {
  auto index = std::make_shared<SealedIndex>();
  index->held_ = std::move(bytes);
  if (auto done = index->verify(file_id, file_bytes); !done) return std::move(done).error();
  return std::shared_ptr<const SealedIndex>(std::move(index));
}

Result<std::shared_ptr<const SealedIndex>> SealedIndex::over(std::unique_ptr<disk::Mapping> mapping,
                                                             std::uint32_t file_id,
                                                             std::uint64_t file_bytes) {
  auto index = std::make_shared<SealedIndex>();
  index->mapping_ = std::move(mapping);
  if (auto done = index->verify(file_id, file_bytes); !done) return std::move(done).error();
  index->let_go();
  return std::shared_ptr<const SealedIndex>(std::move(index));
}

IndexAnswer SealedIndex::find(const IndexQuery& query, std::size_t records_max) const {
  note_search();
  const std::size_t from = first_not(0, count_, [&](const IndexRecord& record) {
    return record.pid < query.pid ||
           (record.pid == query.pid && !query.satisfied_by(record.end, record.created_at));
  });
  const Reading reading(*this);
  IndexAnswer answer;
  answer.ends = from > 0 && index_record_at(reading.bytes, from - 1).pid == query.pid;
  answer.records = records_from(reading.bytes, from, query.pid, records_max);
  answer.next = from + answer.records.size();
  if (!answer.records.empty() && answer.records.front().base_offset <= query.offset) answer.ends = true;
  return answer;
}

std::vector<IndexRecord> SealedIndex::from(std::size_t from, std::uint64_t pid,
                                           std::size_t records_max) const {
  note_search();
  const Reading reading(*this);
  return records_from(reading.bytes, from, pid, records_max);
}

std::vector<IndexRecord> SealedIndex::records_from(BytesView bytes, std::size_t from, std::uint64_t pid,
                                                   std::size_t records_max) const {
  std::vector<IndexRecord> records;
  for (std::size_t i = from; i < count_ && records.size() < records_max; ++i) {
    const IndexRecord record = index_record_at(bytes, i);
    if (record.pid != pid) break;
    records.push_back(record);
  }
  return records;
}

}  // namespace queen::qlog::detail
