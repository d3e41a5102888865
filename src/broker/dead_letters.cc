#include "broker/dead_letters.h"

#include <algorithm>
#include <memory>

#include "base/invariant.h"
#include "broker/partition_lookup.h"
#include "broker/store_steps.h"
#include "store/keys.h"

namespace queen::broker {
namespace {

using store::Keyspace;

store::DeadLetterHead head_of(BytesView value) {
  return decode_row<store::DeadLetterHead>(value);
}
Uuid id_of(BytesView key) {
  const auto parsed = store::parse_dlq_key(key);
  INVARIANT(parsed.has_value(), "a dead letter has a broken key");
  return parsed->dlq_id;
}

// The newest so many of what it is shown, without holding more.
class Newest {
 public:
  explicit Newest(std::size_t most) : most_(most) {}

  void show(std::int64_t failed_at, BytesView key) {
    if (most_ == 0 || (places_.size() == most_ && !newer({failed_at, Bytes(key)}, places_.front()))) return;
    if (places_.size() == most_) {
      std::pop_heap(places_.begin(), places_.end(), newer);
      places_.pop_back();
    }
    places_.push_back({failed_at, Bytes(key)});
    std::push_heap(places_.begin(), places_.end(), newer);
  }
  // Keys from the `from`th newest on.
  std::vector<Bytes> take(std::size_t from) {
    std::sort_heap(places_.begin(), places_.end(), newer);
    std::vector<Bytes> keys;
    for (std::size_t i = from; i < places_.size(); ++i) keys.push_back(std::move(places_[i].key));
    return keys;
  }

 private:
  struct Place {
    std::int64_t failed_at = 0;
    Bytes key;
  };
  // Of those that were filed by one entry the id decides, which ends the key.
  static bool newer(const Place& a, const Place& b) {
    if (a.failed_at != b.failed_at) return a.failed_at > b.failed_at;
    return id_of(a.key) > id_of(b.key);
  }

  const std::size_t most_;
  std::vector<Place> places_;  // a heap whose front is the oldest
};

struct Deletion {
  Submit submit;
  Clock& clock;
  Random& random;
  std::string tenant;
  machine::DeadLetterDeleteCommand all;
  UniqueFunction<void(Answer<machine::Outcome>)> done;
  std::size_t next = 0;  // of all.ids
  std::uint64_t removed = 0;
};

void delete_next(const std::shared_ptr<Deletion>& job) {
  const std::size_t end = std::min(job->all.ids.size(), job->next + machine::kDeleteChunkRowsMax);
  machine::DeadLetterDeleteCommand step{job->all.queue, {}};
  const auto at = [&](std::size_t i) { return job->all.ids.begin() + static_cast<std::ptrdiff_t>(i); };
  step.ids.assign(at(job->next), at(end));
  job->next = end;
  machine::Command command{job->tenant, make_uuid_v7(job->clock.wall_us(), job->random), std::move(step)};
  job->submit(std::move(command), [job](Answer<machine::Outcome> answer) {
    auto* outcome = answer ? std::get_if<machine::DeadLetterDeleteOutcome>(&answer->body) : nullptr;
    if (outcome == nullptr) return job->done(std::move(answer));
    job->removed += outcome->removed;
    outcome->removed = job->removed;
    if (job->next == job->all.ids.size()) return job->done(std::move(answer));
    delete_next(job);
  });
}

}  // namespace

// A letter that was filed while the node had not the message's key holds the envelope.
std::optional<DeadLetter> DeadLetters::read(BytesView key) const {
  const auto name = store::parse_dlq_key(key);
  INVARIANT(name.has_value(), "a dead letter has a broken key");
  DeadLetter letter{name->dlq_id, name->queue, std::nullopt, {}};
  {
    const auto gate = store_.read_gate();
    const auto bytes = store_.get(Keyspace::dlq, key);
    if (!bytes) return std::nullopt;
    letter.row = decode_row<store::DeadLetterRow>(*bytes);
    if (const auto at = store_.get(Keyspace::partitions, store::partition_key(letter.row.pid)))
      letter.partition = decode_row<store::PartitionRow>(*at).partition;
  }
  if (auto text = opener_.open_text(letter.row.payload)) letter.row.payload = *std::move(text);
  return letter;
}

DeadLetterPage DeadLetters::page(const std::string& tenant, const DeadLetterFilter& filter,
                                 const PageRange& range) const {
  DeadLetterPage out;
  Newest newest(range.offset + range.limit);
  const Bytes prefix = filter.queue ? store::dlq_prefix(tenant, *filter.queue) : store::dlq_prefix(tenant);
  each_row(store_, Keyspace::dlq, prefix, [&](BytesView key, BytesView value) {
    const auto head = head_of(value);
    if (filter.group && head.group != *filter.group) return true;
    ++out.total;
    newest.show(head.failed_at, key);
    return true;
  });
  std::size_t bytes = 0;
  for (const Bytes& key : newest.take(range.offset)) {
    if (bytes > kPageBytesMax) break;
    auto letter = read(key);
    if (!letter) continue;  // went meanwhile
    bytes += letter->row.payload.size() + letter->row.error.size() + letter->row.transaction_id.size();
    out.letters.push_back(std::move(*letter));
  }
  return out;
}

// An id does not say its queue: it is looked for in every queue that has dead letters.
std::optional<DeadLetter> DeadLetters::by_id(const std::string& tenant, const Uuid& id) const {
  const Bytes prefix = store::dlq_prefix(tenant);
  Bytes from = prefix;
  std::optional<Bytes> key;
  bool more = true;
  while (more && !key) {
    const auto gate = store_.read_gate();
    for (std::size_t step = 0; more && !key && step < kRowsPerStep; ++step) {
      more = false;
      store_.scan(Keyspace::dlq, prefix, from, [&](BytesView first, BytesView) {
        const auto name = store::parse_dlq_key(first);
        INVARIANT(name.has_value(), "a dead letter has a broken key");
        key = store::dlq_key(tenant, name->queue, id);
        from = after_name(store::dlq_prefix(tenant, name->queue));
        more = true;
        return false;
      });
      if (key && !store_.get(Keyspace::dlq, *key)) key.reset();
    }
  }
  return key ? read(*key) : std::nullopt;
}

std::vector<Uuid> DeadLetters::of_queue(const std::string& tenant, const std::string& queue,
                                        const std::optional<std::string>& group) const {
  std::vector<Uuid> ids;
  each_row(store_, Keyspace::dlq, store::dlq_prefix(tenant, queue), [&](BytesView key, BytesView value) {
    if (!group || head_of(value).group == *group) ids.push_back(id_of(key));
    return true;
  });
  return ids;
}

std::optional<DeadLetters::OfMessage> DeadLetters::of_message(const std::string& tenant,
                                                              std::string_view partition,
                                                              std::string_view transaction_id) const {
  const auto pid = find_partition(store_, tenant, partition);
  if (!pid) return std::nullopt;
  OfMessage out;
  {
    const auto gate = store_.read_gate();
    const auto bytes = store_.get(Keyspace::partitions, store::partition_key(*pid));
    if (!bytes) return std::nullopt;
    out.queue = decode_row<store::PartitionRow>(*bytes).queue;
  }
  each_row(store_, Keyspace::dlq_by_pos, store::dlq_by_pos_prefix(*pid), [&](BytesView, BytesView value) {
    const auto ids = store::decode_uuids_row(value);
    INVARIANT(ids.has_value(), "dead letters of partition {} do not decode", pid->value);
    for (const Uuid& id : *ids) {
      const auto row = store_.get(Keyspace::dlq, store::dlq_key(tenant, out.queue, id));
      if (row && head_of(*row).transaction_id == transaction_id) out.ids.push_back(id);
    }
    return true;
  });
  std::sort(out.ids.begin(), out.ids.end());
  return out;
}

void delete_dead_letters(Submit submit, machine::Command command, Clock& clock, Random& random,
                         UniqueFunction<void(Answer<machine::Outcome>)> done) {
  auto job = std::make_shared<Deletion>(
      Deletion{std::move(submit), clock, random, std::move(command.tenant),
               std::move(std::get<machine::DeadLetterDeleteCommand>(command.body)), std::move(done)});
  delete_next(job);
}

}  // namespace queen::broker
