// Bytes as request bodies, to every body parser of the API. Whatever is accepted must be JSON, and a push
// that is accepted must survive its way into frames and back.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/detail/ack.h"
#include "api/detail/changed.h"
#include "api/detail/configure.h"
#include "api/detail/ephemeral.h"
#include "api/detail/fetch.h"
#include "api/detail/json_check.h"
#include "api/detail/kv.h"
#include "api/detail/locks.h"
#include "api/detail/push.h"
#include "api/detail/streams.h"
#include "api/detail/timers.h"
#include "base/invariant.h"
#include "qlog/record.h"

namespace {

void check_push(std::string_view body) {
  const auto parsed = queen::api::parse_push(body);
  if (!parsed) return;
  INVARIANT(queen::api::is_json(body), "a push that is no JSON was accepted");
  queen::SeededRandom random(1);
  queen::qlog::CompressorPool compressors;
  const auto prepared = queen::api::prepare_push(*parsed, {0, random, compressors, 1, 96ULL << 20});
  std::size_t items = 0;
  for (const auto& batch : prepared.command.batches) {
    const auto frames = queen::qlog::decode_frames(batch.frames, static_cast<std::uint32_t>(batch.items()));
    INVARIANT(frames.has_value(), "frames of an accepted push do not decode");
    for (const auto& frame : *frames)
      INVARIANT(frame.null_payload || queen::api::is_json(frame.payload), "a payload is no JSON");
    items += batch.items();
  }
  INVARIANT(items == parsed->items.size(), "{} items became {}", parsed->items.size(), items);
}

const queen::api::TimerLimits kTimers{256, 7'776'000, 1 << 20, 4 << 20, nullptr};

// As a batch, and as the body of one key's route.
bool accepts_kv(std::string_view body) {
  const auto batch = queen::api::read_kv_batch(body);
  const bool as_batch = batch && !queen::api::check_kv_ceilings(*batch, {}) &&
                        queen::api::parse_kv(*batch, queen::kDefaultTenant, {});
  const auto one = queen::api::read_kv_path({queen::machine::KvKind::put, "ns", "key"}, body);
  const bool as_one = one && !queen::api::check_kv_ceilings(*one, {}) &&
                      queen::api::parse_kv(*one, queen::kDefaultTenant, {});
  return as_batch || as_one;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  check_push(body);
  const bool json = queen::api::is_json(body);
  const bool accepted = queen::api::parse_ack(body).has_value() ||
                        queen::api::parse_configure(body, queen::kDefaultTenant).has_value() ||
                        queen::api::parse_fetch(body).has_value() ||
                        queen::api::parse_changed(body).has_value() || accepts_kv(body) ||
                        queen::api::parse_locks(body).has_value() ||
                        queen::api::parse_streams_query(body).has_value() ||
                        queen::api::parse_streams_state(body).has_value() ||
                        queen::api::parse_streams_cycle(body, queen::kDefaultTenant).has_value() ||
                        queen::api::parse_ephemeral_push(body).has_value() ||
                        queen::api::parse_ephemeral_acks(body).has_value() ||
                        queen::api::parse_ephemeral_configure(body).has_value() ||
                        queen::api::parse_timers(body, queen::kDefaultTenant, kTimers).has_value();
  INVARIANT(json || !accepted, "a body that is no JSON was accepted");
  return 0;
}
