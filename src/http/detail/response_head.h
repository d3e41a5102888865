// The head of an answer, written by hand: this runs once per request.
#pragma once

#include <string>
#include <string_view>

#include "http/server.h"

namespace queen::http::detail {

struct HeadOptions {
  std::string_view date;  // the value of `Date`, may be empty
  bool keep_alive = true;
  bool is_http_10 = false;  // such a client must be told that the connection stays
};

// True when an answer with this status has neither body nor headers about one (1xx, 204, 304; R-1).
bool status_has_no_body(int status);
// Appends status line and headers to `out`. CR, LF and NUL in header values become blanks: a value made of
// a client's bytes must not start a header of its own.
void append_response_head(std::string& out, const Response& response, const HeadOptions& options);
// `Tue, 15 Nov 1994 08:12:31 GMT`.
std::string http_date(std::int64_t wall_us);

}  // namespace queen::http::detail
