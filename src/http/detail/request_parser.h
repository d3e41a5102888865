// Bytes in, one Request out: Beast's strict head and chunk parser, our limits and our body storage. No
// socket, so that tests and the fuzzer drive it from memory.
#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "http/server.h"

namespace queen::http::detail {

namespace beast = boost::beast;

// The spare bytes that follow a body, for simdjson, which reads past the end.
constexpr std::size_t kBodySpareBytes = 64;
// A Content-Length is a claim: no more than this is allocated before bytes of the body have come.
constexpr std::size_t kBodyUnseenBytesMax = 1U << 20;

struct ParserLimits {
  std::uint64_t body_bytes_max = 0;
  std::uint32_t header_bytes_max = 0;
};

enum class ParseState : std::uint8_t { head, body, done, failed };

// Why a request is refused, as it is answered: status and plain text.
struct ParseFailure {
  int status = 400;
  std::string text;
};

// Beast's parser with only the fields that the server looks at kept.
class HeadParser final : public beast::http::basic_parser<true> {
 public:
  HeadParser(Request& request, ParserLimits limits);
  bool expects_continue() const { return expects_continue_; }
  bool is_head_method() const { return is_head_method_; }
  bool is_http_10() const { return version_ == 10; }
  // 501 when the body's coding is one that we do not have, else 0.
  int refused_status() const { return refused_status_; }

 private:
  using verb = beast::http::verb;
  using field = beast::http::field;
  using text = beast::string_view;
  using error_code = beast::error_code;
  void on_request_impl(verb method, text method_text, text target, int version, error_code& error) override;
  void on_response_impl(int code, text reason, int version, error_code& error) override;
  void on_field_impl(field name, text name_text, text value, error_code& error) override;
  void on_header_impl(error_code& error) override;
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, error_code& error) override;
  std::size_t on_body_impl(text body, error_code& error) override;
  void on_chunk_header_impl(std::uint64_t size, text extensions, error_code& error) override;
  std::size_t on_chunk_body_impl(std::uint64_t left, text body, error_code& error) override;
  void on_finish_impl(error_code& error) override;

  Request& request_;
  int version_ = 11;
  int refused_status_ = 0;
  bool expects_continue_ = false;
  bool is_head_method_ = false;
  bool head_done_ = false;
};

// One request after the other from one connection. One thread at a time.
class RequestParser {
 public:
  explicit RequestParser(ParserLimits limits);
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Forgets the request at hand; the next feed() starts a new one. With PauseAt::body the feed() that ends
  // the head takes nothing of the body.
  enum class PauseAt : bool { nothing, body };
  void reset(PauseAt pause = PauseAt::nothing);
  // Takes bytes off the front of `bytes` (borrowed) and returns how many; the rest must be offered again,
  // with more behind it. Takes nothing once state() is done or failed.
  std::size_t feed(std::string_view bytes);
  ParseState state() const { return state_; }

  // A body of known length may be read straight into its storage: where the next bytes go (empty when the
  // body is chunked or there is none), and how many came.
  std::span<char> body_room();
  void commit_body(std::size_t bytes);

  // After `failed`.
  const ParseFailure& failure() const { return failure_; }
  // After the head. True once: the client waits for `100 Continue`.
  bool take_expects_continue();
  bool keep_alive() const { return head_->keep_alive(); }
  bool is_head_method() const { return head_->is_head_method(); }
  bool is_http_10() const { return head_->is_http_10(); }
  const std::string& path() const { return request_.path; }
  Method method() const { return request_.method; }
  // Of the body, when the head tells it.
  std::optional<std::size_t> body_size() const { return body_size_; }
  // After `done`: the request, once.
  Request take();

 private:
  std::size_t feed_head(std::string_view bytes);
  std::size_t feed_body(std::string_view bytes);
  std::size_t put(std::string_view bytes);
  void after_head();
  void finish();
  void fail(int status, std::string text);
  void fail(const beast::error_code& error);

  ParserLimits limits_;
  ParseState state_ = ParseState::head;
  Request request_;
  std::optional<HeadParser> head_;
  std::size_t head_bytes_ = 0;
  std::size_t body_bytes_ = 0;            // came so far
  std::optional<std::size_t> body_size_;  // known length; none when chunked
  bool continue_taken_ = false;
  PauseAt pause_ = PauseAt::nothing;
  ParseFailure failure_;
};

}  // namespace queen::http::detail
