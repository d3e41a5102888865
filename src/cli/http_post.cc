#include "cli/http_post.h"

#include <curl/curl.h>

#include <array>
#include <new>

namespace queen::cli {
namespace {

constexpr long kConnectMs = 5'000, kAnswerMs = 60'000;
constexpr std::size_t kAnswerBytesMax = 256ULL << 20;

std::size_t keep(char* data, std::size_t size, std::size_t count, void* to) {
  auto& body = *static_cast<std::string*>(to);
  if (body.size() + size * count > kAnswerBytesMax) return CURL_WRITEFUNC_ERROR;
  body.append(data, size * count);
  return size * count;
}

}  // namespace

struct HttpPoster::Handle {
  CURL* easy = curl_easy_init();
  curl_slist* headers = nullptr;
  std::array<char, CURL_ERROR_SIZE> error{};

  Handle() {
    if (easy == nullptr) throw std::bad_alloc();
  }
  ~Handle() {
    curl_slist_free_all(headers);
    curl_easy_cleanup(easy);
  }
  void header(const std::string& line) {
    curl_slist* longer = curl_slist_append(headers, line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    headers = longer;
  }
};

HttpPoster::HttpPoster(std::string base, std::string header)
    : base_(std::move(base)), handle_(std::make_unique<Handle>()) {
  handle_->header("Content-Type: application/json");
  handle_->header("Expect:");  // libcurl would wait for a 100 before a longer body
  if (!header.empty()) handle_->header(header);
  CURL* easy = handle_->easy;
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, handle_->headers);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, kAnswerMs);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, handle_->error.data());
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &keep);
}

HttpPoster::~HttpPoster() = default;

Result<HttpReply> HttpPoster::post(const std::string& path, const std::string& body) {
  HttpReply reply;
  CURL* easy = handle_->easy;
  const std::string url = base_ + path;
  handle_->error[0] = '\0';
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &reply.body);
  const CURLcode code = curl_easy_perform(easy);
  if (code != CURLE_OK) {
    const char* why = handle_->error[0] != '\0' ? handle_->error.data() : curl_easy_strerror(code);
    return Error{Errc::unavailable, url + ": " + why};
  }
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &reply.status);
  return reply;
}

}  // namespace queen::cli
