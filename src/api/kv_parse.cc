// KV: the body to a command. Order of refusals: the body's shape, the number of operations, the number of
// keys, the sizes of values, then operation by operation the rows of the contract's validation table.
#include <algorithm>
#include <array>
#include <set>

#include "api/detail/json_check.h"
#include "api/detail/kv.h"
#include "api/detail/kv_fields.h"
#include "api/detail/names.h"
#include "machine/decimal.h"
#include "store/keys.h"

namespace queen::api {
namespace {

using machine::KvKind;
using machine::KvOp;
using Fault = std::optional<KvFault>;

constexpr std::size_t kKvKeyBytesMax = 512;

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
    OpName{"incr", KvKind::incr},
    OpName{"check", KvKind::check},
};

constexpr auto bad = kv_bad_request;
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

// What has a precondition, and so may be required.
bool is_write(KvKind kind) {
  return kind != KvKind::get && kind != KvKind::get_many && kind != KvKind::get_prefix;
}
bool has_value(KvKind kind) {
  return kind == KvKind::put || kind == KvKind::put_if_absent;
}
bool has_expiry(KvKind kind) {
  return has_value(kind) || kind == KvKind::incr;
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
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(count.value_or(kKvPageDefault), 1, kKvPageMax));
}

Fault check_value(const JsonValue& value, const KvLimits& limits) {
  if (compact_bytes(value.text) <= static_cast<std::uint64_t>(limits.value_bytes_max)) return std::nullopt;
  return too_large("kv_value_too_large", fmt::format("a value may have {} bytes", limits.value_bytes_max));
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
    if (value == nullptr || !has_value(kind_of(*fields).value_or(KvKind::get))) continue;
    if (auto fault = check_value(*value, limits)) return fault;
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
    return run({&OpReader::check_tenant, &OpReader::read_namespace, &OpReader::read_keys,
                &OpReader::read_expiry, &OpReader::read_value, &OpReader::read_expect, &OpReader::read_delta,
                &OpReader::read_required, &OpReader::read_page});
  }

  // The operation of a path: its body has neither kind nor name.
  tl::expected<KvOp, KvFault> run(const KvPath& path) {
    op_.kind = path.kind;
    ns_ = path.ns;
    key_ = path.key;
    return run({&OpReader::check_tenant, &OpReader::check_namespace, &OpReader::check_key,
                &OpReader::read_expiry, &OpReader::read_value, &OpReader::read_expect,
                &OpReader::read_required});
  }

 private:
  using Step = Fault (OpReader::*)();
  tl::expected<KvOp, KvFault> run(std::initializer_list<Step> steps) {
    for (const Step step : steps)
      if (auto fault = (this->*step)()) return tl::unexpected(*std::move(fault));
    return std::move(op_);
  }

  Fault check_tenant() { return kv_tenant_fault(fields_); }

  Fault read_namespace() {
    auto name = kv_scalar_of(fields_.find("ns"));
    if (name.wrong_type) return bad("kv_bad_request", "ns must be a string");
    ns_ = std::move(name.text).value_or("");
    return check_namespace();
  }
  Fault check_namespace() {
    if (!is_kv_namespace(ns_)) return bad("kv_bad_namespace", "ns must match ^[a-z0-9][a-z0-9._-]{0,63}$");
    op_.ns = std::move(ns_);
    return std::nullopt;
  }

  Fault read_keys() {
    if (op_.kind == KvKind::get_many) return read_key_list();
    if (op_.kind == KvKind::get_prefix) return read_prefix();
    return read_key(fields_.find("key"), op_.key);
  }

  Fault read_key(const JsonValue* value, std::string& out) {
    auto key = kv_scalar_of(value);
    if (key.wrong_type) return bad("kv_bad_request", "a key must be a string");
    key_ = std::move(key.text).value_or("");
    return check_key(out);
  }
  Fault check_key() { return check_key(op_.key); }
  Fault check_key(std::string& out) {
    if (key_.empty() || key_.find('\0') != std::string::npos || !is_utf8_fast(key_))
      return bad("kv_bad_key", "a key must be UTF-8, and not be empty, missing or contain NUL");
    if (!key_fits(key_))
      return too_large("kv_key_too_large", "a key may have 512 bytes, and 511 with tenant and namespace");
    out = std::move(key_);
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
    auto prefix = kv_scalar_of(fields_.find("prefix"));
    if (prefix.wrong_type) return bad("kv_bad_request", "prefix must be a string");
    if (!prefix.text || prefix.text->empty())
      return bad("kv_prefix_required", "getPrefix needs a prefix that is not empty");
    auto after = kv_scalar_of(fields_.find("after"));
    if (after.wrong_type) return bad("kv_bad_request", "after must be a string");
    op_.prefix = *std::move(prefix.text);
    op_.after = std::move(after.text).value_or("");
    return std::nullopt;
  }

  // Exactly one of `ttlSeconds` and `forever:true`: an expiry is never a silent default.
  Fault read_expiry() {
    if (!has_expiry(op_.kind)) return std::nullopt;
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
    if (!has_value(op_.kind)) return std::nullopt;
    const JsonValue* value = fields_.find("value");
    if (value == nullptr) return bad("kv_bad_request", "value is missing");
    op_.value = std::string(value->text);
    return std::nullopt;
  }

  Fault read_expect() {
    if (!is_write(op_.kind)) return std::nullopt;
    const JsonValue* value = fields_.find("expect");
    if (value != nullptr && op_.kind == KvKind::incr)
      return bad("kv_bad_request", "incr has no expect: it applies to what is there");
    if (value == nullptr && op_.kind == KvKind::check) return bad("kv_bad_expect", "check needs expect");
    if (value == nullptr) return std::nullopt;
    const auto expect = integral_of(*value);
    if (!expect || *expect < 0) return bad("kv_bad_expect", "expect must be an integer, at least 0");
    if (op_.kind == KvKind::put_if_absent && *expect != 0)
      return bad("kv_bad_expect", "putIfAbsent expects version 0");
    op_.expect = static_cast<std::uint64_t>(*expect);
    return std::nullopt;
  }

  Fault read_delta() {
    if (op_.kind != KvKind::incr) return std::nullopt;
    if (fields_.find("delta") == nullptr) return bad("kv_bad_request", "incr needs a delta");
    for (const auto& [name, to] : {std::pair("delta", &op_.delta), {"min", &op_.min}, {"max", &op_.max}}) {
      const JsonValue* value = fields_.find(name);
      if (value == nullptr) continue;
      if (!machine::Decimal::parse(value->text))
        return bad("kv_bad_request", std::string(name) + " must be a number that a double can hold");
      *to = std::string(value->text);
    }
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
    if (auto fault = read_kv_limit(fields_, op_.limit)) return fault;
    return read_kv_flag(fields_, "keysOnly", op_.keys_only);
  }

  const JsonFields& fields_;
  std::string_view tenant_;
  std::string ns_, key_;  // while they are judged
  KvOp op_;
};

// Nothing of what the path says may be said again.
Fault check_path_fields(const JsonFields& fields) {
  for (const std::string_view name : {"op", "ns", "namespace", "key"})
    if (fields.find(name) != nullptr)
      return bad("kv_field_in_path", std::string(name) + " is given by the path and the method");
  return std::nullopt;
}

tl::expected<machine::KvCommand, KvFault> read_ops(const std::vector<JsonValue>& elements,
                                                   std::string_view tenant, const KvLimits& limits) {
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
      return tl::unexpected(bad("kv_duplicate_key_in_call", "a key may be written or checked once per call"));
    out.ops.push_back(*std::move(op));
  }
  return out;
}

void weigh(const JsonFields& fields, std::optional<KvKind> kind, KvAsk& ask) {
  const bool adds = kind == KvKind::put || kind == KvKind::put_if_absent || kind == KvKind::incr;
  ask.writes = ask.writes || adds || kind == KvKind::del || kind == KvKind::check;
  if (!adds) return;
  ++ask.adds.rows;
  const JsonValue* value = fields.find("value");
  if (value != nullptr) ask.adds.bytes += static_cast<std::int64_t>(compact_bytes(value->text));
}

}  // namespace

KvAsk kv_ask(const std::vector<JsonValue>& operations) {
  KvAsk out;
  for (const JsonValue& operation : operations)
    if (const auto fields = JsonFields::of(operation)) weigh(*fields, kind_of(*fields), out);
  return out;
}

KvAsk kv_ask(const KvText& text) {
  if (!text.path) return kv_ask(text.operations);
  KvAsk out;
  if (const auto fields = JsonFields::of(text.operations.at(0))) weigh(*fields, text.path->kind, out);
  return out;
}

tl::expected<KvText, KvFault> read_kv_batch(std::string_view body) {
  auto operations = operations_of(body);
  if (!operations)
    return tl::unexpected(bad("kv_bad_body", R"(the body must be an array, or {"operations":[...]})"));
  return KvText{*std::move(operations), std::nullopt};
}

tl::expected<KvText, KvFault> read_kv_path(KvPath path, std::string_view body) {
  constexpr JsonValue kNothing{JsonKind::object, false, "{}"};
  const bool may_be_empty = path.kind != KvKind::put;
  const bool empty = body.find_first_not_of(" \t\r\n") == std::string_view::npos;
  if (path.kind == KvKind::get || (may_be_empty && empty)) return KvText{{kNothing}, std::move(path)};
  auto value = body_value(body);
  if (value && value->is_null() && may_be_empty) *value = kNothing;
  const auto fields = value ? JsonFields::of(*value) : std::nullopt;
  if (!fields) return tl::unexpected(bad("kv_bad_body", "the body must be an object"));
  if (auto fault = check_path_fields(*fields)) return tl::unexpected(*std::move(fault));
  return KvText{{*value}, std::move(path)};
}

Fault check_kv_ceilings(const KvText& text, const KvLimits& limits) {
  if (!text.path) return check_ceilings(text.operations, limits);
  const auto fields = JsonFields::of(text.operations.at(0));
  const JsonValue* value = fields ? fields->find("value") : nullptr;
  return value != nullptr && has_value(text.path->kind) ? check_value(*value, limits) : std::nullopt;
}

tl::expected<machine::KvCommand, KvFault> parse_kv(const KvText& text, std::string_view tenant,
                                                   const KvLimits& limits) {
  if (!text.path) return read_ops(text.operations, tenant, limits);
  auto op = OpReader(*JsonFields::of(text.operations.at(0)), tenant).run(*text.path);
  if (!op) return tl::unexpected(std::move(op).error());
  machine::KvCommand out;
  out.ops.push_back(*std::move(op));
  return out;
}

tl::expected<machine::KvCommand, KvFault> parse_kv_ops(const std::vector<JsonValue>& elements,
                                                       std::string_view tenant, const KvLimits& limits) {
  if (auto fault = check_ceilings(elements, limits)) return tl::unexpected(*std::move(fault));
  return read_ops(elements, tenant, limits);
}

}  // namespace queen::api
