// What the store costs: bytes per partition of one message and per table, time per row of put, get, scan, cut
// and load. Rows are put as apply puts them.
//   store_rows [--partitions N] [--queues N] [--dir DIR]     with --dir: also a checkpoint there, and its
//   load
#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "store/checkpoint_file.h"
#include "store/keys.h"
#include "store/rows.h"
#include "store/store.h"

namespace {

using namespace queen;
using namespace queen::store;
using SteadyClock = std::chrono::steady_clock;

constexpr std::int64_t kStampUs = 1'790'000'000'000'000;
constexpr std::uint64_t kRowsPerCut = 100'000;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// Anonymous memory of this process, in bytes.
double anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::strtod(line.c_str() + 8, nullptr) * 1024;
  return 0;
}

struct Shape {
  std::uint64_t partitions = 1'000'000;
  std::uint64_t queues = 1'000;
  std::string directory;
};

struct Names {
  std::string queue;
  std::string partition;
};
Names names_of(const Shape& shape, std::uint64_t pid) {
  const std::uint64_t scattered = pid * 0x9E3779B97F4A7C15ULL;
  return {fmt::format("queue-{}", (scattered >> 40) % shape.queues),
          fmt::format("device-{}", scattered >> 36)};
}

void add_to_counter(Store& store, CounterScope scope, BytesView id, Counter counter, std::int64_t value) {
  const Bytes key = counter_key(scope, id, counter);
  const auto old = store.get(Keyspace::counters, key);
  store.put(Keyspace::counters, key, encode_i64_row((old ? decode_i64_row(*old).value() : 0) + value));
}

void create(Store& store, const Names& names, Pid pid, Random& random) {
  PartitionRow row;
  row.uuid = make_uuid_v7(kStampUs + static_cast<std::int64_t>(pid.value), random);
  row.tenant = kDefaultTenant;
  row.queue = names.queue;
  row.partition = names.partition;
  row.created_at = kStampUs + static_cast<std::int64_t>(pid.value * 25);
  row.last_write_at = row.created_at;
  store.put(Keyspace::partitions, partition_key(pid), row.encode());
  store.put(Keyspace::partitions_by_key, partition_by_key(row.tenant, row.queue, row.partition),
            encode_pid_row(pid));
  store.put(Keyspace::queue_partitions, queue_partition_key(row.tenant, row.queue, pid), {});
}

void append(Store& store, Pid pid, Random& random) {
  PartitionRow row = PartitionRow::decode(*store.get(Keyspace::partitions, partition_key(pid))).value();
  const std::int64_t base = row.last_offset + 1;
  const std::int64_t stamp = kStampUs + static_cast<std::int64_t>(pid.value * 25) + base;
  row.last_offset = base;
  row.last_write_at = stamp;
  row.last_created_at = stamp;
  if (!row.oldest_live_at) row.oldest_live_at = stamp;
  store.put(Keyspace::partitions, partition_key(pid), row.encode());
  const std::uint64_t halves[2] = {random.next(), random.next()};
  const BytesView hash(reinterpret_cast<const char*>(halves), sizeof halves);
  store.put(Keyspace::txns, txns_key(pid, base), encode_append_row(base, stamp, hash, 310));
  const Bytes queue = counter_id(row.tenant, row.queue);
  for (const Counter counter : {Counter::pushed, Counter::retained_bytes, Counter::last_push_us})
    add_to_counter(store, CounterScope::queue, queue, counter, 310);
  add_to_counter(store, CounterScope::partition, counter_id(pid), Counter::retained_bytes, 310);
}

// What apply waits for, and what the checkpoint's thread does beside it.
struct CutTimes {
  double stall_s = 0;  // the longest
  double collected_s = 0;
  std::uint64_t rows = 0;
};

Cut timed_cut(Store& store, CutTimes& times) {
  const auto started = SteadyClock::now();
  store.begin_cut();
  times.stall_s = std::max(times.stall_s, seconds_since(started));
  const auto begun = SteadyClock::now();
  Cut changed = store.collect_cut();
  times.collected_s += seconds_since(begun);
  times.rows += changed.count();
  return changed;
}

void fill(Store& store, const Shape& shape, CheckpointFile* file, CutTimes& cuts) {
  SeededRandom random(1);
  double put_s = 0;
  auto started = SteadyClock::now();
  const auto cut = [&] {
    put_s += seconds_since(started);
    const Cut changed = timed_cut(store, cuts);
    if (file != nullptr) {
      const Status written = file->write(changed);
      if (!written) fmt::print("checkpoint: {}\n", written.error().what);
    }
    started = SteadyClock::now();
  };
  for (std::uint64_t pid = 1; pid <= shape.partitions; ++pid) {
    create(store, names_of(shape, pid), Pid{pid}, random);
    append(store, Pid{pid}, random);
    if (pid % (kRowsPerCut / 5) == 0) cut();
  }
  cut();
  fmt::print("first push            {:8.0f} ns per partition\n",
             put_s * 1e9 / static_cast<double>(shape.partitions));
}

void print_memory(const Store& store, const Shape& shape, double before) {
  ::malloc_trim(0);
  const auto per = [&](double bytes) { return bytes / static_cast<double>(shape.partitions); };
  fmt::print("RssAnon               {:8.1f} bytes per partition\n", per(anonymous_bytes() - before));
  for (const Keyspace keyspace : {Keyspace::partitions, Keyspace::partitions_by_key,
                                  Keyspace::queue_partitions, Keyspace::txns, Keyspace::counters})
    fmt::print("  {:<19} {:8.1f} bytes per partition in blocks\n", name_of(keyspace),
               per(static_cast<double>(store.bytes(keyspace))));
}

void time_reads(const Store& store, const Shape& shape) {
  SeededRandom random(2);
  constexpr int kReads = 1'000'000;
  std::uint64_t seen = 0;
  auto started = SteadyClock::now();
  for (int i = 0; i < kReads; ++i)
    seen += store.get(Keyspace::partitions, partition_key(Pid{1 + random.next() % shape.partitions}))->size();
  fmt::print("get partitions        {:8.0f} ns\n", seconds_since(started) * 1e9 / kReads);
  started = SteadyClock::now();
  for (int i = 0; i < kReads; ++i) {
    const Names names = names_of(shape, 1 + random.next() % shape.partitions);
    seen +=
        store
            .get(Keyspace::partitions_by_key, partition_by_key(kDefaultTenant, names.queue, names.partition))
            ->size();
  }
  fmt::print("get partitions_by_key {:8.0f} ns\n", seconds_since(started) * 1e9 / kReads);
  started = SteadyClock::now();
  for (int i = 0; i < kReads; ++i) {
    const Pid pid{1 + random.next() % shape.partitions};
    seen += store.last_at_or_below(Keyspace::txns, txns_prefix(pid), txns_key(pid, 100))->key.size();
  }
  fmt::print("last txns row         {:8.0f} ns\n", seconds_since(started) * 1e9 / kReads);
  started = SteadyClock::now();
  std::uint64_t rows = 0;
  store.scan(Keyspace::partitions, {}, {}, [&](BytesView key, BytesView value) {
    seen += key.size() + value.size();
    ++rows;
    return true;
  });
  fmt::print("scan partitions       {:8.0f} ns per row ({} bytes seen)\n",
             seconds_since(started) * 1e9 / static_cast<double>(rows), seen);
}

// Appends to partitions at random, as single pushes do.
void time_appends(Store& store, const Shape& shape, CutTimes& cuts) {
  SeededRandom random(3);
  constexpr int kAppends = 200'000;
  double took = 0;
  for (int round = 0; round < 10; ++round) {
    const auto started = SteadyClock::now();
    for (int i = 0; i < kAppends / 10; ++i) append(store, Pid{1 + random.next() % shape.partitions}, random);
    took += seconds_since(started);
    timed_cut(store, cuts);
  }
  fmt::print("append                {:8.0f} ns\n", took * 1e9 / kAppends);
}

void print_cuts(const char* when, const CutTimes& cuts) {
  fmt::print("cut {:<17} {:8.0f} ns per row to collect, apply stopped for at most {:.1f} us\n", when,
             cuts.collected_s * 1e9 / static_cast<double>(cuts.rows), cuts.stall_s * 1e6);
}

void time_load(const std::string& directory) {
  auto started = SteadyClock::now();
  auto file = open_lmdb_checkpoint(directory, 0, Logger(null_log(), "bench"));
  if (!file) {
    fmt::print("open: {}\n", file.error().what);
    return;
  }
  fmt::print("open, pages checked   {:8.2f} s\n", seconds_since(started));
  const double before = anonymous_bytes();
  Store store;
  started = SteadyClock::now();
  const Status loaded = (*file)->load(store);
  if (!loaded) fmt::print("load: {}\n", loaded.error().what);
  std::uint64_t rows = 0;
  for (std::size_t i = 0; i < kKeyspaceCount; ++i) rows += store.rows(static_cast<Keyspace>(i));
  fmt::print("load of {} rows  {:8.2f} s, RssAnon {:.0f} MB\n", rows, seconds_since(started),
             (anonymous_bytes() - before) / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  Shape shape;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--partitions") shape.partitions = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--queues") shape.queues = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--dir") shape.directory = argv[i + 1];
  }
  const double before = anonymous_bytes();
  {
    Store store;
    std::unique_ptr<CheckpointFile> file;
    if (!shape.directory.empty())
      file = std::move(open_lmdb_checkpoint(shape.directory, 0, Logger(null_log(), "bench")).value());
    CutTimes filling;
    fill(store, shape, file.get(), filling);
    print_cuts("while filling", filling);
    print_memory(store, shape, before);
    time_reads(store, shape);
    CutTimes appending;
    time_appends(store, shape, appending);
    print_cuts("while appending", appending);
  }
  if (!shape.directory.empty()) time_load(shape.directory);
  return 0;
}
