#include "cli/coverage.h"

#include <fmt/format.h>

#include <algorithm>

#include "machine/effects.h"
#include "store/keys.h"

namespace queen::cli {

using store::Keyspace;

Status Coverage::entry(const qlog::RecordPlace&, const qlog::Record& record) {
  const auto entry = machine::decode_entry(record.body);
  if (!entry) return entry.error();
  return machine::validate_entry(*entry);
}

Coverage::Partition& Coverage::partition_of(Pid pid) {
  const auto [found, made] = partitions_.try_emplace(pid);
  Partition& partition = found->second;
  if (!made) return partition;
  const auto bytes = input_.store.get(Keyspace::partitions, store::partition_key(pid));
  const auto row = bytes ? store::PartitionRow::decode(*bytes)
                         : Result<store::PartitionRow>(Error{Errc::not_found, "deleted"});
  if (!row) return partition;
  partition.known = true;
  partition.log_start = row->log_start;
  partition.rows_start = row->rows_start;
  partition.last_offset = row->last_offset;
  partition.next = row->log_start;
  return partition;
}

void Coverage::tell(const char* rule, const qlog::RecordPlace& place, std::string what) {
  Finding finding;
  finding.rule = rule;
  finding.path = qlog::record_path(input_.directory, place);
  finding.position = place.position;
  finding.what = std::move(what);
  findings_.add(std::move(finding));
}

void Coverage::gap(Pid pid, const Partition& partition, std::int64_t from, std::int64_t to) {
  Finding finding;
  finding.rule = "RD-6";
  finding.path = fmt::format("{}/q{}", input_.directory, partition.log.value);
  finding.keyspace = "partitions";
  finding.key = store::partition_key(pid);
  finding.what = fmt::format("offsets {} to {} of partition {} are in no record of the logs", from, to, pid.value);
  findings_.add(std::move(finding));
}

void Coverage::message(const qlog::RecordPlace& place, const qlog::Record& record) {
  // What is above the checkpoint has no rows yet; recovery judges it by its entry.
  if (!input_.store_known || record.seq > input_.durable.durable_index) return;
  const Pid pid{record.pid};
  Partition& partition = partition_of(pid);
  const auto base = static_cast<std::int64_t>(record.base_offset);
  const std::int64_t end = base + record.count;  // exclusive
  if (!partition.known || end <= partition.log_start) return;
  partition.log = place.log;
  if (end - 1 > partition.last_offset)
    return tell("RD-6", place,
                fmt::format("the record of partition {} ends at offset {}, the partition at {}", pid.value,
                            end - 1, partition.last_offset));
  // The first record may begin below the first offset that is retained.
  const bool first = partition.next == partition.log_start;
  if (base < partition.next && !first)
    tell("RD-6", place,
         fmt::format("offset {} of partition {} stands in an earlier record too", base, pid.value));
  if (base > partition.next) gap(pid, partition, partition.next, base - 1);
  partition.next = std::max(partition.next, end);
  compare_row(place, record, partition);
}

void Coverage::compare_row(const qlog::RecordPlace& place, const qlog::Record& record,
                           const Partition& partition) {
  const auto base = static_cast<std::int64_t>(record.base_offset);
  const std::int64_t last = base + record.count - 1;
  const auto bytes = input_.store.get(Keyspace::txns, store::txns_key(Pid{record.pid}, base));
  if (!bytes && (last < partition.rows_start || !input_.store_complete)) return;
  const auto name = fmt::format("the append row of partition {} at offset {}", record.pid, base);
  if (!bytes) return tell("9", place, name + " is missing from the store");
  const auto row = store::AppendRowView::decode(*bytes);
  if (!row) return;
  if (row->end == last && row->created_at == record.created_at && row->hashes == record.hashes()) return;
  tell("9", place, name + " has another end, stamp or other hashes than this record");
}

void Coverage::finish() {
  if (!input_.store_known) return;
  input_.store.scan(Keyspace::partitions, {}, {}, [&](BytesView key, BytesView) {
    const auto pid = store::parse_partition_key(key);
    if (!pid) return true;
    const Partition& partition = partition_of(*pid);
    if (partition.known && partition.next <= partition.last_offset)
      gap(*pid, partition, partition.next, partition.last_offset);
    return true;
  });
}

}  // namespace queen::cli
