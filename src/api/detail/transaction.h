// POST /api/v1/transaction: acks, pushes, positions, KV operations and timers that take place together or not
// at all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/detail/kv.h"
#include "api/detail/push.h"
#include "api/detail/timers.h"

namespace queen::api {

// Nothing took place, and why (api-messaging.md 7.4).
struct RolledBack {
  int status = 200;
  std::string reason, error;
};
// What a body is refused with: its own shape, or the engine's envelope.
using TransactionRefusal = std::variant<RolledBack, broker::Refusal>;

// One result of `operations`: a pushed item or an ack.
struct TransactionPart {
  enum class Kind : std::uint8_t { push, ack } kind = Kind::push;
  // push: of the items. ack: of the command's `acks`, and of the items there.
  std::size_t index = 0, item = 0;
};
struct TransactionBody {
  PushBody push;                        // the items of all operations
  machine::TransactionCommand command;  // without `push`, and without minted ids
  std::vector<TransactionPart> parts;   // in order of the results
};
// `body` must outlive the result and stay where it is. `timers`: what one alone may be; nothing counts them.
tl::expected<TransactionBody, TransactionRefusal> parse_transaction(std::string_view body,
                                                                    std::string_view tenant,
                                                                    const ApiSettings& settings,
                                                                    const TimerLimits& timers);

// What the answer needs of a transaction once its command is on its way.
struct TransactionEcho {
  Uuid id;
  PushBody push;
  std::vector<PushPlace> places;  // aligned with the items
  std::vector<TransactionPart> parts;
  std::vector<std::string> ack_ids;  // of the acks among `parts`, in order
  std::vector<KvEcho> kv;
  std::vector<TimerEcho> timers;
  std::size_t positions = 0;
};
std::string render_transaction(const TransactionEcho& echo, const machine::TransactionOutcome& outcome);
http::Response rolled_back_response(const Uuid& id, const RolledBack& why);

void handle_transaction(const SharedContext& context, Inbound inbound);

}  // namespace queen::api
