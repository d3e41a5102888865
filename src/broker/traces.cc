#include "broker/traces.h"

#include <algorithm>
#include <unordered_set>

#include "base/hash.h"
#include "base/invariant.h"
#include "broker/partition_lookup.h"
#include "broker/store_steps.h"
#include "store/keys.h"

namespace queen::broker {
namespace {

using store::Keyspace;

Bytes named_key(BytesView value) {
  auto key = store::decode_bytes_row(value);
  INVARIANT(key.has_value(), "a trace_names row does not decode");
  return std::move(*key);
}

// The rows of a page of what starts with `prefix`, newest first where keys ascend with time. They are counted
// before they are read: then only the page is held.
struct PageRows {
  std::vector<store::View::Row> rows;
  std::uint64_t total = 0;
};
PageRows last_rows(const store::Store& store, Keyspace keyspace, const Bytes& prefix,
                   const PageRange& range) {
  PageRows out;
  each_row(store, keyspace, prefix, [&](BytesView, BytesView) {
    ++out.total;
    return true;
  });
  if (range.offset >= out.total) return out;
  const std::uint64_t end = out.total - range.offset;  // of the page, in ascending order
  const std::uint64_t begin = end - std::min<std::uint64_t>(end, range.limit);
  std::uint64_t at = 0;
  each_row(store, keyspace, prefix, [&](BytesView key, BytesView value) {
    if (at++ < begin) return true;
    if (at > end) return false;
    // A trace is read later, by its key; a name's row says which it is.
    out.rows.push_back({Bytes(key), keyspace == Keyspace::trace_names ? Bytes(value) : Bytes()});
    return true;
  });
  std::reverse(out.rows.begin(), out.rows.end());
  return out;
}

struct HashOfHash {
  std::size_t operator()(const Hash128& hash) const { return load_le<std::uint64_t>(hash.view().data()); }
};

}  // namespace

std::optional<Pid> Traces::partition(const std::string& tenant, std::string_view text) const {
  return find_partition(store_, tenant, text);
}

std::optional<TraceEvent> Traces::read(BytesView key) const {
  const auto name = store::parse_trace_key(key);
  INVARIANT(name.has_value(), "a trace has a broken key");
  const auto gate = store_.read_gate();
  const auto bytes = store_.get(Keyspace::traces, key);
  if (!bytes) return std::nullopt;
  TraceEvent event{name->pid, std::nullopt, std::nullopt, name->transaction_id,
                   decode_row<store::TraceRow>(*bytes)};
  if (!event.pid) return event;
  if (const auto at = store_.get(Keyspace::partitions, store::partition_key(*event.pid))) {
    auto partition = decode_row<store::PartitionRow>(*at);
    event.queue = std::move(partition.queue);
    event.partition = std::move(partition.partition);
  }
  return event;
}

TracePage Traces::page(const std::vector<Bytes>& keys, std::uint64_t total) const {
  TracePage out;
  out.total = total;
  std::size_t bytes = 0;
  for (const Bytes& key : keys) {
    if (bytes > kPageBytesMax) break;
    auto event = read(key);
    if (!event) continue;  // went meanwhile
    bytes += event->row.data.size();
    out.events.push_back(std::move(*event));
  }
  return out;
}

TracePage Traces::of_message(const std::string& tenant, Pid pid, const std::string& transaction_id,
                             const PageRange& range) const {
  PageRows found =
      last_rows(store_, Keyspace::traces, store::traces_prefix(tenant, pid, transaction_id), range);
  std::vector<Bytes> keys;
  for (auto& row : found.rows) keys.push_back(std::move(row.key));
  return page(keys, found.total);
}

TracePage Traces::by_name(const std::string& tenant, const std::string& name, const PageRange& range) const {
  const PageRows found =
      last_rows(store_, Keyspace::trace_names, store::trace_names_prefix(tenant, name), range);
  std::vector<Bytes> keys;
  for (const auto& row : found.rows) keys.push_back(named_key(row.value));
  return page(keys, found.total);
}

TraceName Traces::name_summary(const std::string& tenant, const std::string& name) const {
  constexpr std::size_t kSequenceBytes = 8;
  TraceName out;
  out.name = name;
  std::unordered_set<Hash128, HashOfHash> messages;
  each_row(store_, Keyspace::trace_names, store::trace_names_prefix(tenant, name),
           [&](BytesView key, BytesView value) {
             const auto at = store::parse_trace_name_key(key);
             INVARIANT(at.has_value(), "a trace_names row has a broken key");
             const Bytes trace = named_key(value);
             messages.insert(xxh3_128(BytesView(trace).substr(0, trace.size() - kSequenceBytes)));
             ++out.traces;
             out.last_seen = at->created_at;
             return true;
           });
  out.messages = messages.size();
  return out;
}

// From name to name, passing over the rows between them.
TraceNamesPage Traces::names(const std::string& tenant, const PageRange& range) const {
  TraceNamesPage out;
  std::vector<std::string> wanted;
  const Bytes prefix = store::trace_names_prefix(tenant);
  Bytes from = prefix;
  bool more = true;
  while (more) {
    const auto gate = store_.read_gate();
    for (std::size_t step = 0; more && step < kRowsPerStep; ++step) {
      more = false;
      store_.scan(Keyspace::trace_names, prefix, from, [&](BytesView key, BytesView) {
        auto at = store::parse_trace_name_key(key);
        INVARIANT(at.has_value(), "a trace_names row has a broken key");
        from = after_name(store::trace_names_prefix(tenant, at->name));
        if (out.total >= range.offset && wanted.size() < range.limit) wanted.push_back(std::move(at->name));
        ++out.total;
        more = true;
        return false;
      });
    }
  }
  for (const std::string& name : wanted) {
    TraceName summary = name_summary(tenant, name);
    if (summary.traces > 0) out.names.push_back(std::move(summary));
  }
  return out;
}

}  // namespace queen::broker
