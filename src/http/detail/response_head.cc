#include "http/detail/response_head.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/status.hpp>

namespace queen::http::detail {

namespace {

std::string_view reason_of(int status) {
  const auto reason = boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
  return {reason.data(), reason.size()};
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  const std::size_t start = out.size();
  out.append(name).append(": ").append(value);
  std::replace_if(
      out.begin() + static_cast<std::ptrdiff_t>(start), out.end(),
      [](char c) { return c == '\r' || c == '\n' || c == '\0'; }, ' ');
  out.append("\r\n");
}

}  // namespace

bool status_has_no_body(int status) {
  return status < 200 || status == 204 || status == 304;
}

void append_response_head(std::string& out, const Response& response, const HeadOptions& options) {
  out.append("HTTP/1.1 ");
  const fmt::format_int status(response.status);
  out.append(status.data(), status.size());
  out.push_back(' ');
  out.append(reason_of(response.status)).append("\r\n");
  if (!options.date.empty()) out.append("Date: ").append(options.date).append("\r\n");
  if (!status_has_no_body(response.status)) {
    if (!response.content_type.empty()) append_header(out, "Content-Type", response.content_type);
    const fmt::format_int length(response.body.size());
    out.append("Content-Length: ").append(length.data(), length.size()).append("\r\n");
  }
  for (const auto& [name, value] : response.headers) append_header(out, name, value);
  if (!options.keep_alive) {
    out.append("Connection: close\r\n");
  } else if (options.is_http_10) {
    out.append("Connection: keep-alive\r\n");
  }
  out.append("\r\n");
}

std::string http_date(std::int64_t wall_us) {
  return fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT",
                     fmt::gmtime(static_cast<std::time_t>(wall_us / 1'000'000)));
}

}  // namespace queen::http::detail
