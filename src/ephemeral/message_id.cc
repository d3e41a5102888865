#include "ephemeral/message_id.h"

#include <fmt/format.h>

#include <charconv>

namespace queen::ephemeral {
namespace {

bool read_number(std::string_view text, int base, std::uint64_t& out) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, out, base);
  return !text.empty() && parsed.ec == std::errc{} && parsed.ptr == end;
}

}  // namespace

std::string to_text(const MessageId& id) {
  return fmt::format("e:{:x}:{}:{}", id.epoch, id.partition, id.seq);
}

std::optional<MessageId> parse_message_id(std::string_view text) {
  if (!text.starts_with("e:")) return std::nullopt;
  text.remove_prefix(2);
  const std::size_t first = text.find(':');
  const std::size_t last = text.rfind(':');
  if (first == std::string_view::npos || last == first) return std::nullopt;
  MessageId out;
  out.partition = text.substr(first + 1, last - first - 1);
  if (!read_number(text.substr(0, first), 16, out.epoch)) return std::nullopt;
  if (!read_number(text.substr(last + 1), 10, out.seq)) return std::nullopt;
  return out;
}

}  // namespace queen::ephemeral
