#include "lake_oracle.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <string_view>

#include "base/text.h"
#include "lake_text.h"
#include "sink/manifest.h"

namespace queen::sim {
namespace {

using sink::LostRange;
using sink::Manifest;
using sink::ManifestObject;

std::string sha256(BytesView bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
  return hex_lower({reinterpret_cast<const char*>(digest), sizeof digest});
}

std::string line_of(std::string_view partition, const LakeRecord& record) {
  std::string payload = record.payload.value_or("null");
  for (char& c : payload) c = c == '\n' || c == '\r' ? ' ' : c;
  return fmt::format(R"({{"partition":{},"offset":{},"transactionId":{},"ts":"{}","payload":{}}})",
                     json_string(partition), record.offset, json_string(record.transaction_id),
                     iso_micros(record.ts), payload);
}

// The number of the window that a data object belongs to; nothing for a name of another form.
std::optional<std::uint64_t> window_of(std::string_view key) {
  const std::size_t at = key.rfind("/w-");
  if (at == std::string_view::npos) return std::nullopt;
  std::uint64_t k = 0;
  const auto [end, error] = std::from_chars(key.data() + at + 3, key.data() + key.size(), k);
  if (error != std::errc() || end == key.data() + key.size() || *end != '-') return std::nullopt;
  return k;
}

struct Known {
  const LakeRecord* record = nullptr;
  std::string_view partition;
  std::uint64_t shipped = 0;  // lines that are it
};

class Oracle {
 public:
  explicit Oracle(const LakeQuestion& question) : question_(question) {
    for (const PartitionLife& life : question_.log)
      for (const LakeRecord& record : life.records)
        log_[life.partition].emplace(record.offset, Known{&record, life.partition, 0});
  }

  LakeAnswer run() {
    check_windows();
    check_pointer();
    check_lost();
    check_records();
    check_orphans();
    check_puts();
    return std::move(answer_);
  }

 private:
  std::uint64_t committed() const { return question_.pointer ? question_.pointer->k : 0; }

  void say(std::string_view reason, std::uint64_t k, std::string_view what) {
    answer_.complaints.push_back(fmt::format("{}: window {}: {}", reason, k, what));
  }
  void say(std::string_view reason, std::string_view what) {
    answer_.complaints.push_back(fmt::format("{}: {}", reason, what));
  }

  void check_windows() {
    for (std::uint64_t k = 1; k <= committed(); ++k) {
      const std::string key = sink::manifest_key(question_.path, k);
      const auto found = question_.objects.find(key);
      if (found == question_.objects.end()) {
        say("numbering", k, key + " is not there");
        continue;
      }
      auto manifest = sink::parse_manifest(found->second);
      if (!manifest) say("manifest", k, manifest.error().what);
      if (manifest) check_window(std::move(*manifest), k, found->second);
    }
  }

  void check_window(Manifest manifest, std::uint64_t k, BytesView text) {
    if (sink::encode(manifest) != text)
      say("manifest", k, "its text is not the compact form of what it says");
    const bool ours = manifest.bounds.k == k && manifest.sink == question_.sink &&
                      manifest.tenant == question_.path.tenant && manifest.queue == question_.path.queue;
    if (!ours) say("names", k, "the manifest is of another window, sink, tenant or queue");
    std::uint64_t bytes = 0, records = 0;
    for (const ManifestObject& object : manifest.objects) {
      bytes += object.bytes;
      records += object.records;
    }
    if (bytes != manifest.bytes || records != manifest.records)
      say("sums", k, "bytes or records are not those of the objects");
    check_tiling(manifest);
    if (manifest.layout == "merged" && manifest.objects.size() != 1)
      say("names", k, fmt::format("layout merged with {} objects", manifest.objects.size()));
    summary_ = {};
    for (const ManifestObject& object : manifest.objects) check_object(manifest, object);
    if (summary_.partitions.size() != manifest.partitions || manifest.min_ts != summary_.min_ts ||
        manifest.max_ts != summary_.max_ts)
      say("summary", k, "partitions, minTs or maxTs are not those of the lines");
    for (const LostRange& range : manifest.lost) lost_.emplace_back(k, range);
    previous_end_ = manifest.bounds.t_end;
    last_ = std::move(manifest);
    ++answer_.windows;
  }

  void check_tiling(const Manifest& manifest) {
    const auto& [k, start, end] = manifest.bounds;
    if (start >= end) say("tiling", k, "the window is empty");
    const auto boundary = sink::next_boundary(question_.align, start);
    if (boundary && end > *boundary) say("tiling", k, "the window crosses a boundary");
    if (!previous_end_ || start == *previous_end_) return;
    if (start < *previous_end_) return say("tiling", k, "the window overlaps the one before");
    if (!sink::align_unit_us(question_.align) || sink::align_floor(question_.align, start) != start)
      say("tiling", k, "there is a gap before the window");
  }

  void check_object(const Manifest& manifest, const ManifestObject& object) {
    const std::uint64_t k = manifest.bounds.k;
    if (!named_.insert(object.key).second) say("key", k, object.key + " is named twice");
    const std::size_t name = object.key.rfind('/');
    std::size_t dot = name == std::string::npos ? name : object.key.find(".jsonl", name);
    if (dot == std::string::npos && object.key.ends_with(".parquet")) dot = object.key.rfind('.');
    const std::string extension = dot == std::string::npos ? "" : object.key.substr(dot + 1);
    const std::string derived = sink::data_key(question_.path, question_.align, manifest.bounds, extension,
                                               object.run ? &*object.run : nullptr);
    if (object.key != derived) say("key", k, object.key + " is not " + derived);
    if (!agrees(manifest, extension))
      say("format", k, fmt::format("{} is {} with {}", object.key, manifest.format, manifest.compression));
    const auto found = question_.objects.find(object.key);
    if (found == question_.objects.end()) return say("object", k, object.key + " is not there");
    if (found->second.size() != object.bytes || sha256(found->second) != object.sha256)
      return say("bytes", k, object.key + " is not what the manifest says");
    const auto lines = lines_of(object.key, found->second);
    if (!lines) return say("line", k, lines.error().what);
    if (lines->size() != object.records) say("sums", k, object.key + " holds another number of records");
    check_lines(manifest, object, *lines);
  }

  static bool agrees(const Manifest& manifest, std::string_view extension) {
    if (manifest.format == "parquet")
      return extension == "parquet" && (manifest.compression == "zstd" || manifest.compression == "snappy");
    if (manifest.format != "jsonl") return false;
    if (manifest.compression == "zstd") return extension == "jsonl.zst";
    if (manifest.compression == "gzip") return extension == "jsonl.gz";
    return manifest.compression == "none" && extension == "jsonl";
  }

  void check_lines(const Manifest& manifest, const ManifestObject& object,
                   const std::vector<LakeLine>& lines) {
    const auto& [k, start, end] = manifest.bounds;
    const LakeLine* before = nullptr;
    for (const LakeLine& line : lines) {
      ++answer_.records;
      if (before != nullptr && !ascends(*before, line)) say("order", k, line.text);
      before = &line;
      if (line.ts < start || line.ts >= end) say("ts", k, line.text);
      if (object.run && object.run->partition != line.partition) say("names", k, line.text);
      summary_.partitions.insert(line.partition);
      summary_.min_ts = std::min(summary_.min_ts.value_or(line.ts), line.ts);
      summary_.max_ts = std::max(summary_.max_ts.value_or(line.ts), line.ts);
      check_line(k, line);
    }
    if (!object.run) return;
    const bool run = !lines.empty() && lines.front().offset == object.run->first_offset &&
                     lines.back().offset == object.run->last_offset;
    if (!run) say("summary", k, object.key + " holds another run of offsets");
  }

  // Offsets may begin again where the stamp is greater: a partition made again.
  static bool ascends(const LakeLine& before, const LakeLine& line) {
    const int partitions = before.partition.compare(line.partition);
    if (partitions != 0) return partitions < 0;
    return line.offset > before.offset || line.ts > before.ts;
  }

  static bool is_at(const LakeRecord& record, std::int64_t ts) {
    return record.ts_known ? record.ts == ts : ts <= record.ts;
  }

  void check_line(std::uint64_t k, const LakeLine& line) {
    const auto partition = log_.find(line.partition);
    if (partition == log_.end()) return say("foreign", k, line.text);
    const auto [first, last] = partition->second.equal_range(line.offset);
    const auto at =
        std::find_if(first, last, [&](const auto& one) { return is_at(*one.second.record, line.ts); });
    if (at == last) return say("foreign", k, line.text);
    Known& known = at->second;
    if (++known.shipped > 1) say("duplicate", k, line.text);
    LakeRecord expected = *known.record;
    expected.ts = line.ts;
    if (line.text != line_of(line.partition, expected)) say("payload", k, line.text);
    if (known.record->fate == Fate::lost_unread) say("shipped_lost", k, line.text);
    if (question_.ships_from && line.ts < *question_.ships_from) say("foreign", k, line.text);
  }

  void check_pointer() {
    if (!last_ || last_->bounds.k != committed()) return;
    const sink::Committed& pointer = *question_.pointer;
    const bool same = pointer.t_end == last_->bounds.t_end && pointer.records == last_->records &&
                      pointer.bytes == last_->bytes &&
                      pointer.manifest == sink::manifest_key(question_.path, pointer.k);
    if (!same) say("pointer", pointer.k, "the commit pointer is not of its manifest");
  }

  void check_lost() {
    for (const auto& [k, range] : lost_) {
      const auto partition = log_.find(range.partition);
      for (std::uint64_t offset = range.from; offset <= range.to; ++offset) {
        ++answer_.lost;
        if (partition == log_.end() || !partition->second.contains(offset)) {
          say("lost_unknown", k, fmt::format("{} {}..{}", range.partition, range.from, range.to));
          break;
        }
        check_lost_offset(k, range, partition->second.equal_range(offset));
      }
    }
  }

  using Place = std::multimap<std::uint64_t, Known>::const_iterator;

  // A range names offsets without saying of which life: it is right when it is right of one.
  void check_lost_offset(std::uint64_t k, const LostRange& range, std::pair<Place, Place> lives) {
    bool right = false, shipped = false;
    for (auto at = lives.first; at != lives.second; ++at) {
      right = right || (at->second.shipped == 0 && at->second.record->fate != Fate::kept);
      shipped = shipped || at->second.shipped > 0;
    }
    gone_.insert({range.partition, lives.first->first});
    if (right) return;
    const std::string what = fmt::format("{} offset {}", range.partition, lives.first->first);
    if (!shipped) return say("lost_kept", k, what);
    if (question_.names_shipped == LakeQuestion::NamesShipped::refused) say("lost_shipped", k, what);
  }

  void check_records() {
    constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();
    const std::int64_t end = question_.pointer ? question_.pointer->t_end : kNever;
    const std::int64_t from = question_.ships_from.value_or(kNever);
    for (const auto& [name, places] : log_) {
      bool tracked = false;  // the sink surely knew the partition when it met the next offset
      for (const auto& [offset, known] : places) {
        const LakeRecord& record = *known.record;
        const bool named = gone_.contains({name, offset});
        tracked = tracked || known.shipped > 0 || named;
        if (record.ts < from || record.ts >= end || known.shipped > 0) continue;
        if (record.fate == Fate::deleted || (named && record.fate != Fate::kept)) continue;
        if (record.fate == Fate::lost_maybe && !tracked) continue;
        say("missing", fmt::format("{} offset {} stamped {}", name, offset, iso_micros(record.ts)));
      }
    }
  }

  void check_orphans() {
    const std::string example = sink::data_key(question_.path, question_.align, {}, "x");
    const std::string root = example.substr(0, example.rfind("/dt=") + 1);
    const std::string first = sink::manifest_key(question_.path, 1);
    const std::string manifests = first.substr(0, first.rfind('/') + 1);
    const bool next_allowed = question_.in_flight == LakeQuestion::InFlight::allowed;
    const std::string next = sink::manifest_key(question_.path, committed() + 1);
    for (const auto& [key, body] : question_.objects) {
      const bool of_next = next_allowed && window_of(key) == committed() + 1;
      if (key.starts_with(root) && !named_.contains(key) && !of_next)
        say("orphan", key + " is named by no manifest");
      const bool numbered = key.starts_with(manifests) && !(next_allowed && key == next);
      if (numbered && !is_committed_manifest(key)) say("numbering", key + " is beyond the commit pointer");
    }
  }

  bool is_committed_manifest(const std::string& key) const {
    std::uint64_t k = 0;
    const std::size_t at = key.rfind('/') + 1;
    std::from_chars(key.data() + at, key.data() + key.size(), k);
    return k >= 1 && k <= committed() && key == sink::manifest_key(question_.path, k);
  }

  void check_puts() {
    std::map<std::string_view, std::string_view> content;
    for (const auto& [key, sha] : question_.puts) {
      if (!window_of(key)) continue;
      const auto [at, fresh] = content.emplace(key, sha);
      if (!fresh && at->second != sha)
        say("rewritten", fmt::format("{} was {} and became {}", key, at->second, sha));
    }
  }

  struct Summary {
    std::set<std::string> partitions;
    std::optional<std::int64_t> min_ts, max_ts;
  };

  const LakeQuestion& question_;
  LakeAnswer answer_;
  std::map<std::string, std::multimap<std::uint64_t, Known>, std::less<>> log_;
  std::set<std::string> named_;                           // data objects of committed windows
  std::set<std::pair<std::string, std::uint64_t>> gone_;  // named as lost
  std::vector<std::pair<std::uint64_t, LostRange>> lost_;
  Summary summary_;  // of the window being looked at
  std::optional<std::int64_t> previous_end_;
  std::optional<Manifest> last_;
};

}  // namespace

std::string LakeAnswer::text() const {
  std::string out;
  for (const std::string& one : complaints) out += one + "\n";
  return out;
}

LakeAnswer check_lake(const LakeQuestion& question) {
  return Oracle(question).run();
}

}  // namespace queen::sim
