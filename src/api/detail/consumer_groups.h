// What consumer groups have read (api-messaging.md 9.1).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/detail/context.h"
#include "broker/groups.h"

namespace queen::api {

std::string render_groups(const std::vector<broker::GroupOnQueue>& groups);
// Of one group.
std::string render_group(const std::vector<broker::GroupOnQueue>& queues);
std::string render_lagging(const std::vector<broker::GroupCursor>& cursors);

inline constexpr std::size_t kPositionsMax = 65'536;
struct PositionsRequest {
  std::string group;
  std::optional<std::vector<broker::PositionAsk>> entries;  // nothing: every position there is
};
// Errors: bad_body, bad_request.
broker::Answer<PositionsRequest> parse_positions(std::string_view body);
std::string render_positions(std::string_view group, const std::vector<broker::PositionAnswer>& positions);

void handle_groups(const SharedContext& context, Inbound inbound);
void handle_group(const SharedContext& context, Inbound inbound);
void handle_lagging(const SharedContext& context, Inbound inbound);
void handle_positions(const SharedContext& context, Inbound inbound);

}  // namespace queen::api
