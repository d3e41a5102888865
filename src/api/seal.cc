#include "api/detail/seal.h"

#include "auth/payload_cipher.h"
#include "broker/state_reads.h"

namespace queen::api {
namespace {

constexpr std::string_view kRequired = "encryption_required";

}  // namespace

bool Sealer::wants(std::string_view queue) const {
  return context_.settings.cipher != nullptr && context_.broker.state().encrypts(tenant_, queue);
}

std::optional<Bytes> Sealer::seal(std::string_view payload) const {
  auto sealed = context_.settings.cipher->seal(payload);
  if (sealed) return *std::move(sealed);
  if (!std::exchange(failed_, true))
    context_.log.with_target("encryption").error("seal_failed", {{"why", sealed.error().what}});
  return std::nullopt;
}

SealedPayload Sealer::sealed_for(std::string_view queue, Bytes payload) const {
  if (wants(queue))
    if (auto sealed = seal(payload)) return {*std::move(sealed), true};
  return {std::move(payload), false};
}

bool asks_to_seal(const broker::Answer<machine::Outcome>& answer) {
  if (!answer) return false;
  if (const auto* transaction = std::get_if<machine::TransactionOutcome>(&answer->body))
    return transaction->reason == kRequired;
  if (const auto* cycle = std::get_if<machine::StreamsCycleOutcome>(&answer->body))
    return cycle->reason == kRequired;
  return answer->code == kRequired;
}

bool asks_to_seal(const broker::Answer<broker::PushAnswer>& answer) {
  return !answer && answer.error().code == kRequired;
}

}  // namespace queen::api
