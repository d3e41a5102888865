// Whether a bucket is the right copy of a log ("Lake is right", s3-sink.md 26). Knows the format from the
// page, not from the writers: lines and keys are put together here again.
#pragma once

#include <fmt/format.h>
#include <openssl/sha.h>
#include <simdjson.h>
#include <zstd.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "sink/manifest.h"
#include "sink/tests/fake_log.h"

namespace queen::sink::test {

using Objects = std::map<std::string, Bytes>;

struct LakeVerdict {
  std::vector<std::string> complaints;  // empty: the lake is right
  std::uint64_t windows = 0, records = 0;
  bool right() const { return complaints.empty(); }
  std::string text() const {
    std::string out;
    for (const std::string& one : complaints) out += one + "\n";
    return out;
  }
};

inline std::string expected_line(const std::string& partition, const LogRecord& record) {
  std::string payload = record.text->substr(record.id_size);
  for (char& c : payload) c = c == '\n' || c == '\r' ? ' ' : c;
  return fmt::format("{{\"partition\":{},\"offset\":{},\"transactionId\":{},\"ts\":\"{}\",\"payload\":{}}}",
                     json_string(partition), record.offset,
                     json_string(record.text->substr(0, record.id_size)), iso_micros(record.ts), payload);
}

class LakeChecker {
 public:
  LakeChecker(const Objects& objects, LakePath path, std::string sink, Align align, const FakeLog& log)
      : objects_(objects), path_(std::move(path)), sink_(std::move(sink)), align_(align), log_(log) {}

  LakeVerdict check(bool complete) {
    std::optional<std::int64_t> previous_end;
    for (std::uint64_t k = 1; objects_.contains(manifest_key(path_, k)); ++k) {
      const auto manifest = parse_manifest(objects_.at(manifest_key(path_, k)));
      if (!manifest) {
        say("manifest", k, manifest.error().what);
        continue;
      }
      check_names(*manifest, k);
      check_tiling(*manifest, previous_end);
      for (const ManifestObject& object : manifest->objects) check_object(*manifest, object);
      previous_end = manifest->bounds.t_end;
      ++verdict_.windows;
    }
    check_orphans();
    if (complete) check_complete();
    return verdict_;
  }

 private:
  using Place = std::pair<std::string, std::uint64_t>;  // partition, offset

  void say(const char* reason, std::uint64_t k, const std::string& detail) {
    verdict_.complaints.push_back(fmt::format("{}: window {}: {}", reason, k, detail));
  }

  void check_names(const Manifest& manifest, std::uint64_t k) {
    named_.insert(manifest_key(path_, k));
    if (manifest.bounds.k != k || manifest.sink != sink_ || manifest.tenant != path_.tenant ||
        manifest.queue != path_.queue)
      say("names", k, "the manifest is of another window, sink, tenant or queue");
    std::uint64_t bytes = 0, records = 0;
    for (const ManifestObject& object : manifest.objects) {
      bytes += object.bytes;
      records += object.records;
    }
    if (bytes != manifest.bytes || records != manifest.records || records == 0)
      say("sums", k, "bytes or records are not those of the objects");
  }

  void check_tiling(const Manifest& manifest, std::optional<std::int64_t> previous_end) {
    const auto& [k, start, end] = manifest.bounds;
    if (start >= end) say("tiling", k, "the window is empty");
    const auto boundary = next_boundary(align_, start);
    if (boundary && end > *boundary) say("tiling", k, "the window crosses a boundary");
    if (!previous_end || start == *previous_end) return;
    if (start < *previous_end) say("tiling", k, "the window overlaps the one before");
    if (align_floor(align_, start) != start) say("tiling", k, "there is a gap before the window");
    for (const auto& [name, partition] : log_.partitions) {
      for (const LogRecord& record : partition.records) {
        if (record.ts >= *previous_end && record.ts < start)
          say("tiling", k, "a record lies between two windows");
      }
    }
  }

  void check_object(const Manifest& manifest, const ManifestObject& object) {
    const std::uint64_t k = manifest.bounds.k;
    named_.insert(object.key);
    const std::string derived =
        data_key(path_, align_, manifest.bounds, manifest.compression == "none" ? "jsonl" : "jsonl.zst");
    if (object.key != derived) say("key", k, object.key + " is not " + derived);
    const auto found = objects_.find(object.key);
    if (found == objects_.end()) return say("object", k, object.key + " is not there");
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(found->second.data()), found->second.size(), digest);
    const std::string sha = hex_lower({reinterpret_cast<const char*>(digest), sizeof digest});
    if (found->second.size() != object.bytes || sha != object.sha256)
      return say("bytes", k, object.key + " is not what the manifest says");
    check_lines(manifest, object, plain(found->second, manifest.compression));
  }

  static std::string plain(const Bytes& body, const std::string& compression) {
    if (compression != "zstd") return body;
    const auto size = ZSTD_getFrameContentSize(body.data(), body.size());
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN) return "";
    std::string out(size, '\0');
    const std::size_t got = ZSTD_decompress(out.data(), out.size(), body.data(), body.size());
    return ZSTD_isError(got) ? "" : out;
  }

  void check_lines(const Manifest& manifest, const ManifestObject& object, const std::string& text) {
    const std::uint64_t k = manifest.bounds.k;
    std::optional<Place> before;
    std::set<std::string> partitions;
    std::int64_t min_ts = INT64_MAX, max_ts = INT64_MIN;
    std::uint64_t lines = 0;
    for (std::size_t at = 0; at < text.size(); ++lines) {
      const std::size_t end = text.find('\n', at);
      if (end == std::string::npos) return say("line", k, "the last line has no end");
      const std::string line = text.substr(at, end - at);
      at = end + 1;
      const auto record = check_line(manifest, line);
      if (!record) continue;
      const auto& [place, ts] = *record;
      if (before && !(*before < place))
        say("order", k, fmt::format("{}/{} comes late", place.first, place.second));
      before = place;
      partitions.insert(place.first);
      min_ts = std::min(min_ts, ts);
      max_ts = std::max(max_ts, ts);
    }
    if (lines != object.records) say("count", k, "the object holds another number of records");
    if (partitions.size() != manifest.partitions || manifest.min_ts != min_ts || manifest.max_ts != max_ts)
      say("summary", k, "partitions, minTs or maxTs are not those of the lines");
  }

  // The record that a line is; nothing when it is none of the log's.
  std::optional<std::pair<Place, std::int64_t>> check_line(const Manifest& manifest,
                                                           const std::string& line) {
    const std::uint64_t k = manifest.bounds.k;
    simdjson::dom::parser parser;
    simdjson::dom::element json;
    std::string_view partition, id;
    std::uint64_t offset = 0;
    if (parser.parse(line).get(json) || json["partition"].get(partition) || json["offset"].get(offset) ||
        json["transactionId"].get(id)) {
      say("line", k, line);
      return std::nullopt;
    }
    const LogRecord* record = find(std::string(partition), offset);
    if (record == nullptr) {
      say("foreign", k, line);
      return std::nullopt;
    }
    const Place place{std::string(partition), offset};
    if (!seen_.insert(place).second) say("duplicate", k, line);
    ++verdict_.records;
    if (id != record->text->substr(0, record->id_size)) {
      say("transactionId", k, line);
    } else if (line != expected_line(place.first, *record)) {
      say("payload", k, line);
    }
    if (record->ts < manifest.bounds.t_start || record->ts >= manifest.bounds.t_end) say("ts", k, line);
    return std::pair{place, record->ts};
  }

  const LogRecord* find(const std::string& partition, std::uint64_t offset) const {
    const auto found = log_.partitions.find(partition);
    if (found == log_.partitions.end()) return nullptr;
    for (const LogRecord& record : found->second.records) {
      if (record.offset == offset) return &record;
    }
    return nullptr;
  }

  void check_orphans() {
    for (const auto& [key, body] : objects_) {
      const bool data = key.starts_with(path_.prefix + "/tenant=");
      if (data && !named_.contains(key)) verdict_.complaints.push_back("orphan: no manifest names " + key);
      const bool manifest = key.find("/windows/") != std::string::npos;
      if (manifest && !named_.contains(key)) verdict_.complaints.push_back("numbering: a gap before " + key);
    }
  }

  void check_complete() {
    for (const auto& [name, partition] : log_.partitions) {
      for (const LogRecord& record : partition.records) {
        if (!seen_.contains({name, record.offset}))
          verdict_.complaints.push_back(fmt::format("missing: {}/{}", name, record.offset));
      }
    }
  }

  const Objects& objects_;
  LakePath path_;
  std::string sink_;
  Align align_;
  const FakeLog& log_;
  LakeVerdict verdict_;
  std::set<std::string> named_;
  std::set<Place> seen_;
};

// `complete`: every record of the log must be there.
inline LakeVerdict check(const Objects& objects, const LakePath& path, const std::string& sink, Align align,
                         const FakeLog& log, bool complete) {
  return LakeChecker(objects, path, sink, align, log).check(complete);
}

}  // namespace queen::sink::test
