// The console's view of the key/value store. Both routes see every write that was answered before them.
#include "api/detail/kv_console.h"

#include "api/detail/kv_fields.h"
#include "api/detail/names.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

// Waits until this node has applied what was answered, then runs `read(tenant)`, which gives the body of the
// answer, on a thread for long reads.
template <class Read>
void answer_read(const SharedContext& context, Inbound inbound, Read read) {
  if (const auto denied = context->ladder.kv_console(inbound.tenant))
    return inbound.reply->send(kv_fault_response(kv_denied(*denied)));
  auto pending = std::make_shared<Pending>(context->deadlines, std::move(inbound.reply));
  pending->set_deadline(context->deadline_us(context->settings.default_timeout_ms), [pending] {
    pending->answer(kv_refusal_response({"timeout", "the deadline passed"}));
  });
  context->broker.barrier([context, pending, tenant = std::move(inbound.tenant),
                           read = std::move(read)](broker::Answer<void> reached) mutable {
    if (!reached) {
      pending->answer(kv_refusal_response(reached.error()));
      return;
    }
    context->broker.look([pending, tenant = std::move(tenant), read = std::move(read)] {
      pending->answer(json_response(200, read(tenant)));
    });
  });
}

std::optional<KvFault> read_text(const JsonFields& fields, std::string_view name, std::string& out) {
  auto text = kv_scalar_of(fields.find(name));
  if (text.wrong_type) return kv_bad_request("kv_bad_request", std::string(name) + " must be a string");
  out = std::move(text.text).value_or("");
  return std::nullopt;
}

void write_instant(JsonWriter& out, const std::optional<std::int64_t>& us) {
  if (us) {
    out.instant(*us);
  } else {
    out.null();
  }
}

}  // namespace

tl::expected<broker::KvListQuery, KvFault> parse_kv_list(std::string_view body) {
  const auto value = body_value(body);
  const auto fields = value ? JsonFields::of(*value) : std::nullopt;
  if (!fields) return tl::unexpected(kv_bad_request("kv_bad_body", "the body must be an object"));
  if (auto fault = kv_tenant_fault(*fields)) return tl::unexpected(*std::move(fault));
  broker::KvListQuery out;
  if (auto fault = read_text(*fields, "namespace", out.ns)) return tl::unexpected(*std::move(fault));
  if (!is_kv_namespace(out.ns))
    return tl::unexpected(
        kv_bad_request("kv_bad_namespace", "namespace must match ^[a-z0-9][a-z0-9._-]{0,63}$"));
  bool keys_only = false;
  for (auto fault : {read_text(*fields, "prefix", out.prefix), read_text(*fields, "after", out.after),
                     read_kv_limit(*fields, out.limit), read_kv_flag(*fields, "keysOnly", keys_only),
                     read_kv_flag(*fields, "includeExpired", out.include_expired)})
    if (fault) return tl::unexpected(*std::move(fault));
  out.values = !keys_only;
  return out;
}

std::string render_kv_list(const broker::KvListQuery& query, const broker::KvListPage& page) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("rows").open('[');
  for (const broker::KvListed& listed : page.rows) {
    out.open('{').name("key").text(listed.key);
    if (query.values) out.name("value").raw(listed.row.value);
    out.name("version").number(listed.row.version).name("expiresAt");
    write_instant(out, listed.row.expires_at);
    out.name("updatedAt").instant(listed.row.updated);
    if (query.include_expired) out.name("expired").boolean(listed.expired);
    out.close('}');
  }
  out.close(']').name("truncated").boolean(page.truncated).name("nextAfter");
  if (page.truncated) {
    out.text(page.rows.back().key);
  } else {
    out.null();
  }
  out.name("bytes").number(page.bytes).close('}');
  return text;
}

void handle_kv_namespaces(const SharedContext& context, Inbound inbound) {
  if (const auto fault = kv_query_fault(inbound.request))
    return inbound.reply->send(kv_fault_response(*fault));
  answer_read(context, std::move(inbound), [&broker = context->broker](const std::string& tenant) {
    std::string text;
    JsonWriter out(text);
    out.open('{').name("namespaces").open('[');
    for (const broker::KvNamespace& found : broker::KvReads(broker.state()).namespaces(tenant))
      out.open('{').name("namespace").text(found.name).name("keys").number(found.keys).close('}');
    out.close(']').close('}');
    return text;
  });
}

void handle_kv_list(const SharedContext& context, Inbound inbound) {
  if (const auto fault = kv_query_fault(inbound.request))
    return inbound.reply->send(kv_fault_response(*fault));
  auto query = parse_kv_list(inbound.request.body);
  if (!query) return inbound.reply->send(kv_fault_response(query.error()));
  answer_read(context, std::move(inbound), [context, query = *std::move(query)](const std::string& tenant) {
    const broker::KvReads reads(context->broker.state());
    return render_kv_list(query, reads.list(tenant, query, context->clock.wall_us()));
  });
}

}  // namespace queen::api
