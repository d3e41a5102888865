// `e:<epoch hex>:<partition>:<seq>` (EP-9). A partition's name may contain colons.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace queen::ephemeral {

struct MessageId {
  std::uint64_t epoch = 0;  // of the ring's incarnation
  std::string_view partition;
  std::uint64_t seq = 0;
};
std::string to_text(const MessageId& id);
// Nothing when it is no id of ours. `partition` borrows from `text`.
std::optional<MessageId> parse_message_id(std::string_view text);

}  // namespace queen::ephemeral
