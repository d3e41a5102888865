// POST /api/v1/traces: body to event.
#include <unordered_set>

#include "api/detail/json_check.h"
#include "api/detail/names.h"
#include "api/detail/traces.h"
#include "store/keys.h"

namespace queen::api {
namespace {

// The fields of a trace body. After the first fault every read gives nothing.
class TraceBody {
 public:
  explicit TraceBody(JsonFields fields) : fields_(std::move(fields)) {}

  // `alias`: the other name of the field, which counts where the first is absent; may be empty.
  const JsonValue* find(std::string_view name, std::string_view alias) const {
    const JsonValue* value = fields_.find_set(name);
    return value != nullptr || alias.empty() ? value : fields_.find_set(alias);
  }
  std::optional<std::string> text(std::string_view name, std::string_view alias = {}) {
    const JsonValue* value = find(name, alias);
    if (value == nullptr || refusal_) return std::nullopt;
    auto text = string_of(*value);
    if (!text) refuse(bad_body(std::string(name) + " must be a string"));
    return text;
  }
  std::vector<std::string> names() {
    const JsonValue* value = find("traceNames", "names");
    std::vector<std::string> out;
    if (value == nullptr || refusal_) return out;
    const auto elements = elements_of(*value);
    if (!elements) {
      refuse(bad_body("traceNames must be an array of strings"));
      return out;
    }
    std::unordered_set<std::string> seen;
    for (const JsonValue& element : *elements) {
      auto name = string_of(element);
      if (!name)
        refuse(bad_body("traceNames must be an array of strings"));
      else if (name->empty())
        refuse(bad_request("a trace name must not be empty"));
      else if (seen.insert(*name).second)
        out.push_back(*std::move(name));
    }
    if (out.size() > kTraceNamesMax) refuse(bad_request("traceNames has more than 256 names"));
    return out;
  }
  void refuse(broker::Refusal refusal) {
    if (!refusal_) refusal_ = std::move(refusal);
  }
  const std::optional<broker::Refusal>& refusal() const { return refusal_; }

 private:
  JsonFields fields_;
  std::optional<broker::Refusal> refusal_;
};

bool fits(const Bytes& key) {
  return key.size() <= store::kKeyBytesMax;
}

// Every key that the event will have.
void check_keys(TraceBody& body, const TraceRequest& request, std::string_view tenant) {
  const auto pid = request.partition ? std::optional(Pid{}) : std::nullopt;
  if (!fits(store::trace_key(tenant, pid, request.transaction_id, 0)))
    body.refuse({"name_too_long", "transactionId makes a key longer than 511 bytes"});
  for (const std::string& name : request.row.names)
    if (!fits(store::trace_name_key(tenant, name, 0, Uuid{})))
      body.refuse({"name_too_long", "a trace name makes a key longer than 511 bytes"});
}

}  // namespace

broker::Answer<TraceRequest> parse_trace(std::string_view text, std::string_view tenant) {
  const auto value = body_value(text);
  if (!value) return tl::unexpected(value.error());
  auto fields = JsonFields::of(*value);
  if (!fields) return tl::unexpected(bad_body("the body must be an object"));
  TraceBody body(*std::move(fields));
  TraceRequest out;
  const JsonValue* transaction = body.find("transactionId", "transaction_id");
  out.transaction_id = (transaction != nullptr ? string_of(*transaction) : std::nullopt).value_or("");
  if (out.transaction_id.empty()) body.refuse(bad_request("transactionId is required"));
  out.partition = body.text("partitionId", "partition_id");
  out.row.names = body.names();
  out.row.event_type = body.text("eventType", "type").value_or("event");
  if (out.row.event_type.empty()) body.refuse(bad_request("eventType must not be empty"));
  out.row.group = body.text("consumerGroup");
  out.row.worker = body.text("worker");
  out.row.message_id = body.text("messageId");
  if (const auto id = body.text("traceId")) {
    out.trace_id = Uuid::parse(*id);
    if (!out.trace_id) body.refuse(bad_request("traceId must be a UUID"));
  }
  const JsonValue* data = body.find("data", {});
  out.row.data = data != nullptr ? data->text : "null";
  check_keys(body, out, tenant);
  if (body.refusal()) return tl::unexpected(*body.refusal());
  return out;
}

}  // namespace queen::api
