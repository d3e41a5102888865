// A bucket in memory that fails on demand: for tests of the sink and for the simulation. Same interface and
// same promises as the real client, except where it is told to break them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/executor.h"
#include "s3/object_store.h"

namespace queen::s3 {

// Outcomes arrive on `executor`, which outlives the store; so does every call made to it. Thread-safe.
class MemoryStore final : public ObjectStore {
 public:
  enum class Kind : std::uint8_t { put, get, head, list };
  // Whether an operation that is told to fail did its work all the same (its answer was lost).
  enum class Effect : bool { none, happened };

  struct PutSeen {  // one PUT that took effect (or was dropped by a lie, as `dropped` says)
    std::string key;
    std::string sha256_hex;
    std::uint64_t size = 0;
    bool dropped = false;
  };

  explicit MemoryStore(Executor& executor);
  ~MemoryStore() override;

  void put(std::string key, std::shared_ptr<const Bytes> body, PutOptions options,
           Done<PutDone> done) override;
  void get(std::string key, std::uint64_t bytes_max, Done<std::optional<Bytes>> done) override;
  void head(std::string key, Done<std::optional<std::uint64_t>> done) override;
  void list(std::string prefix, std::string start_after, int max_keys, Done<Listing> done) override;
  void cancel() override;
  void resume() override;
  void cancel_keys(const std::vector<std::string>& prefixes) override;

  // Faults. They are judged when an operation is due, in this order: hang, failure, refusal, lie.
  // The next `count` operations of `kind` end with `error`.
  void fail_next(Kind kind, int count, S3Error error, Effect effect = Effect::none);
  // While set, every PUT ends with this status (503 is retriable, 403 is not); nullopt ends it.
  void refuse_puts(std::optional<int> status);
  // Every operation that begins from now on is due `us` after it began.
  void delay(std::int64_t us);
  // While hanging, operations that become due wait for release(), in order; cancel() ends them.
  void hang();
  void release();
  // The next `count` PUTs are acknowledged and forgotten.
  void drop_next_puts(int count);
  // The next `count` HEADs, GETs and LISTs find nothing.
  void hide_next_reads(int count);
  // A PUT cancelled under way lands in the bucket all the same: its bytes were out already. Off at first.
  void cancelled_puts_land(bool land);
  // Bodies above this go up in 16 MiB parts: between_parts is called between them. 64 MiB at first.
  void multipart_threshold(std::uint64_t bytes);

  // What is there.
  std::map<std::string, Bytes> objects() const;
  std::optional<Bytes> object(std::string_view key) const;
  std::vector<PutSeen> puts() const;     // in the order they took effect
  std::uint64_t calls(Kind kind) const;  // begun so far, refused and cancelled ones too
  std::size_t in_flight() const;
  // Behind the clients' back.
  void insert(std::string key, Bytes bytes);
  void erase(std::string_view key);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with what waits on the executor, which may outlive the store
};

}  // namespace queen::s3
