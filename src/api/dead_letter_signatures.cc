// What the dead letters of a queue have in common (operations.md 6.9).
#include <algorithm>
#include <map>

#include "api/detail/figures.h"
#include "api/detail/resources.h"
#include "broker/dead_letters.h"

namespace queen::api {
namespace {

constexpr std::int64_t kLimitDefault = 200, kLimitMax = 1000;
constexpr std::size_t kSignaturesMax = 8;
constexpr std::size_t kSignatureCharactersMax = 120;
constexpr std::size_t kHexWordMin = 20;
constexpr std::string_view kUuidShape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
constexpr std::string_view kDateShape = "dddd-dd-dd";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}
bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// `x` stands for a hex digit, `d` for a digit, all else for itself.
bool has_shape(std::string_view text, std::string_view shape) {
  if (text.size() < shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool fits = shape[i] == 'x'   ? is_hex(text[i])
                      : shape[i] == 'd' ? is_digit(text[i])
                                        : text[i] == shape[i];
    if (!fits) return false;
  }
  return true;
}
bool ends_at(std::string_view text, std::size_t size) {
  return size == text.size() || !is_word(text[size]);
}

struct Folded {
  std::size_t size = 0;  // of what is folded; 0 = nothing is
  std::string_view into;
};

// Of a text that begins with a word.
Folded fold_word(std::string_view text) {
  if (has_shape(text, kUuidShape) && ends_at(text, kUuidShape.size())) return {kUuidShape.size(), "<id>"};
  if (has_shape(text, kDateShape)) {
    std::size_t size = kDateShape.size();
    if (size + 1 < text.size() && text[size] == 'T' && is_digit(text[size + 1])) {
      ++size;
      while (size < text.size() && (is_digit(text[size]) || text[size] == ':' || text[size] == '.')) ++size;
      if (size < text.size() && text[size] == 'Z') ++size;
    }
    if (ends_at(text, size)) return {size, "<date>"};
  }
  const auto word_end = std::ranges::find_if_not(text, is_word);
  const std::string_view word = text.substr(0, static_cast<std::size_t>(word_end - text.begin()));
  if (std::ranges::all_of(word, is_hex) && word.size() >= kHexWordMin) return {word.size(), "<id>"};
  if (std::ranges::all_of(word, is_digit)) return {word.size(), "<n>"};
  return {};
}

std::string first_characters(const std::string& text, std::size_t characters) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && characters-- == 0) break;
  return text.substr(0, at);
}

}  // namespace

std::string error_signature(std::string_view error) {
  std::string out;
  for (std::size_t at = 0; at < error.size();) {
    if (is_blank(error[at])) {
      if (!out.empty() && out.back() != ' ') out += ' ';
      ++at;
      continue;
    }
    const bool begins = is_word(error[at]) && (at == 0 || !is_word(error[at - 1]));
    const Folded folded = begins ? fold_word(error.substr(at)) : Folded{};
    if (folded.size > 0)
      out += folded.into;
    else
      out += error[at];
    at += std::max<std::size_t>(folded.size, 1);
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out.empty() ? "(no message)" : first_characters(out, kSignatureCharactersMax);
}

std::string render_signatures(std::string_view queue, const broker::DeadLetterPage& page) {
  std::map<std::uint32_t, std::uint64_t> retries;
  std::map<std::string, std::uint64_t> groups, texts, days;
  std::uint64_t bytes = 0;
  for (const broker::DeadLetter& letter : page.letters) {
    ++retries[letter.row.retry_count];
    ++groups[letter.row.group];
    ++texts[error_signature(letter.row.error)];
    ++days[iso_micros(letter.row.failed_at).substr(0, kDateShape.size())];
    bytes += letter.row.payload.size();
  }
  std::vector<std::pair<std::string, std::uint64_t>> most(texts.begin(), texts.end());
  std::ranges::stable_sort(most, std::greater<>(), &std::pair<std::string, std::uint64_t>::second);
  most.resize(std::min(most.size(), kSignaturesMax));
  const std::size_t sample = page.letters.size();
  std::string text;
  JsonWriter out(text);
  out.open('{').name("queue").text(queue).name("rowsNow").number(page.total).name("sample").number(sample);
  out.name("retryCounts").open('[');
  for (const auto& [count, n] : retries)
    out.open('{').name("retryCount").number(count).name("n").number(n).close('}');
  out.close(']').name("groups").open('[');
  for (const auto& [group, n] : groups)
    out.open('{').name("group").text(group).name("n").number(n).close('}');
  out.close(']').name("oldest");
  sample > 0 ? out.instant_s(page.letters.back().row.failed_at) : out.null();
  out.name("newest");
  sample > 0 ? out.instant_s(page.letters.front().row.failed_at) : out.null();
  out.name("avgBytes").number(sample > 0 ? bytes / sample : 0).name("signatures").open('[');
  for (const auto& [signature, n] : most) {
    out.open('{').name("text").text(signature).name("n").number(n).name("share");
    out.decimal(static_cast<double>(n) / static_cast<double>(sample)).close('}');
  }
  out.close(']').name("byDay").open('[');
  for (const auto& [day, n] : days) out.open('{').name("day").text(day).name("n").number(n).close('}');
  out.close(']').close('}');
  return text;
}

void handle_dlq_signatures(const SharedContext& context, Inbound inbound) {
  Query query([&](std::string_view name) { return inbound.request.query_value(name); });
  auto queue = query.filled("queue");
  if (!queue) return inbound.reply->send(json_response(400, R"({"error":"queue required"})"));
  const auto limit = std::clamp<std::int64_t>(query.integer("limit").value_or(kLimitDefault), 1, kLimitMax);
  if (!query.fault().empty()) return inbound.reply->send(query_fault_response(query.fault()));
  answer_from_look(context, std::move(inbound.reply),
                   [context, queue = *std::move(queue), limit, tenant = std::move(inbound.tenant)] {
                     broker::PageRange range;
                     range.limit = static_cast<std::size_t>(limit);
                     const auto page = context->broker.dead_letters().page(tenant, {queue, {}}, range);
                     return json_response(200, render_signatures(to_valid_utf8(queue), page));
                   });
}

}  // namespace queen::api
