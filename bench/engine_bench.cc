// The storage engine alone, without HTTP: append rate, recovery, replay, reads of old offsets.
//   engine_bench append  DIRECTORY SECONDS     1 KiB records through the replicator, as fast as they become
//   durable engine_bench recover DIRECTORY MIB         planned pushes; then the logs are opened and replayed
//   from entry 1 engine_bench read    DIRECTORY MIB         a log of that size; then 100 records at random
//   offsets
// One JSON line on stdout. DIRECTORY must be empty; it is left as it is.
#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>

#include "base/pool.h"
#include "broker/placement.h"
#include "machine/apply.h"
#include "machine/planner.h"
#include "qlog/compressor_pool.h"
#include "replica/replicator.h"

namespace {

using namespace queen;

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::size_t kRecordPayload = 1024;
constexpr std::string_view kTenant = "00000000-0000-0000-0000-000000000000";

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "engine_bench: {}\n", what);
  std::exit(1);
}
template <class T>
T must(Result<T> result) {
  if (!result) fail(result.error().what);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Read calls of this process so far.
std::uint64_t read_calls() {
  std::ifstream io("/proc/self/io");
  for (std::string name; io >> name;) {
    std::uint64_t value = 0;
    io >> value;
    if (name == "syscr:") return value;
  }
  return 0;
}

Bytes noise(std::size_t bytes, std::mt19937_64& random) {
  Bytes out(bytes, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

qlog::Options options_of(const std::string& directory) {
  qlog::Options options;
  options.directory = directory + "/qlog";
  return options;
}

std::unique_ptr<qlog::QueueLogs> open_logs(disk::Disk& disk, qlog::ParallelRunner& runner,
                                           const std::string& directory) {
  return must(qlog::QueueLogs::open(disk, runner, options_of(directory), {}, broker::appends_of_entry(),
                                    Logger(null_log(), "bench")));
}

// Keeps a bounded number of bytes on their way through a replicator.
class Pump {
 public:
  explicit Pump(qlog::QueueLogs& logs) {
    replica::Events events;
    events.on_committed = [this](std::vector<replica::Committed> entries) {
      std::lock_guard lock(mutex_);
      for (const auto& entry : entries) {
        in_flight_ -= entry.proposal->bytes;
        bytes_ += entry.proposal->bytes;
      }
      committed_ += entries.size();
      wake_.notify_one();
    };
    events.on_lost = [](EntryIndex, const Error& cause) { fail(cause.what); };
    events.on_stopped = [](const Error& cause) { fail(cause.what); };
    replicator_ =
        replica::make_local_replicator(logs, EntryIndex{logs.recovery().last_index + 1}, {},
                                       {writer_, syncer_}, std::move(events), Logger(null_log(), "bench"));
  }
  ~Pump() { replicator_->stop(); }
  void put(std::shared_ptr<replica::Proposal> proposal) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return in_flight_ < kInFlightMax; });
      in_flight_ += proposal->bytes;
    }
    must(replicator_->propose(std::move(proposal)));
  }
  void drain() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return in_flight_ == 0; });
  }
  std::uint64_t committed() {
    std::lock_guard lock(mutex_);
    return committed_;
  }

 private:
  static constexpr std::uint64_t kInFlightMax = 16 * kMiB;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::uint64_t in_flight_ = 0, bytes_ = 0, committed_ = 0;
  SystemClock clock_;
  ThreadExecutor writer_{"queen-writer", clock_}, syncer_{"queen-syncer", clock_};
  std::unique_ptr<replica::Replicator> replicator_;
};

// Messages of one partition, `per_append` to an append, with payloads that do not compress.
class Source {
 public:
  Source(std::size_t per_append, qlog::Layout layout)
      : per_append_(per_append), log_(layout.of_queue(kTenant, "bench")) {
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i < per_append; ++i) {
      const Bytes payload = noise(kRecordPayload, random);
      qlog::MessageFrame frame;
      frame.transaction_id = "0123456789abcdef";
      frame.payload = payload;
      qlog::append_frame(frames_, frame);
    }
    hashes_ = noise(16 * per_append, random);
    entry_ = noise(180, random);
  }
  std::shared_ptr<replica::Proposal> next() {
    auto proposal = std::make_shared<replica::Proposal>();
    proposal->now_us = static_cast<std::int64_t>(++made_);
    proposal->entry = entry_;
    proposal->messages.push_back({log_, Pid{1}, next_, static_cast<std::uint32_t>(per_append_),
                                  static_cast<std::int64_t>(made_), hashes_, frames_, false});
    proposal->touched = {log_};
    proposal->bytes = entry_.size() + hashes_.size() + frames_.size();
    next_ += per_append_;
    return proposal;
  }
  std::uint64_t messages() const { return next_; }
  LogId log() const { return log_; }

 private:
  std::size_t per_append_;
  LogId log_;
  Bytes frames_, hashes_, entry_;
  std::uint64_t next_ = 0, made_ = 0;
};

void append(const std::string& directory, double seconds) {
  const auto disk = disk::make_posix_disk();
  ThreadPool pool("bench-fsync", 4);
  const auto logs = open_logs(*disk, pool, directory);
  Source source(1, logs->layout());
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t records = 0;
  {
    Pump pump(*logs);
    while (seconds_since(start) < seconds) pump.put(source.next());
    pump.drain();
    records = pump.committed();
  }
  const double passed = seconds_since(start);
  must(logs->close());
  fmt::print("{{\"records_per_s\":{:.0f},\"mib_per_s\":{:.1f}}}\n", static_cast<double>(records) / passed,
             static_cast<double>(logs->bytes_on_disk()) / passed / kMiB);
}

// What a client of the benchmark would send: ten JSON messages of a kilobyte for one of 1,000 partitions.
machine::Command push_command(std::uint64_t number, std::mt19937_64& random) {
  constexpr std::size_t kItems = 10;
  machine::PushBatch batch;
  batch.queue = fmt::format("bench-{}", number % 4);
  batch.partition = fmt::format("partition-{}", number % 1000);
  for (std::size_t i = 0; i < kItems; ++i) {
    const std::string id = fmt::format("{:016x}", random());
    std::string payload = fmt::format("{{\"order\":{},\"items\":[", random() % 1'000'000);
    while (payload.size() < kRecordPayload - 40)
      payload += fmt::format("{{\"sku\":\"{:08x}\",\"count\":{}}},", random() & 0xFFFFFFFF, random() % 9);
    payload.back() = ']';
    payload += "}";
    qlog::MessageFrame frame;
    frame.transaction_id = id;
    frame.payload = payload;
    qlog::append_frame(batch.frames, frame);
    batch.frame_ends.push_back(static_cast<std::uint32_t>(batch.frames.size()));
    batch.hashes.append(xxh3_128(id).view());
  }
  machine::Command command;
  command.tenant = kTenant;
  for (auto& byte : command.request_id.bytes) byte = static_cast<std::uint8_t>(random());
  command.body = machine::PushCommand{{std::move(batch)}};
  return command;
}

std::uint64_t write_planned(disk::Disk& disk, const std::string& directory, std::uint64_t bytes) {
  ThreadPool pool("bench-fsync", 4);
  const auto logs = open_logs(disk, pool, directory);
  store::Store store;
  machine::Planner planner(store);
  qlog::CompressorPool compressors;
  const broker::LogExists exists = [&](LogId log) { return logs->exists(log); };
  const broker::Placing placing{logs->layout(), store, exists};
  Pump pump(*logs);
  std::mt19937_64 random(7);
  constexpr std::size_t kPushesPerEntry = 16;
  std::int64_t now = 1'800'000'000'000'000;
  std::uint64_t messages = 0;
  for (std::uint64_t index = 1; logs->bytes_on_disk() < bytes; ++index) {
    std::vector<machine::Command> commands;
    for (std::size_t i = 0; i < kPushesPerEntry; ++i)
      commands.push_back(push_command(index * kPushesPerEntry + i, random));
    std::vector<const machine::Command*> views;
    for (const auto& command : commands) views.push_back(&command);
    auto planned = planner.plan(views, EntryIndex{index}, now += 1000);
    const auto entry = std::make_shared<const machine::Entry>(std::move(*planned.entry));
    pump.put(broker::make_proposal(entry, broker::compress_unsettled(*entry, compressors, 1), placing));
    must(machine::apply_entry(store, EntryIndex{index}, 0, *entry));
    planner.applied(EntryIndex{index});
    messages += kPushesPerEntry * 10;
  }
  pump.drain();
  return messages;
}

void recover(const std::string& directory, std::uint64_t mib) {
  const auto disk = disk::make_posix_disk();
  const std::uint64_t messages = write_planned(*disk, directory, mib * kMiB);
  qlog::InlineRunner one_core;
  const auto start = std::chrono::steady_clock::now();
  const auto logs = open_logs(*disk, one_core, directory);
  const double scanned = seconds_since(start);
  store::Store store;
  const auto replay_start = std::chrono::steady_clock::now();
  must(logs->replay([&](const qlog::RecoveredEntry& recovered) -> Status {
    auto entry = machine::decode_entry(recovered.entry);
    if (!entry) return std::move(entry).error();
    auto applied = machine::apply_entry(store, recovered.index, recovered.term, *entry);
    if (!applied) return std::move(applied).error();
    return {};
  }));
  const double replayed = seconds_since(replay_start);
  const auto bytes = static_cast<double>(logs->recovery().bytes_scanned);
  fmt::print(
      "{{\"log_mib\":{:.0f},\"messages\":{},\"entries\":{},\"scan_s\":{:.3f},\"scan_mib_per_s\":{:.0f},"
      "\"replay_s\":{:.3f},\"replay_mib_per_s\":{:.0f},\"both_mib_per_s\":{:.0f}}}\n",
      bytes / kMiB, messages, logs->recovery().entries_to_replay, scanned, bytes / scanned / kMiB, replayed,
      bytes / replayed / kMiB, bytes / (scanned + replayed) / kMiB);
}

void read(const std::string& directory, std::uint64_t mib) {
  constexpr std::size_t kPerAppend = 10;
  constexpr std::uint32_t kWanted = 100;
  constexpr int kReads = 2000;
  const auto disk = disk::make_posix_disk();
  ThreadPool pool("bench-fsync", 4);
  const auto logs = open_logs(*disk, pool, directory);
  Source source(kPerAppend, logs->layout());
  {
    Pump pump(*logs);
    while (logs->bytes_on_disk() < mib * kMiB)
      for (int i = 0; i < 64; ++i) pump.put(source.next());
    pump.drain();
  }
  std::mt19937_64 random(3);
  const auto one = [&] {
    const std::uint64_t from = random() % (source.messages() - kWanted);
    const auto batch = must(logs->read(source.log(), Pid{1}, from, {source.messages(), kWanted, 64 * kMiB}));
    if (batch.messages.size() != kWanted || batch.messages.front().offset != from) fail("a read came short");
  };
  for (int i = 0; i < kReads; ++i) one();  // files opened, indexes mapped
  std::vector<double> each;
  const std::uint64_t calls = read_calls();
  for (int i = 0; i < kReads; ++i) {
    const auto start = std::chrono::steady_clock::now();
    one();
    each.push_back(seconds_since(start) * 1e6);
  }
  const auto made = static_cast<double>(read_calls() - calls) / kReads;
  std::sort(each.begin(), each.end());
  const auto files = logs->files().at(source.log()).size();
  fmt::print(
      "{{\"log_mib\":{},\"files\":{},\"records_per_read\":{},\"appends_per_read\":{:.1f},"
      "\"preads_per_read\":{:.2f},\"p50_us\":{:.0f},\"p99_us\":{:.0f}}}\n",
      logs->bytes_on_disk() / kMiB, files, kWanted, 1.0 * kWanted / kPerAppend + 0.9, made,
      each[each.size() / 2], each[each.size() * 99 / 100]);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc == 4 ? argv[1] : "";
  if (mode == "append")
    append(argv[2], std::atof(argv[3]));
  else if (mode == "recover")
    recover(argv[2], std::strtoull(argv[3], nullptr, 10));
  else if (mode == "read")
    read(argv[2], std::strtoull(argv[3], nullptr, 10));
  else
    fail("usage: engine_bench append|recover|read DIRECTORY SECONDS|MIB");
  return 0;
}
