// What changes a consumer group: both seeks, the subscription, both deletions (api-messaging.md 9.2 to 9.4).
#pragma once

#include <string>
#include <string_view>

#include "api/detail/context.h"

namespace queen::api {

// Where a seek goes: the stamp of the first message wanted, or nothing for the end. Errors: bad_body;
// bad_request when the body names neither.
broker::Answer<std::optional<std::int64_t>> parse_seek(std::string_view body);
std::string render_seek(const machine::SeekCommand& seek, const machine::SeekOutcome& outcome);

struct SubscriptionBody {
  std::int64_t from_us = 0;
  std::string as_sent;
};
// Errors: bad_body, bad_request.
broker::Answer<SubscriptionBody> parse_subscription(std::string_view body);

std::string render_group_deleted(const broker::GroupDeletion& deletion, const broker::GroupDeleted& deleted);

void handle_seek_queue(const SharedContext& context, Inbound inbound);
void handle_seek_partition(const SharedContext& context, Inbound inbound);
void handle_subscription(const SharedContext& context, Inbound inbound);
void handle_group_delete(const SharedContext& context, Inbound inbound);
void handle_group_delete_queue(const SharedContext& context, Inbound inbound);

}  // namespace queen::api
