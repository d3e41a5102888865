#include "qlog/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "qlog/detail/directory_check.h"
#include "qlog/detail/file_scan.h"
#include "qlog/detail/inspect.h"
#include "qlog/detail/layout_files.h"
#include "qlog/detail/log.h"
#include "qlog/detail/merge.h"
#include "qlog/detail/part_table.h"
#include "qlog/detail/paths.h"
#include "qlog/detail/queue_logs_impl.h"

namespace queen::qlog {
namespace detail {
namespace {

Finding finding_of(const Place& place, std::string what) {
  Finding finding;
  finding.rule = place.rule;
  finding.path = place.path;
  finding.position = place.position;
  finding.what = std::move(what);
  return finding;
}

// Notes damage and goes on; looks into every record on the way.
class DeepJudge final : public Judge {
 public:
  DeepJudge(const VerifyInput& input, RecordReader& reader, Findings& findings, LogFacts& facts)
      : input_(input),
        reader_(reader),
        findings_(findings),
        facts_(facts),
        parts_(input.parts_max, *this),
        directories_(input.disk, input.directory, *this) {}

  Status damage(const Place& place, Error error) override {
    // An entry that does not decode was told of when its record was met.
    if (std::string_view(place.rule) == "EN-5") return {};
    Finding finding = finding_of(place, std::move(error.what));
    finding.boot = below_durable_ ? Boot::starts : Boot::refused;
    findings_.add(std::move(finding));
    return {};
  }
  bool wants_all() const override { return true; }
  void mention(Severity severity, const Place& place, std::string what) override {
    Finding finding = finding_of(place, std::move(what));
    finding.severity = severity;
    findings_.add(std::move(finding));
  }

  void record(LogId log, const FoundFile& file, std::uint64_t position, const ScanResult& found) override {
    const RecordPlace place{log, file.id, position};
    if (found.record.kind == RecordKind::message) {
      ++facts_.message_records;
      index_.push_back(index_record_of(found.record, position, found.bytes));
      if (const auto good = check_content(found.record); !good)
        tell("QL-15", place, Boot::starts, good.error().what);
      reader_.message(place, found.record);
      return;
    }
    has_part_ = true;
    if (found.record.seq <= input_.durable.durable_index) parts_.add(part_of(found, log, file.id, position));
    if (found.record.kind != RecordKind::entry) return;
    ++facts_.entries;
    const Boot boot = found.record.seq > input_.durable.durable_index ? Boot::refused : Boot::starts;
    if (const auto good = reader_.entry(place, found.record); !good)
      tell("EN-5", place, boot, fmt::format("entry {}: {}", found.record.seq, good.error().what));
  }

  void sealed_file(LogId log, const FoundFile& file, bool damaged) override {
    sort_records(index_);
    check_index(log, file, damaged);
    // A rewrite keeps no entry part, and every file has one before.
    directories_.file({.file_id = file.id, .records = index_, .all = !damaged && has_part_});
    forget_file();
  }

  Status log_begins(LogId log) { return directories_.open(log); }
  void log_ends(const LogImage& image) {
    forget_file();
    directories_.finish(image);
  }

  // Compares parts that recovery does not read any more. Later passes read them again.
  Status finish_parts(const std::vector<LogImage>& images) {
    below_durable_ = true;
    while (parts_.next_pass())
      for (const auto& image : images)
        for (const auto& file : image.files)
          if (auto done = read_parts(image.id, file); !done) return done;
    below_durable_ = false;
    return {};
  }

 private:
  void forget_file() {
    index_.clear();
    has_part_ = false;
  }

  void tell(const char* rule, const RecordPlace& place, Boot boot, std::string_view what) {
    Finding finding = finding_of({rule, record_path(input_.directory, place), place.position},
                                 fmt::format("log q{} file {} byte {}: {}", place.log.value,
                                             record_path(input_.directory, place), place.position, what));
    finding.boot = boot;
    findings_.add(std::move(finding));
  }

  void check_index(LogId log, const FoundFile& file, bool damaged) {
    const std::string path = index_path(input_.directory, log, file.id);
    const auto index = read_index_file(input_.disk, path, file.id, file.bytes);
    if (!index)
      return mention(Severity::note, {"QL-21", path, {}},
                     index.error().code == Errc::not_found
                         ? std::string("missing: the next boot makes it again")
                         : fmt::format("of no use ({}): the next boot makes it again", index.error().what));
    if (damaged ? std::ranges::includes(index->records, index_, before) : index->records == index_) return;
    const auto [at, unused] = std::ranges::mismatch(index->records, index_);
    const auto number = static_cast<std::uint64_t>(at - index->records.begin());
    mention(Severity::damage, {"QL-16", path, kIndexHeaderBytes + number * kIndexRecordBytes},
            fmt::format("{} does not describe its file: record {} differs from what stands there; remove it, "
                        "and the next boot makes it again",
                        path, number));
  }

  static bool before(const IndexRecord& a, const IndexRecord& b) {
    return std::tie(a.pid, a.base_offset, a.position) < std::tie(b.pid, b.base_offset, b.position);
  }

  Status read_parts(LogId log, const FoundFile& file) {
    const auto opened = input_.disk.open(record_file(input_.directory, log, file.id), disk::Open::read);
    if (!opened) return opened.error();
    FileScanner scanner(**opened, file.bytes);
    for (;;) {
      const std::uint64_t position = scanner.position();
      const auto found = scanner.next();
      if (!found) return found.error();
      if (found->outcome != Scan::record) {
        const auto good = find_good_record(**opened, file.bytes, position + 1, input_.durable.durable_index);
        if (!good) return good.error();
        if (!*good) return {};
        scanner.go_to((*good)->position);
        continue;
      }
      if (found->record.kind != RecordKind::message && found->record.seq <= input_.durable.durable_index)
        parts_.add(part_of(*found, log, file.id, position));
    }
  }

  const VerifyInput& input_;
  RecordReader& reader_;
  Findings& findings_;
  LogFacts& facts_;
  PartTable parts_;
  DirectoryCheck directories_;
  bool below_durable_ = false;      // a boot does not look there
  std::vector<IndexRecord> index_;  // of the file being read
  bool has_part_ = false;           // it has a part of an entry
};

class Verification {
 public:
  Verification(const VerifyInput& input, RecordReader& reader, Findings& findings)
      : input_(input), judge_(input, reader, findings, facts_), progress_(&input.clock, input.log) {
    options_.directory = input.directory;
    options_.fd_cache = 16;
  }

  Result<LogFacts> run() {
    auto logs = list_directory();
    if (!logs) return std::move(logs).error();
    if (auto done = check_layout(*logs); !done) return std::move(done).error();
    std::vector<LogImage> images;
    for (const LogId log : *logs) {
      auto image = look_at(log);
      if (!image) return std::move(image).error();
      images.push_back(std::move(*image));
    }
    ignore(check_reach(images, input_.durable, input_.directory, judge_), "the judge goes on");
    Shared shared(input_.disk, options_, input_.log, disk::Open::read);
    auto merged = merge(
        images, input_.durable, input_.appends_of,
        [&](const ReplayEntry& at) { return read_entry_record(shared, at); }, progress_, judge_);
    if (!merged) return std::move(merged).error();
    tell_cut(*merged);
    if (auto done = judge_.finish_parts(images); !done) return std::move(done).error();
    return facts_;
  }

 private:
  void note(const char* rule, const std::string& path, std::string_view what) {
    judge_.mention(Severity::note, {rule, path, {}}, std::string(what));
  }

  Result<std::vector<LogId>> list_directory() {
    std::vector<LogId> logs;
    const auto names = input_.disk.list(input_.directory);
    if (!names && names.error().code == Errc::not_found) return logs;
    if (!names) return names.error();
    for (const auto& [name, directory] : *names) {
      const std::string path = input_.directory + "/" + name;
      const auto log = directory ? parse_log_directory(name) : std::nullopt;
      if (log)
        logs.push_back(*log);
      else if (directory && name.ends_with(".dead"))
        note("DIR-8", path, "a removed log: the next boot deletes it");
      else if (!directory && name.ends_with(".tmp"))
        note("DIR-1", path, "half written: the next boot removes it");
      else if (name != "LANES" && name != "SHARDS" && name != "REMOVED")
        note("DIR-8", path, "nothing of a node's: nothing reads it");
    }
    std::ranges::sort(logs);
    return logs;
  }

  Status check_layout(const std::vector<LogId>& logs) {
    const bool has_logs = std::ranges::any_of(logs, [](LogId log) { return log != kSystemLog; });
    const auto found = read_layout(input_.disk, input_.directory, has_logs ? HasLogs::yes : HasLogs::no,
                                   input_.durable.layout);
    if (found) {
      facts_.layout = Layout{.shards = found->shards.value_or(0), .lanes = found->lanes.value_or(1)};
      return {};
    }
    if (found.error().code != Errc::corrupt) return found.error();
    const bool lanes = found.error().what.find("/LANES") != std::string::npos;
    return judge_.damage({"BR-9", input_.directory + (lanes ? "/LANES" : "/SHARDS"), {}}, found.error());
  }

  Result<LogImage> look_at(LogId log) {
    if (auto done = judge_.log_begins(log); !done) return std::move(done).error();
    auto image = inspect_log({input_.disk, options_, input_.durable, progress_, judge_}, log);
    if (!image) return std::move(image).error();
    judge_.log_ends(*image);
    ++facts_.logs;
    facts_.files += image->files.size();
    for (const auto& file : image->files) facts_.bytes += file.bytes;
    const std::string directory = log_directory(input_.directory, log);
    for (const auto& name : image->leftovers)
      note(name.ends_with(".qlog") ? "QL-19" : "RC-6", directory + "/" + name,
           name.ends_with(".qlog") ? "made ahead of need and not in use: the next boot removes it"
                                   : "a leftover that the next boot removes");
    for (const auto id : image->unlisted)
      note("RE-9", record_file(input_.directory, log, id),
           "not in the last checkpoint's list: reclaim was stopped before it could remove it");
    if (auto done = note_strangers(directory); !done) return std::move(done).error();
    return image;
  }

  Status note_strangers(const std::string& directory) {
    const auto names = input_.disk.list(directory);
    if (!names) return names.error();
    for (const auto& [name, is_directory] : *names) {
      const bool ours = !is_directory &&
                        (parse_file_name(name, ".qlog") || parse_file_name(name, ".qidx") ||
                         name.ends_with(".tmp") || name.ends_with(".compact") || parse_directory_name(name));
      if (!ours) note("DIR-8", directory + "/" + name, "nothing of a log's: nothing reads it");
    }
    return {};
  }

  void tell_cut(const Merged& merged) {
    facts_.last_index = merged.cut - 1;
    facts_.entries_to_replay = merged.replay.size();
    facts_.entries_cut = merged.entries_cut;
    if (merged.entries_cut == 0) return;
    judge_.mention(Severity::note, {"RC-3", input_.directory, {}},
                   fmt::format("entry {} is missing or incomplete: it and what follows it ({} entries) was "
                               "never answered, and the next boot cuts it",
                               merged.cut, merged.entries_cut));
  }

  const VerifyInput& input_;
  LogFacts facts_;
  DeepJudge judge_;
  Progress progress_;
  Options options_;
};

}  // namespace
}  // namespace detail

std::string record_path(const std::string& directory, const RecordPlace& place) {
  return detail::record_file(directory, place.log, place.file_id);
}

Result<LogFacts> verify_logs(const VerifyInput& input, RecordReader& reader, Findings& findings) {
  return detail::Verification(input, reader, findings).run();
}

}  // namespace queen::qlog
