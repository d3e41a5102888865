// Lists of consumer groups and their positions.
#include "api/detail/consumer_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/detail/names.h"
#include "api/detail/query.h"
#include "api/detail/resources.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::int64_t kLaggingSeconds = 300;         // a group that is further behind is `Lagging`
constexpr std::int64_t kMinLagSecondsDefault = 3600;  // of the list of lagging cursors

std::string_view state_of(const broker::GroupOnQueue& group) {
  if (group.lag_us_max / kSecondUs > kLaggingSeconds) return "Lagging";
  return group.consumed ? "Stable" : "Dead";
}

// Where the group starts in partitions that it did not read. Queue mode has no policy (F-4).
void write_subscription(JsonWriter& out, const broker::GroupOnQueue& group) {
  const bool has_policy = group.registration && group.group != machine::kQueueMode;
  if (!has_policy) {
    out.name("subscriptionMode").null().name("subscriptionTimestamp").null();
    out.name("subscriptionCreatedAt").null();
    return;
  }
  const store::GroupRow& row = *group.registration;
  std::string_view mode = "all";
  std::int64_t from = 0;
  if (row.mode == store::GroupMode::from_now) {
    mode = "new";
    from = row.registered_at;
  } else if (row.mode == store::GroupMode::timestamp) {
    mode = "timestamp";
    from = row.subscription_ts.value_or(row.registered_at);
  }
  out.name("subscriptionMode").text(mode).name("subscriptionTimestamp").instant(from);
  out.name("subscriptionCreatedAt").instant(row.registered_at);
}

bool conflates(const broker::GroupOnQueue& group) {
  return group.registration && group.registration->conflation;
}

void write_group(JsonWriter& out, const broker::GroupOnQueue& group) {
  out.open('{').name("name").text(group.group).name("topics").open('[').text(group.queue).close(']');
  out.name("queueName").text(group.queue).name("members").number(group.partitions);
  out.name("partitionCursors").number(group.partitions);
  out.name("partitionsWithLag").number(group.partitions_behind).name("totalLag").number(group.lag);
  out.name("maxTimeLag").number(group.lag_us_max / kSecondUs).name("state").text(state_of(group));
  out.name("storage").text("segments").name("kind").text("queen");
  write_subscription(out, group);
  out.name("conflation").boolean(conflates(group)).close('}');
}

void write_lease(JsonWriter& out, std::string_view name, const broker::GroupCursor& cursor) {
  out.name(name);
  if (cursor.lease_id) {
    out.text(*cursor.lease_id);
  } else {
    out.null();
  }
}

// `2031-04-05T04:07:08.000Z`
std::string iso_millis(std::int64_t us) {
  std::string text = iso_micros(us);
  return text.erase(text.size() - 4, 3);
}

// Errors: bad_request.
broker::Answer<broker::PositionAsk> parse_entry(const JsonValue& value) {
  const auto fields = JsonFields::of(value);
  if (!fields) return tl::unexpected(bad_request("an entry must be an object"));
  const JsonValue* queue = fields->find("queue");
  auto name = queue != nullptr ? string_of(*queue) : std::nullopt;
  if (!name || name->empty()) return tl::unexpected(bad_request("queue must be a string that is not empty"));
  broker::PositionAsk ask{*std::move(name), std::string(kDefaultPartition)};
  const JsonValue* partition = fields->find_set("partition");
  if (partition == nullptr) return ask;
  name = string_of(*partition);
  if (!name) return tl::unexpected(bad_request("partition must be a string"));
  if (!name->empty()) ask.partition = *std::move(name);
  return ask;
}

}  // namespace

std::string render_groups(const std::vector<broker::GroupOnQueue>& groups) {
  std::string text;
  JsonWriter out(text);
  out.open('[');
  for (const broker::GroupOnQueue& group : groups) write_group(out, group);
  out.close(']');
  return text;
}

std::string render_group(const std::vector<broker::GroupOnQueue>& queues) {
  std::string text;
  JsonWriter out(text);
  out.open('{');
  bool first = true;
  for (const broker::GroupOnQueue& queue : queues) {
    // A field name that is the user's: escaped.
    if (!std::exchange(first, false)) text += ',';
    append_json_text(text, queue.queue);
    text += ":{";
    JsonWriter fields(text);
    fields.name("conflation").boolean(conflates(queue)).name("kind").text("queen");
    fields.name("partitions").open('[');
    for (const broker::GroupCursor& cursor : queue.cursors) {
      fields.open('{').name("partition").text(cursor.partition);
      write_lease(fields, "workerId", cursor);
      fields.name("lastConsumedAt").null().name("totalConsumed").number(cursor.total_consumed);
      fields.name("offsetLag").number(cursor.lag).name("timeLagSeconds").number(cursor.lag_us / kSecondUs);
      fields.name("leaseActive").boolean(cursor.lease_id.has_value()).close('}');
    }
    fields.close(']').close('}');
  }
  out.close('}');
  return text;
}

std::string render_lagging(const std::vector<broker::GroupCursor>& cursors) {
  constexpr double kHourUs = 3600.0 * kSecondUs;
  std::string text;
  JsonWriter out(text);
  out.open('[');
  for (const broker::GroupCursor& cursor : cursors) {
    out.open('{').name("consumer_group").text(cursor.group).name("queue_name").text(cursor.queue);
    out.name("partition_name").text(cursor.partition).name("partition_id").uuid(cursor.partition_id);
    write_lease(out, "worker_id", cursor);
    out.name("kind").text("queen").name("offset_lag").number(cursor.lag);
    out.name("time_lag_seconds").number(cursor.lag_us / kSecondUs);
    out.name("lag_hours").raw(fmt::format("{:.1f}", static_cast<double>(cursor.lag_us) / kHourUs));
    out.name("oldest_unconsumed_at").text(iso_millis(cursor.oldest_us));
    out.name("last_consumed_at").null().close('}');
  }
  out.close(']');
  return text;
}

broker::Answer<PositionsRequest> parse_positions(std::string_view body) {
  const auto value = body_value(body);
  if (!value) return tl::unexpected(value.error());
  const auto fields = JsonFields::of(*value);
  if (!fields) return tl::unexpected(bad_body("the body must be an object"));
  PositionsRequest out;
  const JsonValue* group = fields->find("consumerGroup");
  auto name = group != nullptr ? string_of(*group) : std::nullopt;
  if (!name || name->empty())
    return tl::unexpected(bad_request("consumerGroup must be a string that is not empty"));
  out.group = *std::move(name);
  const JsonValue* entries = fields->find_set("entries");
  if (entries == nullptr) return out;
  const auto elements = elements_of(*entries);
  if (!elements) return tl::unexpected(bad_request("entries must be an array"));
  if (elements->size() > kPositionsMax)
    return tl::unexpected(bad_request(fmt::format("entries must be at most {}", kPositionsMax)));
  out.entries.emplace();
  for (const JsonValue& element : *elements) {
    auto entry = parse_entry(element);
    if (!entry) return tl::unexpected(entry.error());
    out.entries->push_back(*std::move(entry));
  }
  return out;
}

std::string render_positions(std::string_view group, const std::vector<broker::PositionAnswer>& positions) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("consumerGroup").text(group).name("entries").open('[');
  for (const broker::PositionAnswer& position : positions) {
    out.open('{').name("queue").text(position.queue).name("partition").text(position.partition);
    out.name("offset");
    if (position.offset) {
      out.number(*position.offset).name("metadata").text(position.metadata);
    } else {
      out.null();
    }
    out.close('}');
  }
  out.close(']').close('}');
  return text;
}

void handle_groups(const SharedContext& context, Inbound inbound) {
  answer_from_look(context, std::move(inbound.reply), [context, tenant = std::move(inbound.tenant)] {
    return json_response(200, render_groups(context->broker.groups().all(tenant)));
  });
}

void handle_group(const SharedContext& context, Inbound inbound) {
  answer_from_look(
      context, std::move(inbound.reply),
      [context, tenant = std::move(inbound.tenant), group = std::move(inbound.request.params.at(0))] {
        const auto queues = context->broker.groups().one(tenant, group);
        return queues.empty() ? json_response(404, R"({"error":"Consumer group not found"})")
                              : json_response(200, render_group(queues));
      });
}

void handle_lagging(const SharedContext& context, Inbound inbound) {
  Query query([&](std::string_view name) { return inbound.request.query_value(name); });
  const std::int64_t seconds = query.integer("minLagSeconds").value_or(kMinLagSecondsDefault);
  if (!query.fault().empty()) return inbound.reply->send(query_fault_response(query.fault()));
  constexpr std::int64_t kSecondsMax = std::numeric_limits<std::int64_t>::max() / kSecondUs;
  const std::int64_t longer_than = std::clamp(seconds, -kSecondsMax, kSecondsMax) * kSecondUs;
  answer_from_look(
      context, std::move(inbound.reply), [context, longer_than, tenant = std::move(inbound.tenant)] {
        return json_response(200, render_lagging(context->broker.groups().lagging(tenant, longer_than)));
      });
}

void handle_positions(const SharedContext& context, Inbound inbound) {
  auto parsed = parse_positions(inbound.request.body);
  if (!parsed) return inbound.reply->send(refusal_response(parsed.error()));
  auto pending = std::make_shared<Pending>(context->deadlines, std::move(inbound.reply));
  pending->set_deadline(context->deadline_us(context->settings.default_timeout_ms),
                        [pending] { pending->answer(timeout_response()); });
  context->broker.barrier([context, pending, tenant = std::move(inbound.tenant),
                           asked = *std::move(parsed)](const broker::Answer<void>& passed) mutable {
    if (!passed) {
      pending->answer(refusal_response(passed.error()));
      return;
    }
    context->broker.look([context, pending, tenant = std::move(tenant), asked = std::move(asked)] {
      const auto positions = context->broker.groups().positions(tenant, asked.group, asked.entries);
      pending->answer(json_response(200, render_positions(asked.group, positions)));
    });
  });
}

}  // namespace queen::api
