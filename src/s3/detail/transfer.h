// One request under way in libcurl: the easy handle with its options, and what has come back so far.
#pragma once

#include <curl/curl.h>

#include <cstdint>

#include "s3/detail/http_engine.h"

namespace queen::s3 {

class Transfer {
 public:
  Transfer(HttpRequest request, HttpEngine::Done done)
      : request_(std::move(request)), done_(std::move(done)) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer();  // the handle must be out of its multi handle

  // Makes the handle; `id` is what CURLOPT_PRIVATE gives back.
  CURL* prepare(const HttpSettings& settings, std::uint64_t id);
  CURL* handle() const { return easy_; }
  // Bytes that moved so far in either direction.
  std::uint64_t bytes_moved() const;
  // The answer, once libcurl has ended with `code`.
  HttpAnswer conclude(CURLcode code);
  HttpEngine::Done take_done() { return std::move(done_); }

  std::uint64_t moved_seen = 0;  // for the engine's watch over progress
  std::int64_t moved_at_mono_us = 0;

 private:
  void set_headers();
  void set_body();
  static std::size_t on_header(char* line, std::size_t size, std::size_t count, void* self);
  static std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* self);
  static std::size_t on_send(char* to, std::size_t size, std::size_t count, void* self);
  static int on_seek(void* self, curl_off_t offset, int origin);

  HttpRequest request_;
  HttpEngine::Done done_;
  HttpAnswer answer_;
  CURL* easy_ = nullptr;
  curl_slist* header_lines_ = nullptr;
  std::size_t sent_ = 0;
  std::uint64_t received_ = 0;
  char error_text_[CURL_ERROR_SIZE] = {};
};

}  // namespace queen::s3
