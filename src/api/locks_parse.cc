// Locks: the body to operations, by the contract's validation table (api-state.md 2.3).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "api/detail/json_check.h"
#include "api/detail/kv_fields.h"
#include "api/detail/locks.h"

namespace queen::api {
namespace {

using Fault = std::optional<KvFault>;

constexpr std::size_t kOpsMax = 64;
constexpr std::uint64_t kRowsMax = 4096;  // slots that one call may look at
constexpr std::uint64_t kGetRows = 1000;
constexpr std::size_t kNameBytesMax = 256;
constexpr std::int64_t kSlotsMax = 1024;

struct OpName {
  std::string_view name;
  LockKind kind;
};
constexpr std::array kOps = {OpName{"acquire", LockKind::acquire}, OpName{"renew", LockKind::renew},
                             OpName{"release", LockKind::release}, OpName{"get", LockKind::get}};

KvFault bad(std::string_view reason, std::string detail) {
  return {400, "locks_bad_request", std::string(reason), std::move(detail)};
}

// C0, DEL and, as UTF-8 writes them, C1.
bool has_control(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) return true;
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) return true;
  }
  return false;
}

bool is_label(const std::optional<std::string>& text) {
  return text && !text->empty() && text->size() <= kNameBytesMax && !has_control(*text);
}

// Reads one operation, table row by table row.
class OpReader {
 public:
  explicit OpReader(const JsonFields& fields) : fields_(fields) {}

  tl::expected<LockOp, KvFault> run() {
    using Step = Fault (OpReader::*)();
    for (const Step step :
         {&OpReader::read_op, &OpReader::check_tenant, &OpReader::read_name, &OpReader::read_ttl,
          &OpReader::read_owner, &OpReader::read_token, &OpReader::read_slot, &OpReader::read_limit})
      if (auto fault = (this->*step)()) return tl::unexpected(*std::move(fault));
    return std::move(op_);
  }

 private:
  Fault read_op() {
    const JsonValue* value = fields_.find("op");
    const auto name = value != nullptr ? string_of(*value) : std::nullopt;
    for (const OpName& known : kOps) {
      if (name != known.name) continue;
      op_.kind = known.kind;
      return std::nullopt;
    }
    return bad("locks_unknown_op", "op must be acquire, renew, release or get");
  }

  Fault check_tenant() {
    if (!kv_tenant_fault(fields_)) return std::nullopt;
    return bad("locks_tenant_not_an_input", "the tenant comes from the request, not from an operation");
  }

  Fault read_name() {
    const JsonValue* value = fields_.find("name");
    auto name = value != nullptr ? string_of(*value) : std::nullopt;
    if (!is_label(name) || name->find('#') != std::string::npos)
      return bad("locks_bad_name", "name must be 1 to 256 bytes without control characters and #");
    op_.name = *std::move(name);
    return std::nullopt;
  }

  Fault read_ttl() {
    if (op_.kind != LockKind::acquire && op_.kind != LockKind::renew) return std::nullopt;
    const JsonValue* ttl = fields_.find("ttlSeconds");
    if (ttl == nullptr || fields_.find("forever") != nullptr)
      return bad("locks_ttl_required", "ttlSeconds is needed: nothing is locked forever");
    op_.ttl_seconds = integral_of(*ttl).value_or(0);
    if (op_.ttl_seconds > 0 && op_.ttl_seconds <= kTtlSecondsMax) return std::nullopt;
    return bad("locks_bad_ttl", fmt::format("ttlSeconds must be an integer within 1..{}", kTtlSecondsMax));
  }

  Fault read_owner() {
    const JsonValue* value = fields_.find_set("owner");
    if (value == nullptr || (op_.kind != LockKind::acquire && op_.kind != LockKind::renew))
      return std::nullopt;
    op_.owner = string_of(*value);
    if (is_label(op_.owner)) return std::nullopt;
    return bad("locks_bad_owner", "owner must be 1 to 256 bytes without control characters");
  }

  bool has_token() const { return op_.kind == LockKind::renew || op_.kind == LockKind::release; }

  Fault read_token() {
    if (!has_token()) return std::nullopt;
    const JsonValue* value = fields_.find("token");
    if (value == nullptr) return bad("locks_token_required", "the permit's token is needed");
    const std::int64_t token = integral_of(*value).value_or(0);
    if (token <= 0) return bad("locks_bad_token", "token must be an integer above 0");
    op_.token = static_cast<std::uint64_t>(token);
    return std::nullopt;
  }

  Fault read_slot() {
    const JsonValue* value = fields_.find("slot");
    if (value == nullptr || !has_token()) return std::nullopt;
    const std::int64_t slot = integral_of(*value).value_or(-1);
    if (slot < 0 || slot >= kSlotsMax) return bad("locks_bad_slot", "slot must be an integer within 0..1023");
    op_.slot = static_cast<std::uint32_t>(slot);
    return std::nullopt;
  }

  Fault read_limit() {
    const JsonValue* value = fields_.find("limit");
    if (value == nullptr || op_.kind != LockKind::acquire) return std::nullopt;
    const std::int64_t limit = integral_of(*value).value_or(0);
    if (limit < 1 || limit > kSlotsMax)
      return bad("locks_bad_limit", "limit must be an integer within 1..1024");
    op_.limit = static_cast<std::uint32_t>(limit);
    return std::nullopt;
  }

  const JsonFields& fields_;
  LockOp op_;
};

std::uint64_t rows_of(const LockOp& op) {
  if (op.kind == LockKind::get) return kGetRows;
  return op.kind == LockKind::acquire ? op.limit : 1;
}

}  // namespace

tl::expected<std::vector<LockOp>, KvFault> parse_locks(std::string_view body) {
  const auto elements = operations_of(body);
  if (!elements)
    return tl::unexpected(bad("locks_bad_body", R"(the body must be an array, or {"operations":[...]})"));
  if (elements->size() > kOpsMax)
    return tl::unexpected(bad("locks_too_many_ops", fmt::format("at most {} operations per call", kOpsMax)));
  std::vector<LockOp> out;
  std::set<std::string> names;
  std::uint64_t rows = 0;
  for (const JsonValue& element : *elements) {
    const auto fields = JsonFields::of(element);
    if (!fields) return tl::unexpected(bad("locks_bad_request", "an operation must be an object"));
    auto op = OpReader(*fields).run();
    if (!op) return tl::unexpected(std::move(op).error());
    if (!names.insert(op->name).second)
      return tl::unexpected(bad("locks_duplicate_in_call", "a lock may be named once per call"));
    rows += rows_of(*op);
    out.push_back(*std::move(op));
  }
  if (rows > kRowsMax)
    return tl::unexpected(
        bad("locks_too_many_keys", fmt::format("a call may look at {} permits in all", kRowsMax)));
  return out;
}

}  // namespace queen::api
