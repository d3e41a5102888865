#include "qlog/detail/inspect.h"

#include <algorithm>
#include <memory>

#include "qlog/detail/file_scan.h"
#include "qlog/detail/paths.h"
#include "qlog/detail/refusal.h"

namespace queen::qlog::detail {
namespace {

constexpr std::int64_t kProgressEveryUs = 5'000'000;
constexpr std::uint64_t kProgressEveryBytes = 4ULL << 20;

class Inspection {
 public:
  Inspection(const InspectContext& context, LogId log) : context_(context) { image_.id = log; }

  Result<LogImage> run() {
    if (auto done = list_files(); !done) return std::move(done).error();
    if (auto done = set_unused_aside(); !done) return std::move(done).error();
    if (auto done = check_listed(); !done) return std::move(done).error();
    for (std::size_t i = 0; i < image_.files.size(); ++i) {
      const bool active = i + 1 == image_.files.size();
      auto done = active ? look_at_active(image_.files[i]) : look_at_sealed(i);
      if (!done) return std::move(done).error();
    }
    context_.progress.log_done();
    return std::move(image_);
  }

 private:
  std::string path_of(std::uint32_t file_id) const {
    return record_file(context_.options.directory, image_.id, file_id);
  }
  Result<std::unique_ptr<disk::File>> open(std::uint32_t file_id) const {
    return context_.disk.open(path_of(file_id), disk::Open::read);
  }

  Place at(const char* rule, const FoundFile& file, std::optional<std::uint64_t> position) const {
    return {rule, path_of(file.id), position};
  }

  Status list_files() {
    const auto names = context_.disk.list(log_directory(context_.options.directory, image_.id));
    if (!names) return names.error();
    std::vector<std::uint32_t> indexes;
    for (const auto& [name, directory] : *names) {
      if (directory) continue;
      if (const auto id = parse_file_name(name, ".qlog")) image_.files.push_back({.id = *id});
      if (const auto id = parse_file_name(name, ".qidx")) indexes.push_back(*id);
      if (name.ends_with(".tmp") || name.ends_with(".compact")) image_.leftovers.push_back(name);
    }
    std::ranges::sort(image_.files, {}, &FoundFile::id);
    // An index without its file: reclaim was stopped between the two unlinks.
    for (const auto id : indexes)
      if (!std::ranges::binary_search(image_.files, id, {}, &FoundFile::id)) forget_index(id);
    return {};
  }

  void forget_index(std::uint32_t id) { image_.leftovers.push_back(fmt::format("r{:08}.qidx", id)); }

  // Reads the header of the newest file and takes it out when nothing in it was ever acknowledged (4.7 step
  // 2).
  Status set_unused_aside() {
    std::uint64_t before = 1;
    for (auto& file : image_.files) {
      const bool newest = &file == &image_.files.back();
      auto used = read_header(file, newest);
      if (!used && used.error().code == Errc::corrupt) {
        auto done = context_.judge.damage(at("BR-11", file, 0), std::move(used).error());
        if (!done) return done;
        file.header_damaged = true;
        file.first_seq = before;
        continue;
      }
      if (!used) return std::move(used).error();
      before = std::max(before, file.first_seq);
      if (*used) continue;
      image_.leftovers.push_back(fmt::format("r{:08}.qlog", file.id));
      if (context_.disk.exists(index_path(context_.options.directory, image_.id, file.id)).value_or(false))
        forget_index(file.id);
      image_.files.pop_back();
      break;
    }
    return {};
  }

  bool listed(std::uint32_t id) const {
    const auto row = context_.durable.files.find(image_.id);
    return row != context_.durable.files.end() && std::ranges::find(row->second, id) != row->second.end();
  }

  Error header_damaged(std::uint32_t id, std::string_view field) const {
    return refusal("log q{} file {}: the file header is damaged ({})", image_.id.value, path_of(id), field);
  }

  // False: a newest file that is not in use.
  Result<bool> read_header(FoundFile& file, bool newest) const {
    const auto opened = open(file.id);
    if (!opened) return opened.error();
    const auto size = (*opened)->size();
    if (!size) return size.error();
    file.bytes = *size;
    const bool may_be_unused = newest && !listed(file.id);
    if (*size < kFileHeaderBytes && may_be_unused) return false;
    Bytes bytes(std::min<std::uint64_t>(*size, kFileHeaderBytes), '\0');
    if (const auto got = (*opened)->pread(0, bytes); !got) return got.error();
    if (may_be_unused && BytesView(bytes).find_first_not_of('\0') == BytesView::npos) {
      // Records behind it were written after the header was synced, so a crash does not explain its loss.
      const auto behind = first_non_zero(**opened, *size, kFileHeaderBytes);
      if (!behind) return behind.error();
      if (!*behind) return false;
    }
    const auto header = decode_file_header(bytes);
    if (!header) return header_damaged(file.id, header.error().what);
    if (header->file_id != file.id)
      return header_damaged(file.id, fmt::format("file id {}, the name says {}", header->file_id, file.id));
    if (header->first_seq == kUnusedFirstSeq && may_be_unused) return false;
    if (header->first_seq == kUnusedFirstSeq || header->first_seq == 0)
      return header_damaged(file.id, fmt::format("first seq {}", header->first_seq));
    file.first_seq = header->first_seq;
    return true;
  }

  Status check_listed() {
    const auto row = context_.durable.files.find(image_.id);
    if (row == context_.durable.files.end() || row->second.empty()) return {};
    for (const auto& file : image_.files)
      if (file.id < row->second.back() && !listed(file.id)) image_.unlisted.push_back(file.id);
    for (const auto id : row->second) {
      if (std::ranges::binary_search(image_.files, id, {}, &FoundFile::id)) continue;
      auto done = context_.judge.damage(
          {"BR-10", path_of(id), {}},
          refusal("log q{}: file id {} ({}) is missing, the last checkpoint lists it", image_.id.value, id,
                  path_of(id)));
      if (!done) return done;
    }
    return {};
  }

  Status backwards(const FoundFile& file, std::uint64_t position, std::uint64_t seq, std::uint64_t before_at,
                   std::uint64_t before) const {
    return context_.judge.damage(
        at("BR-2", file, position),
        refusal("log q{} file {}: the seqs run backwards: seq {} at byte {} behind seq {} at byte {}; "
                "refusing to cut acknowledged data",
                image_.id.value, path_of(file.id), seq, position, before, before_at));
  }

  // Takes in one good record. Seqs never decrease, and an entry part ends its seq (QL-3).
  Status take(FoundFile& file, const ScanResult& found, std::uint64_t position) {
    const Record& record = found.record;
    const bool after_part = last_is_part_ && record.seq == last_seq_;
    if (record.seq < last_seq_ || after_part || record.seq < file.first_seq) {
      auto done =
          backwards(file, position, record.seq, last_position_, std::max(last_seq_, file.first_seq));
      if (!done) return done;
    }
    context_.judge.record(image_.id, file, position, found);
    if (record.seq != file.highest_seq) starts_.push_back({record.seq, position});
    last_seq_ = file.highest_seq = record.seq;
    last_position_ = position;
    last_is_part_ = record.kind != RecordKind::message;
    if (record.seq <= context_.durable.durable_index) {
      starts_.clear();
      return {};
    }
    if (last_is_part_) {
      image_.parts.push_back(part_of(found, image_.id, file.id, position));
    } else {
      image_.messages.push_back({record.seq, record.pid, record.base_offset});
    }
    return {};
  }

  void count(std::uint64_t position, std::uint64_t& counted) const {
    if (position - counted < kProgressEveryBytes) return;
    context_.progress.scanned(position - counted);
    counted = position;
  }

  // A file with a valid index whose seqs all are at or below the durable index is not scanned (QL-26).
  Status look_at_sealed(std::size_t i) {
    FoundFile& file = image_.files[i];
    const FoundFile& next = image_.files[i + 1];
    if (next.first_seq < file.first_seq) {
      auto done = backwards(next, kFileHeaderBytes, next.first_seq, kFileHeaderBytes, file.first_seq);
      if (!done) return done;
    }
    const auto index = read_index_file(
        context_.disk, index_path(context_.options.directory, image_.id, file.id), file.id, file.bytes);
    if (!index && index.error().code == Errc::unavailable) return index.error();
    file.index_missing = !index;
    boot_scans_ = !index || next.first_seq - 1 > context_.durable.durable_index;
    if (!boot_scans_ && !context_.judge.wants_all()) return {};
    return scan_sealed(file, next);
  }

  Status scan_sealed(FoundFile& file, const FoundFile& next) {
    const auto opened = open(file.id);
    if (!opened) return opened.error();
    FileScanner scanner(**opened, file.bytes);
    std::uint64_t counted = 0;
    bool damaged = file.header_damaged;
    while (scanner.position() < file.bytes) {
      const std::uint64_t position = scanner.position();
      const auto found = scanner.next();
      if (!found) return found.error();
      if (found->outcome == Scan::record) {
        if (auto done = take(file, *found, position); !done) return done;
        count(position, counted);
        continue;
      }
      damaged = true;
      const auto good = step_over(file, **opened, position, next.first_seq - 1);
      if (!good) return good.error();
      if (!*good) break;
      scanner.go_to((*good)->position);
    }
    starts_.clear();
    context_.progress.scanned(file.bytes - counted);
    context_.judge.sealed_file(image_.id, file, damaged);
    if (file.highest_seq < next.first_seq || next.header_damaged) return {};
    return backwards(next, kFileHeaderBytes, next.first_seq, last_position_, file.highest_seq);
  }

  // Damage in a sealed file, and where the next good record stands when the judge goes on.
  Result<std::optional<GoodRecord>> step_over(const FoundFile& file, disk::File& opened,
                                              std::uint64_t position, std::uint64_t seq_max) const {
    Error error = refusal(
        "log q{} file {} byte {}: a record of a sealed file fails its check; sealing comes after "
        "an fsync, so no crash explains it",
        image_.id.value, path_of(file.id), position);
    if (boot_scans_) {
      if (auto done = context_.judge.damage(at("BR-1", file, position), std::move(error)); !done)
        return std::move(done).error();
    } else {
      context_.judge.mention(Severity::damage, at("CR-6", file, position), std::move(error.what));
    }
    return find_good_record(opened, file.bytes, position + 1, std::max(seq_max, last_seq_));
  }

  Status look_at_active(FoundFile& file) {
    if (context_.disk.exists(index_path(context_.options.directory, image_.id, file.id)).value_or(false))
      forget_index(file.id);
    const auto opened = open(file.id);
    if (!opened) return opened.error();
    FileScanner scanner(**opened, file.bytes);
    std::uint64_t counted = 0;
    for (;;) {
      const std::uint64_t position = scanner.position();
      const auto found = scanner.next();
      if (!found) return found.error();
      count(position, counted);
      if (found->outcome != Scan::record) {
        if (image_.active_end == 0) image_.active_end = position;
        const auto good = check_tail(file, **opened, position);
        if (!good) return good.error();
        if (!*good) break;
        scanner.go_to((*good)->position);
        continue;
      }
      if (auto done = take(file, *found, position); !done) return done;
      if (position == kFileHeaderBytes) image_.active_since_us = found->record.created_at;
      if (found->record.kind == RecordKind::message)
        image_.active_records.push_back(index_record_of(found->record, position, found->bytes));
    }
    context_.progress.scanned(scanner.position() - counted);
    image_.active_starts = std::move(starts_);
    image_.highest_seq = std::max(file.highest_seq, file.first_seq - 1);
    return {};
  }

  // What stands behind the last good record may be cut only when nothing at or below the durable index is in
  // it (4.7 step 6). Gives that record when the judge goes on.
  Result<std::optional<GoodRecord>> check_tail(const FoundFile& file, disk::File& opened,
                                               std::uint64_t end) const {
    const std::uint64_t durable = context_.durable.durable_index;
    if (durable == 0 && !context_.judge.wants_all()) return std::optional<GoodRecord>{};
    const auto garbage = first_non_zero(opened, file.bytes, end);
    if (!garbage) return garbage.error();
    if (!*garbage) return std::optional<GoodRecord>{};
    const auto good = find_good_record(opened, file.bytes, end + 1, durable);
    if (!good) return good.error();
    if (!*good) {
      context_.judge.mention(
          Severity::note, at("QL-4", file, end),
          fmt::format("the file is torn here: {} bytes that hold no record below the durable index will be "
                      "cut by the next boot",
                      file.bytes - end));
      return *good;
    }
    auto done = context_.judge.damage(
        at("BR-2", file, end),
        refusal("log q{} file {}: the record at byte {} is unreadable (so is its seq), and behind it, at "
                "byte {}, stands a good one with seq {}, at or below the durable index {}; refusing to cut "
                "acknowledged data",
                image_.id.value, path_of(file.id), end, (*good)->position, (*good)->seq, durable));
    if (!done) return std::move(done).error();
    return *good;
  }

  const InspectContext& context_;
  LogImage image_;
  std::vector<SeqStart> starts_;  // of the file being scanned
  bool boot_scans_ = true;        // the sealed file that is looked at
  std::uint64_t last_seq_ = 0, last_position_ = 0;
  bool last_is_part_ = false;
};

}  // namespace

void Progress::tell(const char* event) {
  if (clock_ == nullptr) return;
  const std::lock_guard held(mutex_);
  const std::int64_t now = clock_->mono_us();
  if (now - last_us_ < kProgressEveryUs) return;
  last_us_ = now;
  log_.info(event, {{"bytes", bytes_.load()}, {"logs", logs_.load()}, {"entries", entries_.load()}});
}

EntryPart part_of(const ScanResult& found, LogId log, std::uint32_t file_id, std::uint64_t position) {
  const Record& record = found.record;
  EntryPart part{.seq = record.seq,
                 .log = log,
                 .file_id = file_id,
                 .bytes = static_cast<std::uint32_t>(found.bytes),
                 .position = position,
                 .whole = record.kind == RecordKind::entry,
                 .copies = record.copies(),
                 .term = record.term(),
                 .now_us = record.created_at};
  if (part.whole) {
    part.xxh3 = xxh3_64(record.body);
    part.entry_bytes = static_cast<std::uint32_t>(record.body.size());
  } else if (const auto stub = decode_stub_body(record.body)) {
    part.xxh3 = stub->xxh3;
    part.entry_bytes = stub->length;
  }
  return part;
}

Result<LogImage> inspect_log(const InspectContext& context, LogId log) {
  return Inspection(context, log).run();
}

}  // namespace queen::qlog::detail
