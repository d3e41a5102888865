// Questions that the index answers alone, and the hashes of one append: storage.md 20.1, RD-5.
#include <algorithm>

#include "qlog/detail/queue_logs_impl.h"
#include "qlog/detail/record_read.h"

namespace queen::qlog::detail {
namespace {

// Records copied under a log's lock at a time.
constexpr std::size_t kRunRecordsMax = 256;

AppendPlace place_of(const IndexRecord& at) {
  const std::size_t around = kRecordFixedBytes + std::size_t{16} * at.count;
  return {.base_offset = at.base_offset,
          .end = at.end,
          .created_at = at.created_at,
          .count = at.count,
          .stored_bytes = at.length > around ? static_cast<std::uint32_t>(at.length - around) : 0};
}

// `place`: where it looked; damage there is told of by the caller, once it is not that of a file replaced
// meanwhile.
Result<std::optional<AppendHashes>> hashes_in(Shared& shared, Log& log, Pid pid, std::uint64_t offset,
                                              RecordRun& place) {
  const std::optional<AppendHashes> none;
  auto run = log.find({.pid = pid.value, .offset = offset}, 1);
  if (!run) return std::move(run).error();
  place = std::move(*run);
  if (place.records.empty() || place.records.front().base_offset > offset) return none;
  const IndexRecord& at = place.records.front();
  const auto read = read_record(shared, place.file, at);
  if (!read) return read.error();
  const auto raw_bytes = raw_payload_bytes(read->record);
  if (!raw_bytes) return damaged(place.file, at.position, raw_bytes.error().what);
  return std::optional(AppendHashes{.base_offset = at.base_offset,
                                    .created_at = at.created_at,
                                    .hashes = Bytes(read->record.hashes()),
                                    .raw_bytes = static_cast<std::uint32_t>(*raw_bytes)});
}

}  // namespace

Result<std::vector<AppendPlace>> QueueLogsImpl::locate(LogId log, Pid pid, std::uint64_t from_offset,
                                                       std::size_t appends_max) {
  std::vector<AppendPlace> places;
  const auto found = find(log);
  if (found == nullptr) return places;
  RecordRun last;
  for (std::uint64_t next = from_offset; places.size() < appends_max;) {
    const std::size_t most = std::min(appends_max - places.size(), kRunRecordsMax);
    auto run = asking_again(*found,
                            [&] { return found->find_next(last, {.pid = pid.value, .offset = next}, most); });
    if (!run) return std::move(run).error();
    if (run->records.empty()) break;
    for (const auto& at : run->records) places.push_back(place_of(at));
    next = run->records.back().end;
    last = std::move(*run);
  }
  return places;
}

Result<std::uint64_t> QueueLogsImpl::first_stamped_at_or_after(LogId log, Pid pid, std::uint64_t from_offset,
                                                               std::uint64_t end_offset,
                                                               std::int64_t since_us) {
  const auto found = find(log);
  if (found == nullptr) return end_offset;
  const IndexQuery query{.pid = pid.value, .offset = from_offset, .since_us = since_us};
  const auto run = asking_again(*found, [&] { return found->find(query, 1); });
  if (!run) return run.error();
  if (run->records.empty()) return end_offset;
  return std::min(std::max(run->records.front().base_offset, from_offset), end_offset);
}

Result<std::optional<AppendHashes>> QueueLogsImpl::hashes_at(LogId log, Pid pid, std::uint64_t offset) {
  const auto found = find(log);
  if (found == nullptr) return std::optional<AppendHashes>{};
  RecordRun place;
  auto hashes = asking_again(*found, [&] { return hashes_in(*shared_, *found, pid, offset, place); });
  if (hashes || place.records.empty()) return hashes;
  return report(*shared_, place.file, place.records.front(), std::move(hashes).error());
}

}  // namespace queen::qlog::detail
