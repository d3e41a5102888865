// KV: the routes of batches and of single keys.
#include "api/detail/kv.h"

#include "api/detail/kv_call.h"
#include "api/detail/kv_fields.h"

namespace queen::api {
namespace {

using machine::KvKind;

// Hands an accepted call to the engine and renders its outcome.
template <class Render>
void answer_kv(const SharedContext& context, Inbound inbound, AcceptedKv accepted, Render render) {
  auto pending = std::make_shared<Pending>(context->deadlines, std::move(inbound.reply));
  const KvCaller caller{std::move(inbound.tenant), context->deadline_us(context->settings.default_timeout_ms),
                        std::move(accepted.charge)};
  pending->set_deadline(caller.deadline_mono_us,
                        [pending] { pending->answer(kv_refusal_response(kv_too_late())); });
  run_kv(context, caller, std::move(accepted.command),
         [pending, render = std::move(render)](tl::expected<machine::KvOutcome, http::Response> outcome) {
           if (!pending->claim()) return;
           pending->send(outcome ? render(*outcome) : std::move(outcome).error());
         });
}

void handle_path(const SharedContext& context, Inbound inbound, KvKind kind) {
  http::Request& request = inbound.request;
  if (const auto fault = kv_query_fault(request)) return inbound.reply->send(kv_fault_response(*fault));
  const auto text = read_kv_path({kind, request.params.at(0), request.params.at(1)}, request.body);
  if (!text) return inbound.reply->send(kv_fault_response(text.error()));
  auto accepted = accept_kv(context, inbound.tenant, *text);
  if (!accepted) return inbound.reply->send(kv_fault_response(accepted.error()));
  auto echo = echo_of(accepted->command);
  answer_kv(context, std::move(inbound), *std::move(accepted),
            [echo = std::move(echo)](const machine::KvOutcome& outcome) {
              return kv_path_response(echo.at(0), outcome);
            });
}

}  // namespace

tl::expected<AcceptedKv, KvFault> accept_kv(const SharedContext& context, const std::string& tenant,
                                            const KvText& text) {
  const ApiSettings& settings = context->settings;
  const KvLimits limits{settings.kv_ops_max, settings.kv_keys_max, settings.kv_value_bytes_max, true};
  if (auto fault = check_kv_ceilings(text, limits)) return tl::unexpected(*std::move(fault));
  const KvAsk ask = kv_ask(text);
  auto pass = context->ladder.kv(tenant, ask.writes, ask.adds);
  if (!pass) return tl::unexpected(kv_denied(pass.error()));
  auto command = parse_kv(text, tenant, limits);
  if (!command) {
    pass->give_back();
    return tl::unexpected(std::move(command).error());
  }
  return AcceptedKv{*std::move(command), std::make_shared<Ladder::Charge>(*std::move(pass))};
}

void handle_kv(const SharedContext& context, Inbound inbound) {
  const auto text = read_kv_batch(inbound.request.body);
  if (!text) return inbound.reply->send(kv_fault_response(text.error()));
  auto accepted = accept_kv(context, inbound.tenant, *text);
  if (!accepted) return inbound.reply->send(kv_fault_response(accepted.error()));
  if (accepted->command.ops.empty()) return inbound.reply->send(json_response(200, R"({"results":[]})"));
  auto echo = echo_of(accepted->command);
  answer_kv(context, std::move(inbound), *std::move(accepted),
            [echo = std::move(echo)](const machine::KvOutcome& outcome) {
              return json_response(200, render_kv(echo, outcome));
            });
}

void handle_kv_get(const SharedContext& context, Inbound inbound) {
  handle_path(context, std::move(inbound), KvKind::get);
}

void handle_kv_put(const SharedContext& context, Inbound inbound) {
  handle_path(context, std::move(inbound), KvKind::put);
}

void handle_kv_delete(const SharedContext& context, Inbound inbound) {
  handle_path(context, std::move(inbound), KvKind::del);
}

}  // namespace queen::api
