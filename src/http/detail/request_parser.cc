#include "http/detail/request_parser.h"

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <cstring>

#include "base/invariant.h"

namespace queen::http::detail {

namespace {

Method method_of(beast::http::verb verb) {
  switch (verb) {
    case beast::http::verb::get:
      return Method::get;
    case beast::http::verb::head:
      return Method::head;
    case beast::http::verb::post:
      return Method::post;
    case beast::http::verb::put:
      return Method::put;
    case beast::http::verb::delete_:
      return Method::del;
    default:
      return Method::other;
  }
}

// `http://host/path?query` (absolute form, RFC 9112 3.2.2) without scheme and host.
std::string_view origin_form(std::string_view target) {
  if (target.starts_with('/')) return target;
  const std::size_t scheme = target.find("://");
  if (scheme == std::string_view::npos) return target;
  const std::size_t start = target.find_first_of("/?", scheme + 3);
  return start == std::string_view::npos ? std::string_view("/") : target.substr(start);
}

}  // namespace

HeadParser::HeadParser(Request& request, ParserLimits limits) : request_(request) {
  header_limit(limits.header_bytes_max);
  body_limit(limits.body_bytes_max);
  eager(false);
}

void HeadParser::on_request_impl(verb method, text, text target, int version, error_code&) {
  is_head_method_ = method == verb::head;
  request_.method = method_of(method);
  version_ = version;
  const std::string_view wanted = origin_form({target.data(), target.size()});
  const std::size_t question = std::min(wanted.find('?'), wanted.size());
  request_.path.assign(wanted.substr(0, question));
  if (request_.path.empty()) request_.path = "/";
  request_.query.assign(wanted.substr(std::min(question + 1, wanted.size())));
}

void HeadParser::on_response_impl(int, text, int, error_code& error) {
  error = beast::http::error::bad_method;
}

void HeadParser::on_field_impl(field name, text name_text, text value, error_code& error) {
  // Trailers come through here too; nothing in them may change the request.
  if (head_done_) return;
  switch (name) {
    case field::transfer_encoding:
      if (version_ == 10) error = beast::http::error::bad_transfer_encoding;
      if (beast::iequals(value, "chunked")) return;
      refused_status_ = version_ == 10 ? 400 : 501;
      error = beast::http::error::bad_transfer_encoding;
      return;
    case field::expect:
      expects_continue_ = version_ >= 11 && beast::iequals(value, "100-continue");
      return;
    case field::unknown:
      if (beast::iequals(name_text, "x-queen-tenant"))
        request_.tenant_header.assign(value.data(), value.size());
      return;
    default:
      return;
  }
}

void HeadParser::on_header_impl(error_code&) {
  head_done_ = true;
}
void HeadParser::on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) {}
void HeadParser::on_chunk_header_impl(std::uint64_t, text, error_code&) {}
void HeadParser::on_finish_impl(error_code&) {}

// Bodies of known length do not pass through Beast, see RequestParser::body_room.
std::size_t HeadParser::on_body_impl(text, error_code& error) {
  error = beast::http::error::unexpected_body;
  return 0;
}

std::size_t HeadParser::on_chunk_body_impl(std::uint64_t, text body, error_code&) {
  request_.body.append(body.data(), body.size());
  return body.size();
}

RequestParser::RequestParser(ParserLimits limits) : limits_(limits) {}

void RequestParser::reset(PauseAt pause) {
  pause_ = pause;
  state_ = ParseState::head;
  request_ = Request{};
  head_.reset();
  head_bytes_ = 0;
  body_bytes_ = 0;
  body_size_.reset();
  continue_taken_ = false;
}

std::size_t RequestParser::feed(std::string_view bytes) {
  std::size_t taken = 0;
  if (state_ == ParseState::head) {
    taken = feed_head(bytes);
    if (pause_ == PauseAt::body && state_ != ParseState::head) return taken;
  }
  if (state_ == ParseState::body) taken += feed_body(bytes.substr(taken));
  return taken;
}

std::size_t RequestParser::feed_head(std::string_view bytes) {
  std::size_t blank = 0;
  // Empty lines before a request line are skipped (RFC 9112 2.2); they count as head, so that they end.
  while (!head_ && bytes.substr(blank).starts_with("\r\n")) blank += 2;
  head_bytes_ += blank;
  const std::string_view rest = bytes.substr(blank);
  std::size_t taken = 0;
  if (!rest.empty() && !(rest == "\r" && !head_)) {
    if (!head_) head_.emplace(request_, limits_);
    taken = put(rest);
  }
  // Beast takes whole lines as they come and limits only what it has not taken, so the sum is kept here.
  head_bytes_ += taken;
  const bool done = head_ && head_->is_header_done();
  const std::size_t head_bytes = head_bytes_ + (done ? 0 : rest.size() - taken);
  if (state_ != ParseState::failed && head_bytes > limits_.header_bytes_max) {
    fail(beast::http::error::header_limit);
  }
  if (state_ == ParseState::head && done) after_head();
  return blank + taken;
}

std::size_t RequestParser::put(std::string_view bytes) {
  beast::error_code error;
  const std::size_t taken = head_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (error && error != beast::http::error::need_more) fail(error);
  return taken;
}

void RequestParser::after_head() {
  state_ = ParseState::body;
  if (head_->chunked()) {
    head_->eager(true);
    return;
  }
  body_size_ = static_cast<std::size_t>(head_->content_length().value_or(0));
  if (*body_size_ == 0) finish();
}

std::size_t RequestParser::feed_body(std::string_view bytes) {
  if (!body_size_) {
    const std::size_t taken = bytes.empty() ? 0 : put(bytes);
    if (state_ == ParseState::body && head_->is_done()) finish();
    if (state_ == ParseState::body && bytes.size() - taken >= limits_.header_bytes_max) {
      fail(400, "chunk header too long\n");
    }
    return taken;
  }
  std::size_t taken = 0;
  while (state_ == ParseState::body && taken < bytes.size()) {
    const std::span<char> room = body_room();
    const std::size_t piece = std::min(room.size(), bytes.size() - taken);
    std::memcpy(room.data(), bytes.data() + taken, piece);
    commit_body(piece);
    taken += piece;
  }
  return taken;
}

std::span<char> RequestParser::body_room() {
  if (state_ != ParseState::body || !body_size_) return {};
  std::string& body = request_.body;
  if (body.size() == body_bytes_) {
    const std::size_t size = std::min(*body_size_, std::max(kBodyUnseenBytesMax, 2 * body_bytes_));
    body.reserve(size + kBodySpareBytes);
    body.resize(size);
  }
  return std::span(body).subspan(body_bytes_);
}

void RequestParser::commit_body(std::size_t bytes) {
  body_bytes_ += bytes;
  INVARIANT(body_bytes_ <= request_.body.size(), "body overrun: {} of {}", body_bytes_, request_.body.size());
  if (body_bytes_ == *body_size_) finish();
}

void RequestParser::finish() {
  request_.body.reserve(request_.body.size() + kBodySpareBytes);
  state_ = ParseState::done;
}

bool RequestParser::take_expects_continue() {
  if (state_ != ParseState::body || continue_taken_ || !head_->expects_continue()) return false;
  continue_taken_ = true;
  return true;
}

Request RequestParser::take() {
  INVARIANT(state_ == ParseState::done, "request taken in state {}", static_cast<int>(state_));
  return std::move(request_);
}

void RequestParser::fail(int status, std::string text) {
  state_ = ParseState::failed;
  failure_ = {status, std::move(text)};
}

void RequestParser::fail(const beast::error_code& error) {
  if (error == beast::http::error::header_limit) {
    fail(431, "request head larger than " + std::to_string(limits_.header_bytes_max) + " bytes\n");
  } else if (error == beast::http::error::body_limit) {
    fail(413, "request body larger than " + std::to_string(limits_.body_bytes_max) + " bytes\n");
  } else if (head_ && head_->refused_status() == 501) {
    fail(501, "transfer encoding not supported\n");
  } else {
    fail(400, "malformed request: " + error.message() + "\n");
  }
}

}  // namespace queen::http::detail
