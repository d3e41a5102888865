// A node's queue logs on a RAM disk, and entries to write to them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>

#include "base/log.h"
#include "base/text.h"
#include "disk/ram_disk.h"
#include "qlog/detail/paths.h"
#include "qlog/queue_logs.h"
#include "source_dir.h"

namespace queen::qlog {

// The bytes of tests/golden/<name>: hex digits, blanks and `#` comments.
inline Bytes golden(const std::string& name) {
  std::ifstream file(source_dir() + "/tests/golden/" + name);
  EXPECT_TRUE(file) << name;
  std::string digits;
  for (std::string line; std::getline(file, line);)
    for (const char c : line.substr(0, line.find('#')))
      if (c != ' ') digits.push_back(c);
  return hex_decode(digits).value_or("not hex");
}

struct TestMessages {
  LogId log;
  Pid pid;
  std::uint64_t base = 0;
  std::vector<std::string> texts;
};
struct TestEntry {
  std::uint64_t index = 0;
  std::vector<TestMessages> messages;
  std::vector<LogId> touched;  // besides those of the messages
  std::string note;
};

// Entries of these tests: u32 number of appends, (pid, base) of each, then anything.
inline Bytes entry_bytes(const TestEntry& entry) {
  Bytes bytes;
  append_le(bytes, static_cast<std::uint32_t>(entry.messages.size()));
  for (const auto& messages : entry.messages) {
    append_le(bytes, messages.pid.value);
    append_le(bytes, messages.base);
  }
  return bytes + entry.note;
}
inline Result<std::vector<AppendKey>> appends_of(BytesView bytes) {
  ByteReader reader(bytes);
  std::vector<AppendKey> keys;
  for (auto left = reader.le<std::uint32_t>(); left > 0 && reader.ok(); --left) {
    AppendKey key;
    key.pid.value = reader.le<std::uint64_t>();
    key.base_offset = reader.le<std::uint64_t>();
    keys.push_back(key);
  }
  if (!reader.ok()) return Error{Errc::corrupt, "not an entry of the tests"};
  return keys;
}

inline Uuid message_uuid(Pid pid, std::uint64_t offset) {
  Uuid id;
  store_le(reinterpret_cast<char*>(id.bytes.data()), pid.value);
  store_le(reinterpret_cast<char*>(id.bytes.data()) + 8, offset);
  return id;
}

// Owns the bytes that a group borrows.
class TestGroup {
 public:
  explicit TestGroup(const std::vector<TestEntry>& entries) {
    for (const auto& entry : entries) add(entry);
  }
  std::span<const EntryToWrite> entries() const { return entries_; }

 private:
  void add(const TestEntry& entry) {
    EntryToWrite out{.index = {entry.index},
                     .term = 0,
                     .now_us = 1'000'000 + static_cast<std::int64_t>(entry.index),
                     .entry = keep(entry_bytes(entry)),
                     .messages = {},
                     .touched = {}};
    std::set<LogId> touched(entry.touched.begin(), entry.touched.end());
    for (const auto& messages : entry.messages) {
      touched.insert(messages.log);
      out.messages.push_back(records_of(messages, out.now_us));
    }
    if (touched.empty()) touched.insert(kSystemLog);
    out.touched.assign(touched.begin(), touched.end());
    entries_.push_back(std::move(out));
  }
  MessageToWrite records_of(const TestMessages& messages, std::int64_t now_us) {
    Bytes hashes, frames;
    for (std::size_t i = 0; i < messages.texts.size(); ++i) {
      const std::string id = "t" + std::to_string(messages.base + i);
      hashes.append(xxh3_128(id).view());
      MessageFrame frame;
      frame.message_id = message_uuid(messages.pid, messages.base + i);
      frame.transaction_id = id;
      frame.payload = messages.texts[i];
      append_frame(frames, frame);
    }
    auto packed = compress_payload(frames, 1);
    return {.log = messages.log,
            .pid = messages.pid,
            .base_offset = messages.base,
            .count = static_cast<std::uint32_t>(messages.texts.size()),
            .created_at = now_us,
            .hashes = keep(std::move(hashes)),
            .payload = keep(packed ? std::move(*packed) : std::move(frames)),
            .compressed = packed.has_value()};
  }
  BytesView keep(Bytes bytes) { return kept_.emplace_back(std::move(bytes)); }

  std::deque<Bytes> kept_;
  std::vector<EntryToWrite> entries_;
};

// The events of a node's log. Any thread of the node writes; `events` is read once they have ended.
class RecordingLog final : public LogSink {
 public:
  bool enabled(LogLevel, std::string_view) const override { return true; }
  void write(LogLevel, std::string_view, std::string_view event, std::span<const LogField>) override {
    const std::lock_guard lock(mutex_);
    events.emplace_back(event);
  }
  std::vector<std::string> events;

 private:
  std::mutex mutex_;
};

// The first ring of a test: open, write, sync, read, close, crash.
struct Node {
  disk::RamDisk disk;
  disk::Disk* seen = &disk;  // what the logs are given
  InlineRunner runner;
  Options options;
  DurableState durable;
  RecordingLog log;
  std::unique_ptr<QueueLogs> logs;

  Node() {
    options.directory = "/data/qlog";
    EXPECT_TRUE(disk.make_dirs("/data"));
    EXPECT_TRUE(disk.sync_dir("/"));
  }

  Status open() {
    logs.reset();
    auto opened = QueueLogs::open(*seen, runner, options, durable, appends_of, Logger(log, "qlog"));
    if (!opened) return std::move(opened).error();
    logs = std::move(*opened);
    return {};
  }
  void must_open() {
    const auto opened = open();
    ASSERT_TRUE(opened) << opened.error().what;
  }
  Status write(const std::vector<TestEntry>& entries) {
    const TestGroup group(entries);
    const auto written = logs->write_group(group.entries());
    if (!written) return written.error();
    return logs->sync(*written);
  }
  void must_write(const std::vector<TestEntry>& entries) {
    const auto done = write(entries);
    ASSERT_TRUE(done) << done.error().what;
  }
  // The indexes that replay gives.
  std::vector<std::uint64_t> replayed() {
    std::vector<std::uint64_t> indexes;
    const auto done = logs->replay([&](const RecoveredEntry& entry) -> Status {
      indexes.push_back(entry.index.value);
      return {};
    });
    EXPECT_TRUE(done);
    return indexes;
  }
  // All texts of a partition from `from`.
  std::vector<std::string> texts(LogId from_log, Pid pid, std::uint64_t from = 0) {
    const auto batch = logs->read(from_log, pid, from, kAll);
    EXPECT_TRUE(batch) << batch.error().what;
    std::vector<std::string> out;
    if (!batch) return out;
    for (const auto& message : batch->messages) out.emplace_back(message.frame.payload);
    return out;
  }
  std::string file(std::uint64_t of, std::uint32_t id) const {
    return detail::record_file(options.directory, {of}, id);
  }
  Bytes bytes_of(const std::string& path) const { return disk.files().at(path); }
  void put(const std::string& path, BytesView bytes) {
    auto opened = disk.open(path, disk::Open::create);
    ASSERT_TRUE(opened);
    ASSERT_TRUE((*opened)->truncate(0));
    ASSERT_TRUE((*opened)->pwrite(0, bytes));
    ASSERT_TRUE((*opened)->sync());
  }
  void flip(const std::string& path, std::size_t at) {
    Bytes bytes = bytes_of(path);
    ASSERT_LT(at, bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
    put(path, bytes);
  }
  // Opens, expects a refusal that names all of `words`, and that nothing on the disk changed.
  void must_refuse(const std::vector<std::string>& words) {
    logs.reset();
    const auto before = disk.files();
    const auto opened = open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::corrupt);
    for (const auto& word : words)
      EXPECT_NE(opened.error().what.find(word), std::string::npos) << word << " in: " << opened.error().what;
    EXPECT_EQ(opened.error().what.find("FATAL"), std::string::npos);
    EXPECT_EQ(disk.files(), before);
  }

  static constexpr ReadLimits kAll{
      .end_offset = 1'000'000, .messages_max = 1'000'000, .payload_bytes_max = 1ULL << 40};
};

inline TestEntry push(std::uint64_t index, std::uint64_t log, std::uint64_t pid, std::uint64_t base,
                      std::vector<std::string> texts) {
  return {.index = index, .messages = {{{log}, {pid}, base, std::move(texts)}}, .touched = {}, .note = {}};
}

}  // namespace queen::qlog
