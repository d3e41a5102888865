// In-memory queues of one node (api-state.md 6): nothing of them is written anywhere but their declarations.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/executor.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/unique_function.h"
#include "ephemeral/options.h"

namespace queen::ephemeral {

// The cursor of pops without a group.
inline constexpr std::string_view kSharedGroup = "__QUEUE_MODE__";
inline constexpr std::string_view kDefaultPartition = "Default";

struct QueueName {
  std::string tenant, queue;
};
// What the tenant may hold on this node; 0 = no limit.
struct TenantMax {
  std::int64_t bytes = 0, queues = 0;
};
enum class Refused : std::uint8_t {
  queue_full,   // policy reject, or a message larger than the queue
  tenant_full,  // bytes or queues of the tenant
  node_full,    // Settings::node_bytes_max
};

struct PopRequest {
  QueueName name;
  std::optional<std::string> partition;  // none: every partition, in name order
  std::string group{kSharedGroup};
  std::uint32_t batch = 1;
  bool commit = false;                        // settled when given: no lease
  std::optional<std::int64_t> wait_until_us;  // of the executor's clock; none: answer at once
};
struct Message {
  std::string id, partition;
  std::uint32_t attempts = 1;
  std::shared_ptr<const std::string> payload;
};
using PopDone = UniqueFunction<void(tl::expected<std::vector<Message>, Refused>)>;

enum class Status : std::uint8_t { done, retry, failed };
struct Ack {
  std::string_view id;
  Status status = Status::done;
};
enum class AckOutcome : std::uint8_t { acked, redelivered, stale, unknown };

struct Drops {
  std::uint64_t bounds = 0, ttl = 0, retry = 0;
};
struct QueueView {
  std::string queue;
  bool declared = false;
  std::uint64_t depth = 0;  // messages in memory
  std::int64_t bytes = 0;   // of payloads
  std::uint64_t partitions = 0, groups = 0;
  Drops drops;
  Declaration options;  // effective
};
struct DepthView {
  bool declared = false;
  std::uint64_t pending = 0, partitions_pending = 0;  // of the group: not settled
  std::int64_t bytes = 0;
  struct Partition {
    std::string name;
    std::uint64_t pending = 0;
    std::int64_t bytes = 0;
  };
  std::vector<Partition> partitions;  // by name
  struct Group {
    std::string name;
    std::uint64_t pending = 0, skipped = 0;
  };
  std::vector<Group> groups;  // by name
};

// Thread-safe. Nothing blocks on more than the engine's own mutex; `done` runs on the thread that brings the
// outcome, which may be the caller's, with no lock held.
class Engine {
 public:
  struct State;
  // The declaration of a queue; may read the store. Thread-safe.
  using Lookup = std::function<std::optional<Declaration>(const QueueName& name)>;
  // `executor` and `random` outlive the engine. Timers left on the executor do nothing once it is gone.
  Engine(Settings settings, Executor& executor, Random& random, Lookup lookup);
  ~Engine();

  // All messages or none, in order. Returns how many are in. A queue that nobody has named is made.
  tl::expected<std::size_t, Refused> push(const QueueName& name, std::string_view partition,
                                          std::vector<std::string> payloads, const TenantMax& max);

  using PopId = std::uint64_t;  // 0: answered already
  PopId pop(PopRequest request, const TenantMax& max, PopDone done);
  // A parked pop is forgotten, its `done` with it. False when it is answered or being answered.
  bool cancel_pop(PopId id);
  // Aligned with `acks`.
  std::vector<AckOutcome> ack(const QueueName& name, std::string_view group, std::span<const Ack> acks);

  // A queue is declared, or its declaration has changed. Errors: tenant_full, for a queue that was not there.
  tl::expected<void, Refused> declare(const QueueName& name, const Declaration& declaration,
                                      const TenantMax& max);
  // Whether declare() would be refused.
  bool may_declare(const QueueName& name, const TenantMax& max) const;
  // Messages that went. 0 for a queue that is not there.
  std::uint64_t reset(const QueueName& name);
  // Messages, cursors and declaration go from memory; parked pops answer empty. False: it was not there.
  bool remove(const QueueName& name);

  // Of a tenant, by name. Declared queues that nobody has used since the start are not in memory.
  std::vector<QueueView> queues(std::string_view tenant);
  // Nothing: no such queue in memory.
  std::optional<DepthView> depth(const QueueName& name, std::string_view group);
  // Held by all queues: payloads, and what stands around them.
  std::int64_t bytes() const;
  // Since the start, of all queues.
  Drops drops() const;
  std::size_t parked() const;

  // Parked pops answer empty, and no pop waits from now on: SIGTERM.
  void release_parked();

 private:
  std::shared_ptr<State> state_;
};

}  // namespace queen::ephemeral
