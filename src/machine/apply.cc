#include "machine/apply.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "base/planted_bugs.h"
#include "machine/detail/digesting_view.h"
#include "machine/detail/effect_codec.h"
#include "machine/detail/folding_view.h"
#include "machine/detail/lookup.h"
#include "machine/planner.h"

namespace queen::machine {
namespace {

using namespace detail;

Error poison(EntryIndex index, std::string_view what) {
  return {Errc::corrupt, fmt::format("entry {} cannot be applied: {}", index.value, what)};
}

Status check_against(const LogState& state, EntryIndex index, const Entry& entry) {
  if (Status status = validate_entry(entry); !status) return poison(index, status.error().what);
  if (entry.now_us < state.last_now_us && !planted(PlantedBug::broker_log_time_goes_back))
    return poison(index, fmt::format("its clock {} is before {}", entry.now_us, state.last_now_us));
  if (entry.pid_base != state.next_pid)
    return poison(index, fmt::format("its pid base is {} where {} is next", entry.pid_base, state.next_pid));
  if (entry.kv_version_base != state.kv_version_next)
    return poison(index, fmt::format("its KV version base is {} where {} is next", entry.kv_version_base,
                                     state.kv_version_next));
  return {};
}

void advance(LogState& state, const Entry& entry) {
  state.last_now_us = entry.now_us;
  for (const Effect& effect : entry.effects) {
    if (std::holds_alternative<PartitionCreate>(effect)) ++state.next_pid;
    if (std::holds_alternative<KvPut>(effect)) ++state.kv_version_next;
    if (const auto* append = std::get_if<Append>(&effect))
      state.max_created_at_us = std::max(state.max_created_at_us, append->created_at);
  }
}

// Collects the queues whose readers may find something new, now or later.
class Touched final : public PendingWatch {
 public:
  Touched(const View& view, std::int64_t now_us) : view_(view), now_us_(now_us) {}

  // Whatever makes a partition ready for a group says so here (W-4).
  void pending(BytesView key, std::int64_t ready_at) override {
    const std::int64_t at = std::max(ready_at, now_us_);
    const auto group = store::pending_group(key);
    if (!group || (at == last_at_ && group->group_key == last_group_)) return;
    last_at_ = at;
    last_group_ = group->group_key;
    auto name = store::parse_pending_key(key);
    if (!name) return;
    if (at > now_us_)
      later_.push_back({std::move(name->tenant), std::move(name->queue), at});
    else
      found_.push_back({std::move(name->tenant), std::move(name->queue)});
  }
  Status add(const Effect& effect) {
    if (const auto* timer = std::get_if<TimerUpsert>(&effect))
      timer_due_ = std::min(timer_due_.value_or(timer->row.due()), timer->row.due());
    if (const auto* queue = std::get_if<QueueUpsert>(&effect))
      found_.push_back({queue->tenant, queue->queue});
    if (const auto* group = std::get_if<GroupUpsert>(&effect))
      found_.push_back({group->tenant, group->queue});
    if (const auto* queue = std::get_if<QueueDelete>(&effect))
      found_.push_back({queue->tenant, queue->queue});
    if (const auto* group = std::get_if<GroupDelete>(&effect))
      found_.push_back({group->tenant, group->queue});
    if (const auto* cursor = std::get_if<CursorDelete>(&effect)) return add(cursor->pid, 0, -1);
    if (const auto* append = std::get_if<Append>(&effect)) return add(append->pid, append->queue_id, -1);
    const auto* cursor = std::get_if<CursorSet>(&effect);
    if (cursor == nullptr || cursor->row.worker) return {};
    return add(cursor->pid, 0, cursor->row.committed);
  }
  std::vector<Applied::QueueTouched> take() {
    const auto less = [](const auto& a, const auto& b) {
      return std::tie(a.tenant, a.queue) < std::tie(b.tenant, b.queue);
    };
    std::sort(found_.begin(), found_.end(), less);
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    return std::move(found_);
  }
  std::optional<std::int64_t> timer_due() const { return timer_due_; }
  std::vector<Applied::QueueLater> take_later() {
    std::sort(later_.begin(), later_.end());
    later_.erase(std::unique(later_.begin(), later_.end()), later_.end());
    return std::move(later_);
  }

 private:
  // The queue of a partition that holds something above `committed`. `queue_id` 0: not known.
  Status add(Pid pid, std::uint64_t queue_id, std::int64_t committed) {
    if (queue_id != 0 && queue_id == last_queue_id_) return {};
    auto partition = partition_row(view_, pid);
    if (!partition) return partition.error();
    if (!*partition || (*partition)->last_offset <= committed) return {};
    last_queue_id_ = queue_id;
    found_.push_back({std::move((*partition)->tenant), std::move((*partition)->queue)});
    return {};
  }

  const View& view_;
  const std::int64_t now_us_;
  std::vector<Applied::QueueTouched> found_;
  std::vector<Applied::QueueLater> later_;
  Bytes last_group_;
  std::int64_t last_at_ = 0;
  std::uint64_t last_queue_id_ = 0;
  std::optional<std::int64_t> timer_due_;
};

// Says which effect of which command it was (SP-2).
Error at_effect(const Error& error, const Entry& entry, std::uint32_t effect) {
  std::size_t command = 0;
  while (command < entry.commands.size() &&
         entry.commands[command].first_effect + entry.commands[command].effect_count <= effect)
    ++command;
  const std::string of = command < entry.commands.size() ? fmt::format("command {}", command) : "no command";
  return {
      error.code,
      fmt::format("effect {} of kind {}, of {}: {}", effect, kind_of(entry.effects[effect]), of, error.what),
      error.sys_errno};
}

Status run_effects(View& view, Touched& touched, EntryIndex index, const Entry& entry,
                   CrashPoints* crash_points) {
  for (std::uint32_t i = 0; i < entry.effects.size(); ++i) {
    if (i > 0) reach_point(crash_points, CrashPoint::apply_mid_entry);
    if (Status status = run_effect(view, entry.effects[i], index, i, entry.now_us); !status)
      return at_effect(status.error(), entry, i);
  }
  for (const Effect& effect : entry.effects)
    if (Status status = touched.add(effect); !status) return poison(index, status.error().what);
  return {};
}

// AP-7: two nodes with the same number at the same index went through the same states.
Status extend_chain(store::Store& store, EntryIndex index, std::uint64_t changes) {
  const auto before = meta_number(store, store::kMetaDigestChain, 0);
  if (!before) return before.error();
  Bytes link;
  append_le(link, *before);
  append_le(link, index.value);
  append_le(link, changes);
  store.put(Keyspace::meta, store::kMetaDigestChain, store::encode_meta_u64(xxh3_64(link)));
  return {};
}

}  // namespace

Result<Applied> apply_entry(store::Store& store, EntryIndex index, std::uint64_t term, const Entry& entry,
                            CrashPoints* crash_points) {
  const auto gate = store.write_gate();
  const auto applied = meta_number(store, store::kMetaAppliedIndex, 0);
  if (!applied) return applied.error();
  if (index.value <= *applied) return Applied{{}, {}, std::nullopt, true};
  if (index.value != *applied + 1) return poison(index, fmt::format("the entry before it is {}", *applied));

  Applied out;
  if (!entry.commands.empty() || !entry.effects.empty()) {
    auto state = LogState::load(store);
    if (!state) return state.error();
    if (Status status = check_against(*state, index, entry); !status) return status.error();
    DigestingView changes(store);
    Touched touched(changes, entry.now_us);
    FoldingView view(changes, &touched);
    if (Status status = run_effects(view, touched, index, entry, crash_points); !status)
      return status.error();
    out.queues = touched.take();
    out.later = touched.take_later();
    out.timer_due = touched.timer_due();
    view.flush();
    advance(*state, entry);
    state->save(changes);
    if (Status status = extend_chain(store, index, changes.sum()); !status) return status.error();
  }
  store.put(Keyspace::meta, store::kMetaAppliedTerm, store::encode_meta_u64(term));
  store.put(Keyspace::meta, store::kMetaAppliedIndex, store::encode_meta_u64(index.value));
  return out;
}

std::uint64_t digest_chain(const store::Store& store) {
  return must(meta_number(store, store::kMetaDigestChain, 0));
}

EntryIndex applied_index(const store::Store& store) {
  return EntryIndex{must(meta_number(store, store::kMetaAppliedIndex, 0))};
}

std::int64_t safe_time_us(const store::Store& store) {
  const LogState state = must(LogState::load(store));
  return std::max(state.last_now_us, state.max_created_at_us);
}

}  // namespace queen::machine
