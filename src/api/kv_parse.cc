// KV: the body to a command. Order of refusals: the body's shape, the number of operations, the number of
// keys, the sizes of values, then operation by operation the rows of the contract's validation table.
#include <algorithm>
#include <array>
#include <set>

#include "api/detail/json_check.h"
#include "api/detail/kv.h"
#include "api/detail/names.h"
#include "store/keys.h"

namespace queen::api {
namespace {

using machine::KvKind;
using machine::KvOp;
using Fault = std::optional<KvFault>;

constexpr std::size_t kKvKeyBytesMax = 512;
constexpr std::size_t kNamespaceBytesMax = 64;
constexpr std::int64_t kPageDefault = 100;
constexpr std::int64_t kPageMax = 1000;
// About 3,000 years: an expiry that still fits a timestamp of four-digit years.
constexpr std::int64_t kTtlSecondsMax = 100'000'000'000;

struct OpName {
  std::string_view name;
  KvKind kind;
};
constexpr std::array kOps = {
    OpName{"get", KvKind::get},
    OpName{"getMany", KvKind::get_many},
    OpName{"getPrefix", KvKind::get_prefix},
    OpName{"put", KvKind::put},
    OpName{"putIfAbsent", KvKind::put_if_absent},
    OpName{"delete", KvKind::del},
};

KvFault bad(std::string_view reason, std::string detail) {
  return {400, "kv_bad_request", std::string(reason), std::move(detail)};
}
KvFault too_large(std::string_view reason, std::string detail) {
  return {413, "payload_too_large", std::string(reason), std::move(detail)};
}

std::optional<KvKind> kind_of(const JsonFields& fields) {
  const JsonValue* op = fields.find("op");
  const auto name = op != nullptr ? string_of(*op) : std::nullopt;
  for (const OpName& known : kOps)
    if (name == known.name) return known.kind;
  return std::nullopt;
}

bool is_write(KvKind kind) {
  return kind == KvKind::put || kind == KvKind::put_if_absent || kind == KvKind::del;
}
bool stores(KvKind kind) {
  return kind == KvKind::put || kind == KvKind::put_if_absent;
}

bool is_namespace(std::string_view name) {
  const auto inner = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  if (name.empty() || name.size() > kNamespaceBytesMax) return false;
  const bool head = inner(name[0]) && name[0] != '.' && name[0] != '_' && name[0] != '-';
  return head && std::all_of(name.begin(), name.end(), inner);
}

// A name given as a string, or as another scalar whose JSON text it is.
struct Scalar {
  bool wrong_type = false;          // an array or an object, or a string without a UTF-8 form
  std::optional<std::string> text;  // nothing when absent or null
};
Scalar scalar_of(const JsonValue* value) {
  if (value == nullptr || value->is_null()) return {};
  if (value->kind == JsonKind::array || value->kind == JsonKind::object) return {true, std::nullopt};
  if (value->kind != JsonKind::string) return {false, std::string(value->text)};
  auto text = string_of(*value);
  return {!text.has_value(), std::move(text)};
}

// Keys that one operation may look at.
std::uint64_t keys_of(const JsonValue& element) {
  const auto fields = JsonFields::of(element);
  const auto kind = fields ? kind_of(*fields) : std::nullopt;
  if (kind == KvKind::get_many) {
    const JsonValue* keys = fields->find("keys");
    const auto list = keys != nullptr ? elements_of(*keys) : std::nullopt;
    return list ? list->size() : 0;
  }
  if (kind != KvKind::get_prefix) return 1;
  const JsonValue* limit = fields->find_set("limit");
  const auto count = limit != nullptr ? integral_of(*limit) : std::nullopt;
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(count.value_or(kPageDefault), 1, kPageMax));
}

Fault check_ceilings(const std::vector<JsonValue>& elements, const KvLimits& limits) {
  if (elements.size() > limits.ops_max)
    return bad("kv_too_many_ops", fmt::format("at most {} operations per call", limits.ops_max));
  std::uint64_t keys = 0;
  for (const JsonValue& element : elements) keys += keys_of(element);
  if (keys > limits.keys_max)
    return bad("kv_too_many_keys", fmt::format("at most {} keys per call", limits.keys_max));
  for (const JsonValue& element : elements) {
    const auto fields = JsonFields::of(element);
    const JsonValue* value = fields ? fields->find("value") : nullptr;
    if (value == nullptr || !stores(kind_of(*fields).value_or(KvKind::get))) continue;
    if (compact_bytes(value->text) > static_cast<std::uint64_t>(limits.value_bytes_max))
      return too_large("kv_value_too_large",
                       fmt::format("a value may have {} bytes", limits.value_bytes_max));
  }
  return std::nullopt;
}

// Reads one operation, table row by table row.
class OpReader {
 public:
  OpReader(const JsonFields& fields, std::string_view tenant) : fields_(fields), tenant_(tenant) {}

  tl::expected<KvOp, KvFault> run() {
    const auto kind = kind_of(fields_);
    if (!kind) return tl::unexpected(bad("kv_unknown_op", "op is missing or unknown"));
    op_.kind = *kind;
    using Step = Fault (OpReader::*)();
    for (const Step step :
         {&OpReader::check_tenant, &OpReader::read_namespace, &OpReader::read_keys, &OpReader::read_expiry,
          &OpReader::read_value, &OpReader::read_expect, &OpReader::read_required, &OpReader::read_page}) {
      if (auto fault = (this->*step)()) return tl::unexpected(*std::move(fault));
    }
    return std::move(op_);
  }

 private:
  Fault check_tenant() {
    for (const std::string_view name : {"tenant", "tenantId", "_tenant"})
      if (fields_.find(name) != nullptr)
        return bad("kv_tenant_not_an_input", "the tenant comes from the request, not from an operation");
    return std::nullopt;
  }

  Fault read_namespace() {
    auto name = scalar_of(fields_.find("ns"));
    if (name.wrong_type) return bad("kv_bad_request", "ns must be a string");
    if (!name.text || !is_namespace(*name.text))
      return bad("kv_bad_namespace", "ns must match ^[a-z0-9][a-z0-9._-]{0,63}$");
    op_.ns = *std::move(name.text);
    return std::nullopt;
  }

  Fault read_keys() {
    if (op_.kind == KvKind::get_many) return read_key_list();
    if (op_.kind == KvKind::get_prefix) return read_prefix();
    return read_key(fields_.find("key"), op_.key);
  }

  Fault read_key(const JsonValue* value, std::string& out) {
    auto key = scalar_of(value);
    if (key.wrong_type) return bad("kv_bad_request", "a key must be a string");
    if (!key.text || key.text->empty() || key.text->find('\0') != std::string::npos)
      return bad("kv_bad_key", "a key must not be empty, missing or contain NUL");
    if (!key_fits(*key.text))
      return too_large("kv_key_too_large", "a key may have 512 bytes, and 511 with tenant and namespace");
    out = *std::move(key.text);
    return std::nullopt;
  }

  bool key_fits(std::string_view key) const {
    return key.size() <= kKvKeyBytesMax && store::kv_key(tenant_, op_.ns, key).size() <= store::kKeyBytesMax;
  }

  Fault read_key_list() {
    const JsonValue* keys = fields_.find("keys");
    if (keys == nullptr) return std::nullopt;
    const auto elements = elements_of(*keys);
    if (!elements) return bad("kv_bad_request", "keys must be an array");
    for (const JsonValue& element : *elements)
      if (auto fault = read_key(&element, op_.keys.emplace_back())) return fault;
    return std::nullopt;
  }

  Fault read_prefix() {
    auto prefix = scalar_of(fields_.find("prefix"));
    if (prefix.wrong_type) return bad("kv_bad_request", "prefix must be a string");
    if (!prefix.text || prefix.text->empty())
      return bad("kv_prefix_required", "getPrefix needs a prefix that is not empty");
    auto after = scalar_of(fields_.find("after"));
    if (after.wrong_type) return bad("kv_bad_request", "after must be a string");
    op_.prefix = *std::move(prefix.text);
    op_.after = std::move(after.text).value_or("");
    return std::nullopt;
  }

  // Exactly one of `ttlSeconds` and `forever:true`: an expiry is never a silent default.
  Fault read_expiry() {
    if (!stores(op_.kind)) return std::nullopt;
    const JsonValue* forever = fields_.find_set("forever");
    if (forever != nullptr && forever->kind != JsonKind::boolean)
      return bad("kv_bad_request", "forever must be true or false");
    const JsonValue* ttl = fields_.find("ttlSeconds");
    const bool lasts = forever != nullptr && forever->is_true();
    if (lasts == (ttl != nullptr))
      return bad("kv_expiry_not_specified", "exactly one of ttlSeconds and forever:true is needed");
    if (lasts) return std::nullopt;
    op_.ttl_seconds = integral_of(*ttl);
    if (op_.ttl_seconds.value_or(0) <= 0 || *op_.ttl_seconds > kTtlSecondsMax)
      return bad("kv_bad_ttl", fmt::format("ttlSeconds must be an integer within 1..{}", kTtlSecondsMax));
    return std::nullopt;
  }

  Fault read_value() {
    if (!stores(op_.kind)) return std::nullopt;
    const JsonValue* value = fields_.find("value");
    if (value == nullptr) return bad("kv_bad_request", "value is missing");
    op_.value = std::string(value->text);
    return std::nullopt;
  }

  Fault read_expect() {
    const JsonValue* value = fields_.find("expect");
    if (value == nullptr || !is_write(op_.kind)) return std::nullopt;
    const auto expect = integral_of(*value);
    if (!expect || *expect < 0) return bad("kv_bad_expect", "expect must be an integer, at least 0");
    if (op_.kind == KvKind::put_if_absent && *expect != 0)
      return bad("kv_bad_expect", "putIfAbsent expects version 0");
    op_.expect = static_cast<std::uint64_t>(*expect);
    return std::nullopt;
  }

  Fault read_required() {
    const JsonValue* value = fields_.find("required");
    if (value == nullptr) return std::nullopt;
    if (value->kind != JsonKind::boolean) return bad("kv_bad_request", "required must be true or false");
    op_.required = value->is_true() && is_write(op_.kind);
    return std::nullopt;
  }

  Fault read_page() {
    if (op_.kind != KvKind::get_prefix) return std::nullopt;
    if (const JsonValue* value = fields_.find_set("limit")) {
      const auto limit = integral_of(*value);
      if (!limit) return bad("kv_bad_request", "limit must be an integer");
      op_.limit = static_cast<std::uint32_t>(std::clamp<std::int64_t>(*limit, 1, kPageMax));
    }
    if (const JsonValue* value = fields_.find_set("keysOnly")) {
      if (value->kind != JsonKind::boolean) return bad("kv_bad_request", "keysOnly must be true or false");
      op_.keys_only = value->is_true();
    }
    return std::nullopt;
  }

  const JsonFields& fields_;
  std::string_view tenant_;
  KvOp op_;
};

// The operations: the body itself when it is an array, else its `operations`.
std::optional<std::vector<JsonValue>> operations_of(std::string_view body) {
  const auto value = body_value(body);
  if (!value) return std::nullopt;
  if (value->kind == JsonKind::array) return elements_of(*value);
  const auto top = JsonFields::of(*value);
  const JsonValue* list = top ? top->find("operations") : nullptr;
  return list != nullptr ? elements_of(*list) : std::nullopt;
}

}  // namespace

KvAsk kv_ask(const std::vector<JsonValue>& elements) {
  KvAsk out;
  for (const JsonValue& element : elements) {
    const auto fields = JsonFields::of(element);
    const JsonValue* op = fields ? fields->find("op") : nullptr;
    const auto name = op != nullptr ? string_of(*op) : std::nullopt;
    const bool adds = name == "put" || name == "putIfAbsent" || name == "incr";
    out.writes = out.writes || adds || name == "delete" || name == "check";
    if (!adds) continue;
    ++out.adds.rows;
    const JsonValue* value = fields->find("value");
    if (value != nullptr) out.adds.bytes += static_cast<std::int64_t>(compact_bytes(value->text));
  }
  return out;
}

tl::expected<machine::KvCommand, KvFault> parse_kv_ops(const std::vector<JsonValue>& elements,
                                                       std::string_view tenant, const KvLimits& limits,
                                                       const KvGate& gate) {
  if (auto fault = check_ceilings(elements, limits)) return tl::unexpected(*std::move(fault));
  if (gate)
    if (auto fault = gate(kv_ask(elements))) return tl::unexpected(*std::move(fault));
  machine::KvCommand out;
  std::set<std::pair<std::string, std::string>> written;
  for (const JsonValue& element : elements) {
    const auto fields = JsonFields::of(element);
    if (!fields) return tl::unexpected(bad("kv_bad_request", "an operation must be an object"));
    if (!limits.prefixes && kind_of(*fields) == KvKind::get_prefix)
      return tl::unexpected(
          bad("kv_get_prefix_not_allowed_in_transaction", "getPrefix is not allowed in a transaction"));
    auto op = OpReader(*fields, tenant).run();
    if (!op) return tl::unexpected(std::move(op).error());
    if (is_write(op->kind) && !written.emplace(op->ns, op->key).second)
      return tl::unexpected(bad("kv_duplicate_key_in_call", "a key may be written once per call"));
    out.ops.push_back(*std::move(op));
  }
  return out;
}

tl::expected<machine::KvCommand, KvFault> parse_kv(std::string_view body, std::string_view tenant,
                                                   const ApiSettings& settings, const KvGate& gate) {
  const auto elements = operations_of(body);
  if (!elements)
    return tl::unexpected(bad("kv_bad_body", R"(the body must be an array, or {"operations":[...]})"));
  return parse_kv_ops(*elements, tenant,
                      {settings.kv_ops_max, settings.kv_keys_max, settings.kv_value_bytes_max, true}, gate);
}

}  // namespace queen::api
