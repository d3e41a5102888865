#include "qlog/detail/log_scrub.h"

#include <algorithm>

#include "base/hash.h"
#include "qlog/detail/paths.h"
#include "qlog/verify.h"

namespace queen::qlog::detail {
namespace {

std::uint64_t hash_of(const IndexRecord& record) {
  IndexEncoder encoder(1);
  encoder.add(record);
  return xxh3_64(BytesView(std::move(encoder).finish(0, 0)).substr(kIndexHeaderBytes));
}

}  // namespace

void LogScrubber::begin_round() {
  round_.clear();
  at_ = 0;
  in_round_ = true;
  for (const LogId id : logs_.log_ids()) {
    const auto log = logs_.find(id);
    if (!log) continue;
    for (const auto& file : *log->sealed_files()) round_.push_back({id, file});
  }
  std::ranges::stable_sort(round_, {}, [](const Target& target) { return target.file.first_seq; });
}

// Not removed and not replaced since the round began.
bool LogScrubber::current(const Target& target) const {
  const auto log = logs_.find(target.log);
  return log && log->has(target.key());
}

bool LogScrubber::open_next() {
  Shared& shared = logs_.shared();
  while (at_ < round_.size()) {
    const Target& target = round_[at_++];
    // Opened apart from the cache: nothing a reader wants open is closed for this.
    auto file =
        shared.open(record_file(shared.options.directory, target.log, target.file.id), disk::Open::read);
    if (!current(target)) continue;
    if (!file) {
      shared.log.warn("scrub_cannot_open",
                      {{"log", target.log.value}, {"file", target.file.id}, {"why", file.error().what}});
      continue;
    }
    // The name still leads to the bytes that a rewrite replaces: they are longer, and not what was to be
    // read.
    const bool rewritten = target.file.generation > 0;
    if (rewritten && (*file)->size().value_or(0) > target.file.bytes) continue;
    reading_.emplace(Reading{.target = target, .file = std::move(*file), .scanner = nullptr});
    reading_->scanner = std::make_unique<FileScanner>(*reading_->file, target.file.bytes);
    return true;
  }
  return false;
}

ScrubStep LogScrubber::step(std::uint64_t bytes_max) {
  ScrubStep step;
  if (!in_round_) begin_round();
  do {
    if (!reading_ && !open_next()) {
      in_round_ = false;
      step.round_done = true;
      break;
    }
    const std::uint64_t before = reading_->scanner->position();
    const bool more = read_some(bytes_max - step.bytes);
    step.bytes += reading_->scanner->position() - before;
    if (more) break;
    ++step.files;
    reading_.reset();
  } while (step.bytes < bytes_max);
  logs_.shared().scrubbed_bytes += step.bytes;
  if (step.round_done) ++logs_.shared().scrub_rounds;
  return step;
}

Status LogScrubber::content_of(const Record& record) {
  return record.kind == RecordKind::message ? check_content(record) : Status{};
}

bool LogScrubber::read_some(std::uint64_t bytes_max) {
  FileScanner& scanner = *reading_->scanner;
  const std::uint64_t end = reading_->target.file.bytes;
  const std::uint64_t from = scanner.position();
  bool good = true;
  do {
    if (scanner.position() >= end) break;
    const std::uint64_t position = scanner.position();
    const auto found = scanner.next();
    if (!found) {
      // The device says that it cannot give these bytes back.
      damaged(position, found.error().what);
      good = false;
    } else if (found->outcome != Scan::record) {
      damaged(position, "a record of a sealed file fails its check");
      good = false;
    } else if (const auto content = content_of(found->record); !content) {
      damaged(position, content.error().what);
      good = false;
    } else {
      read_record(*found, position);
    }
  } while (good && scanner.position() - from < bytes_max);
  reading_->file->drop_cache(reading_->dropped, scanner.position() - reading_->dropped);
  reading_->dropped = scanner.position();
  if (good && scanner.position() < end) return true;
  if (good) finish();
  return false;
}

void LogScrubber::read_record(const ScanResult& found, std::uint64_t position) {
  if (found.record.kind != RecordKind::message) return;
  ++reading_->index_records;
  reading_->index_sum += hash_of(index_record_of(found.record, position, found.bytes));
}

void LogScrubber::finish() {
  if (!current(reading_->target)) return;
  logs_.shared().damage.good(reading_->target.key());
  if (!index_fits()) remake_index();
}

bool LogScrubber::index_fits() const {
  const Target& target = reading_->target;
  Shared& shared = logs_.shared();
  auto mapping = shared.disk.map(index_path(shared.options.directory, target.log, target.file.id));
  if (!mapping) return false;
  const auto index = SealedIndex::over(std::move(*mapping), target.file.id, target.file.bytes);
  if (!index || (*index)->count() != reading_->index_records) return false;
  std::uint64_t sum = 0;
  (*index)->for_each(0, (*index)->count(), [&](const IndexRecord& record) { sum += hash_of(record); });
  return sum == reading_->index_sum;
}

void LogScrubber::remake_index() {
  const Target& target = reading_->target;
  Shared& shared = logs_.shared();
  const auto log = logs_.find(target.log);
  // While a rewrite takes its place, the index of the other generation stands here.
  if (!log || !log->has(target.key())) return;
  shared.log.warn("index_unfit", {{"log", target.log.value}, {"file", target.file.id}});
  ignore(shared.disk.remove_file(index_path(shared.options.directory, target.log, target.file.id)),
         "it is written over as well");
  shared.indexes.erase(target.key());
  ignore(log->load_index(target.file), "the next reader tries again");
}

void LogScrubber::damaged(std::uint64_t position, std::string_view what) {
  // What a file that has gone or been replaced meanwhile looks like from here says nothing.
  if (current(reading_->target)) logs_.shared().damage.scrubbed(reading_->target.key(), position, what);
}

}  // namespace queen::qlog::detail
