// Sealing what a request is going to store (api-state.md EN-4): while its command is prepared, so that no log
// and no other node ever sees the plaintext.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/detail/context.h"

namespace queen::api {

// A payload as its queue wants it stored.
struct SealedPayload {
  Bytes bytes;
  bool encrypted = false;  // `bytes` is an envelope
};

// Of one request. Reads the queue's row: not under a lock.
class Sealer {
 public:
  // Both outlive this.
  Sealer(const Context& context, std::string_view tenant) : context_(context), tenant_(tenant) {}

  // Whether the queue asks for sealed payloads and this node has a key. One that asks and gets none is
  // refused by the planner (`encryption_required`), which knows the queue as it is then.
  bool wants(std::string_view queue) const;
  // The envelope of a JSON text. Nothing when the cipher failed, which is logged: the caller leaves the
  // payload unsealed, and the planner refuses it. Plaintext is never stored silently (EN-9).
  std::optional<Bytes> seal(std::string_view payload) const;
  // Both in one: sealed when the queue asks for it and this node can.
  SealedPayload sealed_for(std::string_view queue, Bytes payload) const;

 private:
  const Context& context_;
  std::string_view tenant_;
  mutable bool failed_ = false;  // logged already
};

// Whether the planner missed sealed payloads.
bool asks_to_seal(const broker::Answer<machine::Outcome>& answer);
bool asks_to_seal(const broker::Answer<broker::PushAnswer>& answer);

// `call(command, done)`. A queue may come to ask for sealed payloads after the request was prepared: then
// once more with the command that `again()` prepares, on a thread of the broker's own. `call` is copied, and
// may run twice.
template <class T, class Call, class Again>
void submit_sealing(const SharedContext& context, machine::Command command, Call call, Again again,
                    UniqueFunction<void(broker::Answer<T>)> done) {
  if (context->settings.cipher == nullptr) return call(std::move(command), std::move(done));
  auto judge = [context, call, again = std::move(again),
                done = std::move(done)](broker::Answer<T> answer) mutable {
    if (!asks_to_seal(answer)) return done(std::move(answer));
    context->broker.run([call = std::move(call), again = std::move(again), done = std::move(done)]() mutable {
      call(again(), std::move(done));
    });
  };
  call(std::move(command), UniqueFunction<void(broker::Answer<T>)>(std::move(judge)));
}

}  // namespace queen::api
