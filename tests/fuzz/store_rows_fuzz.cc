// Bytes of a file into the decoders of the store's rows and keys: they refuse or understand them, and what
// they understand has this one encoding.
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/invariant.h"
#include "store/keys.h"
#include "store/rows.h"

namespace {

using namespace queen;
using namespace queen::store;

template <class Row>
void decode_row(BytesView bytes) {
  const auto row = Row::decode(bytes);
  if (row) INVARIANT(row->encode() == bytes, "a row of {} bytes comes back different", bytes.size());
}

template <class Decode, class Encode>
void decode_small(BytesView bytes, Decode decode, Encode encode) {
  const auto value = decode(bytes);
  if (value) INVARIANT(encode(*value) == bytes, "a value of {} bytes comes back different", bytes.size());
}

void decode_small_rows(BytesView bytes) {
  decode_small(bytes, decode_i64_row, encode_i64_row);
  decode_small(bytes, decode_pid_row, encode_pid_row);
  decode_small(bytes, decode_uuids_row, encode_uuids_row);
  decode_small(bytes, decode_bytes_row, [](const Bytes& value) { return encode_bytes_row(value); });
  decode_small(bytes, decode_meta_u64, encode_meta_u64);
  decode_small(bytes, decode_meta_u32_list, encode_meta_u32_list);
  const auto append = AppendRowView::decode(bytes);
  if (append)
    INVARIANT(
        encode_append_row(append->end, append->created_at, append->hashes, append->retained_bytes) == bytes,
        "an append row of {} bytes comes back different", bytes.size());
}

void parse_keys(BytesView bytes) {
  if (const auto key = parse_txns_key(bytes))
    INVARIANT(txns_key(key->pid, key->base_offset) == bytes, "a txns key of {} bytes", bytes.size());
  if (const auto key = parse_queue_key(bytes))
    INVARIANT(queue_key(key->tenant, key->queue) == bytes, "a queue key of {} bytes", bytes.size());
  if (const auto key = parse_group_key(bytes))
    INVARIANT(group_key(key->tenant, key->queue, key->group) == bytes, "a group key of {} bytes",
              bytes.size());
  if (const auto key = parse_cursor_key(bytes))
    INVARIANT(cursor_key(key->pid, key->group) == bytes, "a cursor key of {} bytes", bytes.size());
  if (const auto key = parse_counter_key(bytes))
    INVARIANT(counter_key(key->scope, key->id, key->counter) == bytes, "a counter key of {} bytes",
              bytes.size());
}

using Take = void (*)(BytesView);
constexpr std::array<Take, 13> kTakers = {
    decode_row<QueueRow>,        decode_row<GroupRow>, decode_row<PartitionRow>,  decode_row<CursorRow>,
    decode_row<AppendRow>,       decode_row<KvRow>,    decode_row<DeadLetterRow>, decode_row<TimerRow>,
    decode_row<StreamsQueryRow>, decode_row<QuotaRow>, decode_row<GarbageRow>,    decode_row<RequestIdRow>,
    decode_small_rows,
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const BytesView bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  kTakers[data[0] % kTakers.size()](bytes);
  parse_keys(bytes);
  return 0;
}
