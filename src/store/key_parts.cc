// The parts that keys are made of, and the names of `meta` rows.
#include <bit>
#include <charconv>

#include "store/keys.h"

namespace queen::store {
namespace {

constexpr std::uint64_t kSignBit = 1ULL << 63;

Bytes numbered(std::string_view prefix, std::uint64_t number) {
  Bytes out(prefix);
  out += std::to_string(number);
  return out;
}

}  // namespace

void append_key_name(Bytes& key, std::string_view name) {
  std::size_t zero = name.find('\0');
  while (zero != std::string_view::npos) {
    key.append(name.substr(0, zero + 1));
    key.push_back('\xFF');
    name.remove_prefix(zero + 1);
    zero = name.find('\0');
  }
  key.append(name);
  key.append(2, '\0');
}

void append_key_i64(Bytes& key, std::int64_t value) {
  append_be(key, static_cast<std::uint64_t>(value) ^ kSignBit);
}

void append_key_count(Bytes& key, std::uint64_t value) {
  const auto bytes = static_cast<std::size_t>(std::bit_width(value) + 7) / 8;
  key.push_back(static_cast<char>(bytes));
  for (std::size_t i = bytes; i-- > 0;) key.push_back(static_cast<char>(value >> (8 * i)));
}

std::uint64_t KeyReader::count() {
  const BytesView digits = reader_.take(reader_.le<std::uint8_t>());
  // A leading zero would be a second spelling of the same number.
  if (digits.size() > sizeof(std::uint64_t) || digits.starts_with('\0')) reader_.fail();
  if (!reader_.ok()) return 0;
  std::uint64_t value = 0;
  for (const char digit : digits) value = value << 8 | static_cast<unsigned char>(digit);
  return value;
}

std::size_t key_name_bytes(std::string_view name) {
  std::size_t bytes = name.size() + 2;
  for (const char c : name) bytes += c == '\0' ? 1 : 0;
  return bytes;
}

std::string KeyReader::name() {
  std::string out;
  while (reader_.ok()) {
    const BytesView rest = reader_.rest();
    const std::size_t zero = rest.find('\0');
    if (zero == BytesView::npos) {
      reader_.fail();
      break;
    }
    out.append(reader_.take(zero));
    reader_.take(1);
    const auto mark = reader_.le<std::uint8_t>();
    if (mark == 0) break;
    if (mark != 0xFF) reader_.fail();
    out.push_back('\0');
  }
  if (!reader_.ok()) return {};
  return out;
}

void KeyReader::skip_name() {
  while (reader_.ok()) {
    const std::size_t zero = reader_.rest().find('\0');
    if (zero == BytesView::npos) {
      reader_.fail();
      return;
    }
    reader_.take(zero + 1);
    const auto mark = reader_.le<std::uint8_t>();
    if (mark == 0) return;
    if (mark != 0xFF) reader_.fail();
  }
}

Bytes meta_membership(std::uint64_t node_id) {
  return numbered(kMetaMembershipPrefix, node_id);
}
Bytes meta_apply_skipped(EntryIndex index) {
  return numbered(kMetaApplySkippedPrefix, index.value);
}
Bytes meta_qlog_tail(LogId log) {
  return numbered(kMetaQlogTailPrefix, log.value);
}
Bytes meta_qlog_files(LogId log) {
  return numbered(kMetaQlogFilesPrefix, log.value);
}
Bytes meta_rows(Keyspace keyspace) {
  Bytes out(kMetaRowsPrefix);
  out += name_of(keyspace);
  return out;
}

std::optional<LogId> meta_log_id(std::string_view prefix, BytesView key) {
  if (!key.starts_with(prefix)) return std::nullopt;
  const BytesView digits = key.substr(prefix.size());
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  // One spelling per log: leading zeros would make two rows of one log.
  if (std::to_string(value) != digits) return std::nullopt;
  return LogId{value};
}

bool meta_is_node_local(BytesView key) {
  return key == kMetaDurableIndex || key == kMetaQlogDurableIndex || key == kMetaStoreFormat ||
         key == kMetaQlogLayout || key.starts_with(kMetaQlogTailPrefix) ||
         key.starts_with(kMetaQlogFilesPrefix) || key.starts_with(kMetaRowsPrefix);
}

}  // namespace queen::store
