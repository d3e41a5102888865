#include "store/store.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <utility>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/planted_bugs.h"
#include "store/detail/table.h"
#include "store/keys.h"

namespace queen::store {
namespace {

// Rows taken under one gate while a cut is collected: some 100 µs for which apply may have to wait.
constexpr std::size_t kRowsPerSlice = 256;

constexpr auto kKv = static_cast<std::size_t>(Keyspace::kv);
constexpr auto kTimersDue = static_cast<std::size_t>(Keyspace::timers_due);

// std::shared_mutex of libstdc++ prefers readers: apply would wait for ever under steady reads.
class Gate {
 public:
  Gate() {
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&lock_, &attributes);
    pthread_rwlockattr_destroy(&attributes);
  }
  ~Gate() { pthread_rwlock_destroy(&lock_); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void lock() {
    waiting_.fetch_add(1);
    check(pthread_rwlock_wrlock(&lock_));
    if (waiting_.fetch_sub(1) == 1) waiting_.notify_all();
  }
  // As lock(), but a writer that waits goes first: an unlocked gate could otherwise be taken again and again
  // by the thread that gave it up, which is awake already.
  void lock_behind_others() {
    for (int waiting = waiting_.load(); waiting != 0; waiting = waiting_.load()) waiting_.wait(waiting);
    check(pthread_rwlock_wrlock(&lock_));
  }
  void lock_shared() { check(pthread_rwlock_rdlock(&lock_)); }
  void unlock() { check(pthread_rwlock_unlock(&lock_)); }

 private:
  // A thread that holds the gate and asks again is a bug of ours (EDEADLK).
  static void check(int error) { INVARIANT(error == 0, "store gate: error {}", error); }
  pthread_rwlock_t lock_;
  std::atomic<int> waiting_{0};  // writers in lock()
};

}  // namespace

std::size_t Cut::count() const {
  std::size_t out = 0;
  for (const auto& table : rows) out += table.size();
  return out;
}

struct Store::State {
  std::array<detail::Table, kKeyspaceCount> tables;
  std::array<detail::KeyList, kKeyspaceCount> changed;  // by the cut that was begun and is not collected
  std::atomic<bool> cutting{false};
  mutable Gate gate;
  const VerifyReads verify_reads;

  explicit State(VerifyReads verify) : verify_reads(verify) {}
  void verify_read(Keyspace keyspace, BytesView key, const detail::Table::Found& row) const;
  void take(std::size_t table, std::span<const BytesView> keys, std::vector<CutRow>& rows);

  detail::Table& table(Keyspace keyspace) { return tables[static_cast<std::size_t>(keyspace)]; }
  const detail::Table& table(Keyspace keyspace) const { return tables[static_cast<std::size_t>(keyspace)]; }
};

Store::Store(VerifyReads verify_reads) : state_(std::make_unique<State>(verify_reads)) {}
Store::~Store() = default;

Store::ReadGate Store::read_gate() const {
  return ReadGate(*this);
}
Store::WriteGate Store::write_gate() {
  return WriteGate(*this);
}

Store::ReadGate::ReadGate(const Store& store) : store_(&store) {
  store.state_->gate.lock_shared();
}
Store::ReadGate::~ReadGate() {
  if (store_ != nullptr) store_->state_->gate.unlock();
}
Store::WriteGate::WriteGate(Store& store) : store_(&store) {
  store.state_->gate.lock();
}
Store::WriteGate::~WriteGate() {
  if (store_ != nullptr) store_->state_->gate.unlock();
}

void Store::State::verify_read(Keyspace keyspace, BytesView key, const detail::Table::Found& row) const {
  if (verify_reads == VerifyReads::no || row_checksum(keyspace, key, row.value) == row.checksum) return;
  INVARIANT(false, "{}", row_damage(keyspace, key, "checksum does not match in memory").what);
}

std::optional<Bytes> Store::get(Keyspace keyspace, BytesView key) const {
  const auto found = state_->table(keyspace).find(key);
  if (!found) return std::nullopt;
  state_->verify_read(keyspace, key, *found);
  return Bytes(found->value);
}

void Store::put(Keyspace keyspace, BytesView key, BytesView value) {
  put(keyspace, key, value, row_checksum(keyspace, key, value));
}

void Store::put(Keyspace keyspace, BytesView key, BytesView value, std::uint64_t checksum) {
  INVARIANT(!key.empty() && key.size() <= kKeyBytesMax, "key of {} bytes in {}", key.size(),
            name_of(keyspace));
  state_->table(keyspace).put(key, value, checksum, detail::Dirty::yes);
}

bool Store::erase(Keyspace keyspace, BytesView key) {
  return state_->table(keyspace).erase(key);
}

void Store::scan(Keyspace keyspace, BytesView prefix, BytesView from, const Visit& visit) const {
  if (state_->verify_reads == VerifyReads::no) return state_->table(keyspace).scan(prefix, from, visit);
  state_->table(keyspace).scan_rows(prefix, from, [&](BytesView key, const detail::Table::Found& row) {
    state_->verify_read(keyspace, key, row);
    return visit(key, row.value);
  });
}

std::optional<View::Row> Store::last_at_or_below(Keyspace keyspace, BytesView prefix, BytesView to) const {
  auto row = state_->table(keyspace).last_at_or_below(prefix, to);
  if (row && state_->verify_reads == VerifyReads::yes)
    state_->verify_read(keyspace, row->key, *state_->table(keyspace).find(row->key));
  return row;
}

void Store::load(Keyspace keyspace, BytesView key, BytesView value, std::uint64_t checksum) {
  INVARIANT(!key.empty() && key.size() <= kKeyBytesMax, "key of {} bytes in {}", key.size(),
            name_of(keyspace));
  state_->table(keyspace).append({key, value, checksum});
}

std::size_t Store::rows(Keyspace keyspace) const {
  return state_->table(keyspace).rows();
}

std::size_t Store::bytes(Keyspace keyspace) const {
  return state_->table(keyspace).block_bytes();
}

void Store::begin_cut() {
  INVARIANT(!state_->cutting, "a cut while another is on its way");
  state_->cutting = true;
  for (std::size_t i = 0; i < kKeyspaceCount; ++i) state_->changed[i] = state_->tables[i].end_round();
}

void Store::State::take(std::size_t table, std::span<const BytesView> keys, std::vector<CutRow>& rows) {
  for (const BytesView key : keys) {
    CutRow& row = rows.emplace_back();
    row.key = Bytes(key);
    const auto then = tables[table].take_changed(key);
    if (!then && planted(PlantedBug::store_forgets_deletes) && table == kKv) rows.pop_back();
    if (!then) continue;
    row.value = Bytes(then->value);
    row.checksum = then->checksum;
  }
}

Cut Store::collect_cut() {
  INVARIANT(state_->cutting, "no cut was begun");
  Cut out;
  for (std::size_t i = 0; i < kKeyspaceCount; ++i) {
    const detail::KeyList changed = std::exchange(state_->changed[i], {});
    const std::vector<BytesView> keys = changed.sorted();
    const bool missed = planted(PlantedBug::store_misses_a_table) && i == kTimersDue;
    out.rows[i].reserve(keys.size());
    for (std::size_t from = 0; from < keys.size(); from += kRowsPerSlice) {
      const std::size_t count = std::min(kRowsPerSlice, keys.size() - from);
      state_->gate.lock_behind_others();
      state_->take(i, std::span(keys).subspan(from, count), out.rows[i]);
      state_->gate.unlock();
    }
    if (missed) out.rows[i].clear();
  }
  state_->cutting = false;
  return out;
}

Cut Store::cut() {
  begin_cut();
  Cut out;
  for (std::size_t i = 0; i < kKeyspaceCount; ++i) {
    const detail::KeyList changed = std::exchange(state_->changed[i], {});
    state_->take(i, changed.sorted(), out.rows[i]);
  }
  state_->cutting = false;
  return out;
}

// The store always holds the newest value, so putting back a cut is noting its keys again.
void Store::put_back(const Cut& cut) {
  for (std::size_t i = 0; i < kKeyspaceCount; ++i)
    for (const CutRow& row : cut.rows[i]) state_->tables[i].mark_dirty(row.key);
}

Result<Verified> Store::verify(const RowPlace& from, std::size_t rows_max) const {
  const auto gate = read_gate();
  Verified out;
  std::optional<Error> damage;
  Bytes last;
  state_->table(from.keyspace).scan_rows({}, from.after, [&](BytesView key, const detail::Table::Found& row) {
    if (key == from.after) return true;
    if (out.rows == rows_max) {
      out.next = RowPlace{from.keyspace, last};
      return false;
    }
    if (row_checksum(from.keyspace, key, row.value) != row.checksum)
      damage = row_damage(from.keyspace, key, "checksum does not match in memory");
    else if (key <= last)
      damage = row_damage(from.keyspace, key, "keys are out of order in memory");
    if (++out.rows == rows_max) last = Bytes(key);
    return !damage;
  });
  if (damage) return std::move(*damage);
  if (!out.next) out.next = table_behind(from.keyspace);
  return out;
}

void Store::poison() {
  state_->gate.lock();
}

std::uint64_t Store::digest() const {
  Xxh3Stream stream;
  Bytes lengths;
  for (std::size_t i = 0; i < kKeyspaceCount; ++i) {
    const auto keyspace = static_cast<Keyspace>(i);
    state_->tables[i].scan({}, {}, [&](BytesView key, BytesView value) {
      if (keyspace == Keyspace::meta && meta_is_node_local(key)) return true;
      // Lengths go in too, so that bytes cannot move from a key to its value unseen.
      lengths.assign(1, static_cast<char>(i));
      append_le(lengths, static_cast<std::uint32_t>(key.size()));
      append_le(lengths, static_cast<std::uint32_t>(value.size()));
      stream.update(lengths);
      stream.update(key);
      stream.update(value);
      return true;
    });
  }
  return stream.digest();
}

}  // namespace queen::store
