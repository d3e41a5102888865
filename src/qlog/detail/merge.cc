#include "qlog/detail/merge.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "base/planted_bugs.h"
#include "qlog/detail/paths.h"
#include "qlog/detail/refusal.h"

namespace queen::qlog::detail {
namespace {

using Parts = std::span<const EntryPart>;

std::string logs_of(Parts parts) {
  std::string text;
  for (const auto& part : parts) text += fmt::format("{}q{}", text.empty() ? "" : ", ", part.log.value);
  return text;
}

const EntryPart* whole_of(Parts parts) {
  const auto found = std::ranges::find(parts, true, &EntryPart::whole);
  return found == parts.end() ? nullptr : &*found;
}

template <class Field>
Status agree(Parts parts, const char* name, Field field, Judge& judge) {
  const EntryPart& first = parts.front();
  for (const auto& part : parts.subspan(1)) {
    if (std::invoke(field, part) == std::invoke(field, first)) continue;
    return judge.damage(
        {"BR-4", {}, {}},
        refusal("entry {}: its parts in logs {} contradict each other: {} is {} in q{} and {} in q{} ({} "
                "parts found, {} expected)",
                first.seq, logs_of(parts), name, std::invoke(field, first), first.log.value,
                std::invoke(field, part), part.log.value, parts.size(), first.copies));
  }
  return {};
}

ReplayEntry replay_of(const EntryPart& part) {
  return {.index = part.seq,
          .position = part.position,
          .log = part.log,
          .file_id = part.file_id,
          .bytes = part.bytes};
}

// All parts and message keys of all logs, by index.
struct Collected {
  std::vector<EntryPart> parts;
  std::vector<MessageKey> messages;

  explicit Collected(const std::vector<LogImage>& images) {
    for (const auto& image : images) {
      parts.insert(parts.end(), image.parts.begin(), image.parts.end());
      messages.insert(messages.end(), image.messages.begin(), image.messages.end());
    }
    std::ranges::sort(parts, {}, [](const EntryPart& part) { return std::tie(part.seq, part.log); });
    std::ranges::sort(messages);
  }
  Parts at(std::size_t from) const {
    std::size_t to = from;
    while (to < parts.size() && parts[to].seq == parts[from].seq) ++to;
    return Parts(parts).subspan(from, to - from);
  }
  bool has_messages(std::uint64_t seq, const std::vector<AppendKey>& wanted) const {
    return std::ranges::all_of(wanted, [&](const AppendKey& key) {
      return std::ranges::binary_search(messages, MessageKey{seq, key.pid.value, key.base_offset});
    });
  }
};

// Who reads entries and judges them.
struct Readers {
  const AppendsOf& appends_of;
  const ReadEntry& read_entry;
  Judge& judge;
};

Result<bool> complete(const Collected& all, Parts parts, const Readers& readers) {
  if (auto done = check_parts(parts, readers.judge); !done) return std::move(done).error();
  const EntryPart* whole = whole_of(parts);
  if (parts.size() < parts.front().copies)
    return planted(PlantedBug::qlog_counts_partial_entry) && whole != nullptr;
  if (whole == nullptr) return true;  // the judge went on
  const auto entry = readers.read_entry(replay_of(*whole));
  if (!entry) return entry.error();
  const auto appends = readers.appends_of(entry->entry);
  if (appends) return all.has_messages(whole->seq, *appends);
  auto done = readers.judge.damage(
      {"EN-5", {}, whole->position},
      refusal("entry {} in log q{} cannot be read: {}", whole->seq, whole->log.value, appends.error().what));
  if (!done) return std::move(done).error();
  return true;
}

std::uint64_t distinct_seqs_from(const std::vector<EntryPart>& parts, std::uint64_t cut) {
  std::uint64_t count = 0, last = 0;
  for (const auto& part : parts) {
    if (part.seq < cut || part.seq == last) continue;
    last = part.seq;
    ++count;
  }
  return count;
}

// What is cut must lie in active files: sealing waits for all earlier groups.
Status check_sealed(const LogImage& image, std::uint64_t cut, Judge& judge) {
  for (std::size_t i = 0; i + 1 < image.files.size(); ++i) {
    const FoundFile& file = image.files[i];
    if (file.highest_seq < cut) continue;
    const auto part = std::ranges::find_if(
        image.parts, [&](const EntryPart& each) { return each.file_id == file.id && each.seq >= cut; });
    const std::uint64_t position = part == image.parts.end() ? 0 : part->position;
    return judge.damage(
        {"BR-2", {}, position},
        refusal(
            "log q{}: entry {} is missing or incomplete, but the sealed file {} holds seq {} (from byte {}); "
            "the cut at seq {} would begin at byte {} of a sealed file: refusing to cut acknowledged data",
            image.id.value, cut, file.id, file.highest_seq, position, cut, position));
  }
  return {};
}

// The first file id from 1 on that is not there; nothing when none is missing below the newest.
std::optional<std::uint32_t> missing_file(const LogImage& image) {
  std::uint32_t next = 1;
  for (const auto& file : image.files)
    if (file.id != next++) return next - 1;
  return std::nullopt;
}

// Without a checkpoint the logs must be complete from index 1 (HD-29): files that were freed, in front or
// between others, say they are not.
Status check_first_files(const std::vector<LogImage>& images, const DurableState& durable,
                         const Merged& merged, Judge& judge) {
  if (durable.durable_index > 0) return {};
  if (durable.store_missing && merged.cut == 1 && merged.entries_cut > 0) {
    return judge.damage(
        {"HD-29", {}, {}},
        refusal("store/data.mdb is missing or empty, and the {} entries in the queue logs do not begin with "
                "a complete entry 1: restore data.mdb, or empty the directory; nothing was changed",
                merged.entries_cut));
  }
  for (const auto& image : images) {
    const auto missing = missing_file(image);
    if (!missing || image.highest_seq < merged.cut) continue;
    auto done = judge.damage(
        {"BR-3", {}, {}},
        refusal("log q{} ends at seq {}, expected {}: store/data.mdb holds no checkpoint, and its file id {} "
                "is gone, so that the logs alone are not complete from index 1",
                image.id.value, image.highest_seq, merged.cut - 1, *missing));
    if (!done) return done;
  }
  return {};
}

std::string join_ids(const std::vector<std::uint32_t>& ids) {
  return fmt::format("{}", fmt::join(ids, ", "));
}

}  // namespace

Status check_parts(Parts parts, Judge& judge) {
  if (auto same = agree(parts, "copies", &EntryPart::copies, judge); !same) return same;
  if (auto same = agree(parts, "term", &EntryPart::term, judge); !same) return same;
  if (auto same = agree(parts, "now_us", &EntryPart::now_us, judge); !same) return same;
  if (auto same = agree(parts, "length of the entry", &EntryPart::entry_bytes, judge); !same) return same;
  if (auto same = agree(parts, "xxh3 of the entry", &EntryPart::xxh3, judge); !same) return same;
  const EntryPart& first = parts.front();
  if (parts.size() > first.copies)
    return judge.damage({"BR-4", {}, {}},
                        refusal("entry {}: more parts than copies were written: {} found in logs {}, {} "
                                "expected",
                                first.seq, parts.size(), logs_of(parts), first.copies));
  if (parts.size() == first.copies && whole_of(parts) == nullptr)
    return judge.damage({"BR-4", {}, {}},
                        refusal("entry {}: no part is the whole record: all {} parts found in logs {} are "
                                "stubs, {} expected",
                                first.seq, parts.size(), logs_of(parts), first.copies));
  return {};
}

Status check_reach(const std::vector<LogImage>& images, const DurableState& durable,
                   const std::string& directory, Judge& judge) {
  const auto image_of = [&](LogId log) {
    const auto found = std::ranges::find(images, log, &LogImage::id);
    return found == images.end() || found->files.empty() ? nullptr : &*found;
  };
  for (const auto& [log, files] : durable.files) {
    if (files.empty() || image_of(log) != nullptr) continue;
    auto done = judge.damage(
        {"BR-10", log_directory(directory, log), {}},
        refusal("log q{}: its directory {} is missing or has no files, the last checkpoint lists file id {}",
                log.value, log_directory(directory, log), join_ids(files)));
    if (!done) return done;
  }
  for (const auto& [log, tail] : durable.tails) {
    const LogImage* image = image_of(log);
    const std::uint64_t end = image == nullptr ? 0 : image->highest_seq;
    if (end >= tail) continue;
    auto done = judge.damage(
        {"BR-3", log_directory(directory, log), {}},
        refusal("log q{} ends at seq {}, expected {}: the last checkpoint recorded that as durable",
                log.value, end, tail));
    if (!done) return done;
  }
  std::uint64_t highest = 0;
  LogId longest;
  for (const auto& image : images) {
    if (image.highest_seq < highest) continue;
    highest = image.highest_seq;
    longest = image.id;
  }
  if (highest >= durable.qlog_durable_index) return {};
  return judge.damage(
      {"BR-3", directory, {}},
      refusal("all logs together (the longest is q{}) end at seq {}, expected {}: the last checkpoint "
              "recorded that as durable",
              longest.value, highest, durable.qlog_durable_index));
}

Result<Merged> merge(const std::vector<LogImage>& images, const DurableState& durable,
                     const AppendsOf& appends_of, const ReadEntry& read_entry, Progress& progress,
                     Judge& judge) {
  const Collected all(images);
  Merged merged;
  merged.cut = durable.durable_index + 1;
  for (std::size_t at = 0; at < all.parts.size(); ++merged.cut) {
    const Parts parts = all.at(at);
    if (parts.front().seq != merged.cut) break;
    const auto whole = complete(all, parts, {appends_of, read_entry, judge});
    if (!whole) return whole.error();
    if (!*whole) break;
    if (const EntryPart* found = whole_of(parts)) merged.replay.push_back(replay_of(*found));
    for (const auto& part : parts) merged.tails[part.log] = part.seq;
    progress.entries(merged.replay.size());
    at += parts.size();
  }
  merged.entries_cut = distinct_seqs_from(all.parts, merged.cut);
  if (auto done = check_first_files(images, durable, merged, judge); !done) return std::move(done).error();
  for (const auto& image : images)
    if (auto done = check_sealed(image, merged.cut, judge); !done) return std::move(done).error();
  return merged;
}

}  // namespace queen::qlog::detail
