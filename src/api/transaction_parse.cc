// Transactions: the body to a command. What makes no sense in any state is refused here: broken shapes with
// 400, values that a part cannot have as a rollback (api-messaging.md 7.4).
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "api/detail/ack.h"
#include "api/detail/json_check.h"
#include "api/detail/names.h"
#include "api/detail/transaction.h"

namespace queen::api {
namespace {

constexpr std::size_t kPositionsMax = 16'384;
constexpr std::size_t kMetadataBytesMax = 4096;
constexpr KvLimits kKvLimits{64, 256, 0, false};

using Fault = std::optional<TransactionRefusal>;

Fault broken(std::string error) {
  return RolledBack{400, "bad_request", std::move(error)};
}

machine::Subscription subscription_of(const JsonValue* mode, const ApiSettings& settings) {
  machine::Subscription out;
  out.mode = settings.default_subscription;
  if (mode == nullptr) return out;
  out.mode = subscription_mode(string_of(*mode, LoneSurrogate::replace).value_or(""));
  return out;
}

class TransactionParser {
 public:
  TransactionParser(std::string_view tenant, const ApiSettings& settings, const TimerLimits& timers)
      : tenant_(tenant), settings_(settings), timer_limits_(timers) {}

  tl::expected<TransactionBody, TransactionRefusal> run(const JsonFields& top) {
    if (auto fault = read(top)) return tl::unexpected(*std::move(fault));
    return std::move(out_);
  }

 private:
  Fault read(const JsonFields& top) {
    constexpr std::array<std::string_view, 5> kArrays = {"operations", "requiredLeases", "kv", "timers",
                                                         "positions"};
    std::array<std::vector<JsonValue>, kArrays.size()> lists;
    for (std::size_t i = 0; i < kArrays.size(); ++i) {
      const JsonValue* value = top.find_set(kArrays[i]);
      auto elements = value != nullptr ? elements_of(*value) : std::vector<JsonValue>();
      if (!elements) return broken(std::string(kArrays[i]) + " must be an array");
      lists[i] = *std::move(elements);
    }
    const auto& [operations, leases, kv, timers, positions] = lists;
    for (const JsonValue& operation : operations)
      if (auto fault = read_operation(operation)) return fault;
    if (auto fault = lend_lease(leases)) return fault;
    if (auto fault = read_kv(kv)) return fault;
    if (auto fault = read_timers(timers)) return fault;
    for (const JsonValue& position : positions) read_position(position);
    if (auto refusal = check_push_names(out_.push, tenant_)) return *std::move(refusal);
    if (operations.empty() && kv.empty() && timers.empty() && positions.empty())
      roll_back("bad_request", "a transaction needs operations, kv, timers or positions");
    if (positions.size() > kPositionsMax)
      roll_back("bad_request", fmt::format("at most {} positions per transaction", kPositionsMax));
    return std::move(rolled_back_);
  }

  // The first of the refusals that answer 200; broken shapes behind it still come first.
  void roll_back(std::string_view reason, std::string error) {
    if (!rolled_back_) rolled_back_ = RolledBack{200, std::string(reason), std::move(error)};
  }

  Fault read_operation(const JsonValue& operation) {
    const auto fields = JsonFields::of(operation);
    if (!fields) return broken("an operation must be an object");
    const JsonValue* type = fields->find("type");
    const auto name = type != nullptr ? string_of(*type) : std::nullopt;
    if (name == "push") return read_push(*fields);
    if (name == "ack") return read_ack(*fields);
    if (name == "kv" || name == "timer" || name == "timers")
      return broken(*name + " operations belong into their own array");
    return broken("the type of an operation must be push or ack");
  }

  Fault read_push(const JsonFields& fields) {
    const JsonValue* items = fields.find_set("items");
    if (items == nullptr) return read_inline_item(fields);
    const auto elements = elements_of(*items);
    if (!elements) return broken("items must be an array");
    for (const JsonValue& element : *elements) {
      const auto item = JsonFields::of(element);
      if (!item) return broken("an item must be an object");
      if (item->find("queue") == nullptr) return broken("an item has no queue");
      if (item->find("payload") == nullptr) return broken("an item has no payload");
      if (auto fault = read_item(*item)) return fault;
    }
    return std::nullopt;
  }

  Fault read_inline_item(const JsonFields& fields) {
    if (fields.find_set("queue") != nullptr && fields.find("payload") != nullptr) return read_item(fields);
    roll_back("bad_request", "a push needs items, or a queue and a payload");
    return std::nullopt;
  }

  Fault read_item(const JsonFields& fields) {
    PushItem item;
    const auto queue = view_of(*fields.find("queue"), out_.push.arena);
    if (!queue) return broken("queue must be a string");
    if (queue->empty()) return broken("queue must not be empty");
    item.queue = *queue;
    std::optional<std::string_view> partition;
    if (!optional_view(fields, "partition", partition)) return broken("partition must be a string");
    if (!optional_view(fields, "transactionId", item.transaction_id))
      return broken("transactionId must be a string");
    item.partition = partition.value_or(std::string_view{});
    if (item.partition.empty()) item.partition = kDefaultPartition;
    if (item.transaction_id.value_or("").size() > kTransactionIdBytesMax)
      return bad_request("transactionId is longer than 65535 bytes");
    const JsonValue* payload = fields.find("payload");
    item.null_payload = payload->is_null();
    if (!item.null_payload) item.payload = payload->text;
    // Whatever is no UUID is ignored, of whatever type it is.
    const JsonValue* trace = fields.find("traceId");
    const auto trace_text = trace != nullptr ? view_of(*trace, out_.push.arena) : std::nullopt;
    if (trace_text) item.trace_id = Uuid::parse(*trace_text);
    out_.parts.push_back({TransactionPart::Kind::push, out_.push.items.size(), 0});
    out_.push.items.push_back(item);
    return std::nullopt;
  }

  // A string that may be absent or null; false when it is something else.
  bool optional_view(const JsonFields& fields, std::string_view name, std::optional<std::string_view>& out) {
    const JsonValue* value = fields.find_set(name);
    if (value != nullptr) out = view_of(*value, out_.push.arena);
    return value == nullptr || out.has_value();
  }

  // One command per group: the acks of one partition and lease in it are one target (T-3).
  Fault read_ack(const JsonFields& fields) {
    auto item = parse_ack_item(fields);
    if (!item) return broken(item.error().error);
    std::string group(machine::kQueueMode);
    if (const JsonValue* value = fields.find_set("consumerGroup")) {
      const auto text = string_of(*value, LoneSurrogate::replace);
      if (!text) return broken("consumerGroup must be a string");
      if (!text->empty()) group = *text;
    }
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    const std::string& partition = item->partition_id;
    if (partition.empty() || !std::all_of(partition.begin(), partition.end(), digit))
      roll_back("bad_request", "partitionId is not a partition id");
    if (!names_fit(tenant_, {}, {}, group)) roll_back("name_too_long", name_too_long().error);
    if (!item->lease_id.empty()) leases_.insert(item->lease_id);
    const auto [at, fresh] = groups_.try_emplace(group, out_.command.acks.size());
    if (fresh) out_.command.acks.emplace_back().group = group;
    auto& items = out_.command.acks[at->second].items;
    out_.parts.push_back({TransactionPart::Kind::ack, at->second, items.size()});
    items.push_back(*std::move(item));
    return std::nullopt;
  }

  // 7.3: an ack without a lease takes the one that the whole call agrees on.
  Fault lend_lease(const std::vector<JsonValue>& required) {
    for (const JsonValue& element : required) {
      auto lease = string_of(element, LoneSurrogate::replace);
      if (!lease) return broken("requiredLeases must hold strings");
      if (!lease->empty()) leases_.insert(*std::move(lease));
    }
    if (leases_.size() != 1) return std::nullopt;
    for (machine::AckCommand& ack : out_.command.acks)
      for (machine::AckItem& item : ack.items) item.lease_id = *leases_.begin();
    return std::nullopt;
  }

  Fault read_kv(const std::vector<JsonValue>& elements) {
    KvLimits limits = kKvLimits;
    limits.value_bytes_max = settings_.kv_value_bytes_max;
    auto parsed = parse_kv_ops(elements, tenant_, limits);
    if (!parsed) {
      KvFault& fault = parsed.error();
      return RolledBack{fault.status, std::move(fault.reason), std::move(fault.detail)};
    }
    out_.command.kv = *std::move(parsed);
    return std::nullopt;
  }

  // A value that no timer may have rolls back (D3); the shape of an operation is the shape of the body.
  Fault read_timers(const std::vector<JsonValue>& elements) {
    auto parsed = parse_timer_ops(elements, tenant_, timer_limits_);
    if (parsed) {
      out_.command.timers = *std::move(parsed);
      return std::nullopt;
    }
    const TimerFault& fault = parsed.error();
    std::string error = fault.detail.empty() ? fault.reason : fault.detail;
    if (fault.kind == TimerFault::Kind::name) {
      roll_back(fault.error, std::move(error));
      return std::nullopt;
    }
    if (fault.kind == TimerFault::Kind::value) {
      roll_back("bad_request", std::move(error));
      return std::nullopt;
    }
    if (fault.reason == "timers_server_owned_field") return RolledBack{400, fault.reason, std::move(error)};
    return broken("timers: " + error);
  }

  void read_position(const JsonValue& element) {
    const auto fields = JsonFields::of(element);
    if (!fields) return roll_back("bad_request", "a position must be an object");
    machine::Position position;
    const auto text = [&](std::string_view name, std::string& to) {
      const JsonValue* value = fields->find_set(name);
      if (value == nullptr) return true;
      auto given = string_of(*value);
      if (given) to = *std::move(given);
      return given.has_value();
    };
    if (!text("queue", position.queue) || position.queue.empty())
      return roll_back("bad_request", "a position needs a queue");
    if (!text("consumerGroup", position.group) || position.group.empty())
      return roll_back("bad_request", "a position needs a consumerGroup");
    if (!text("partition", position.partition))
      return roll_back("bad_request", "the partition of a position must be a string");
    if (position.partition.empty()) position.partition = kDefaultPartition;
    const JsonValue* offset = fields->find("offset");
    if (offset != nullptr && !offset->is_null()) position.offset = integer_of(*offset);
    if (offset == nullptr || offset->is_null() != !position.offset || position.offset.value_or(0) < 0)
      return roll_back("bad_request", "the offset of a position must be an integer, at least 0, or null");
    if (!text("metadata", position.metadata))
      return roll_back("bad_request", "the metadata of a position must be a string");
    const JsonValue* mode = fields->find_set("subscriptionMode");
    if (mode != nullptr && mode->kind != JsonKind::string)
      return roll_back("bad_request", "the subscriptionMode of a position must be a string");
    position.subscription = subscription_of(mode, settings_);
    if (position.metadata.size() > kMetadataBytesMax)
      return roll_back("too_large", fmt::format("metadata may have {} bytes", kMetadataBytesMax));
    if (!names_fit(tenant_, position.queue, position.partition, position.group))
      return roll_back("name_too_long", name_too_long().error);
    out_.command.positions.push_back(std::move(position));
  }

  const std::string_view tenant_;
  const ApiSettings& settings_;
  const TimerLimits& timer_limits_;
  TransactionBody out_;
  Fault rolled_back_;
  std::map<std::string, std::size_t> groups_;
  std::set<std::string> leases_;
};

}  // namespace

tl::expected<TransactionBody, TransactionRefusal> parse_transaction(std::string_view body,
                                                                    std::string_view tenant,
                                                                    const ApiSettings& settings,
                                                                    const TimerLimits& timers) {
  const auto value = body_value(body);
  if (!value) return tl::unexpected(TransactionRefusal(value.error()));
  const auto top = JsonFields::of(*value);
  if (!top) return tl::unexpected(*broken("the body must be an object"));
  return TransactionParser(tenant, settings, timers).run(*top);
}

}  // namespace queen::api
