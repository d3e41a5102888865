#include "lake/detail/json_line.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "base/text.h"

namespace queen::lake {
namespace {

// The byte that an escape of our writer stands for: `text` begins behind the backslash and loses what was
// read.
std::optional<char> read_escape(BytesView& text) {
  constexpr BytesView kNames = "\"\\bfnrt";
  constexpr BytesView kBytes = "\"\\\b\f\n\r\t";
  if (text.empty()) return std::nullopt;
  const char name = text.front();
  text.remove_prefix(1);
  if (const std::size_t at = kNames.find(name); at != BytesView::npos) return kBytes[at];
  if (name != 'u' || text.size() < 4 || !text.starts_with("00")) return std::nullopt;
  const auto byte = hex_decode(text.substr(2, 2));
  text.remove_prefix(4);
  if (!byte || static_cast<unsigned char>(byte->front()) >= 0x20) return std::nullopt;
  return byte->front();
}

// Reads fields off the front of a line; after the first one that does not fit nothing is read any more.
class LineReader {
 public:
  explicit LineReader(BytesView line) : rest_(line) {}

  void literal(BytesView text) {
    if (!rest_.starts_with(text)) fail();
    if (ok_) rest_.remove_prefix(text.size());
  }

  std::string string() {
    literal("\"");
    std::string out;
    while (ok_) {
      const std::size_t plain = rest_.find_first_of("\"\\");
      if (plain == BytesView::npos) break;
      out += rest_.substr(0, plain);
      const bool ends = rest_[plain] == '"';
      rest_.remove_prefix(plain + 1);
      if (ends) return out;
      const auto byte = read_escape(rest_);
      if (!byte) break;
      out.push_back(*byte);
    }
    fail();
    return out;
  }

  std::uint64_t number() {
    std::uint64_t value = 0;
    const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    const auto digits = static_cast<std::size_t>(end - rest_.data());
    if (code != std::errc{} || (digits > 1 && rest_.front() == '0')) fail();
    if (ok_) rest_.remove_prefix(digits);
    return value;
  }

  std::int64_t stamp() {
    constexpr std::size_t kStampSize = BytesView("2026-11-07T09:04:50.991204Z").size();
    const BytesView text = rest_.substr(0, kStampSize);
    const auto ts = parse_iso_micros_strict(text);
    if (text.size() != kStampSize || !ts) fail();
    if (ok_) rest_.remove_prefix(kStampSize);
    return ts.value_or(0);
  }

  // What is left but the brace that ends the line.
  BytesView payload() {
    if (rest_.size() < 2 || rest_.back() != '}') fail();
    return ok_ ? rest_.substr(0, rest_.size() - 1) : BytesView();
  }

  bool ok() const { return ok_; }

 private:
  void fail() {
    ok_ = false;
    rest_ = {};
  }

  BytesView rest_;
  bool ok_ = true;
};

}  // namespace

Result<ReadRecord> read_json_line(BytesView line) {
  LineReader from(line);
  ReadRecord record;
  const auto damaged = [](std::string_view field) {
    return Error{Errc::corrupt, fmt::format("a line has no {} where our writer puts it", field)};
  };
  from.literal(R"({"partition":)");
  record.partition = from.string();
  if (!from.ok()) return damaged("partition");
  from.literal(R"(,"offset":)");
  record.offset = from.number();
  if (!from.ok()) return damaged("offset");
  from.literal(R"(,"transactionId":)");
  record.transaction_id = from.string();
  if (!from.ok()) return damaged("transactionId");
  from.literal(R"(,"ts":")");
  record.ts = from.stamp();
  if (!from.ok()) return damaged("ts");
  from.literal(R"(","payload":)");
  const BytesView payload = from.payload();
  if (!from.ok()) return damaged("payload");
  if (payload != "null") record.payload.emplace(payload);
  return record;
}

}  // namespace queen::lake
