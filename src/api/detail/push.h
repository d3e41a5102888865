// POST /api/v1/push. The hot path: one scan of the body, one copy of each payload into its partition's
// frames, no heap allocation per message beyond growing vectors.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/detail/context.h"
#include "api/detail/seal.h"
#include "base/ids.h"

namespace queen::api {

// One item as sent; views into the body or the arena.
struct PushItem {
  std::string_view queue;
  std::string_view partition;  // never empty
  std::string_view payload;    // JSON text; empty for null
  bool null_payload = false;
  std::optional<std::string_view> transaction_id;
  std::optional<Uuid> trace_id;
  std::optional<Uuid> message_id;  // nothing: minted
};
struct PushBody {
  std::vector<PushItem> items;
  std::deque<std::string> arena;  // strings that had escapes
};
// `body` must outlive the result and stay where it is. Errors: bad_body, bad_request (empty queue name).
broker::Answer<PushBody> parse_push(std::string_view body);
// Errors: name_too_long.
std::optional<broker::Refusal> check_push_names(const PushBody& body, std::string_view tenant);

// Where an item went: to find its outcome, and what it was called.
struct PushPlace {
  std::uint32_t batch = 0, index = 0;
  Uuid id;
};
struct PushMint {
  std::int64_t wall_us = 0;
  Random& random;
  qlog::CompressorPool& compressors;
  int zstd_level = 1;
  std::uint64_t batch_bytes_max = 0;
  const Sealer* sealer = nullptr;  // null: nothing is sealed
};
struct PreparedPush {
  machine::PushCommand command;
  std::vector<PushPlace> places;  // aligned with the items
};
PreparedPush prepare_push(const PushBody& body, const PushMint& mint);

std::string render_push(const PushBody& body, const std::vector<PushPlace>& places,
                        const broker::PushAnswer& answer);

void handle_push(const SharedContext& context, Inbound inbound);

}  // namespace queen::api
