#include "s3/detail/transfer.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/invariant.h"
#include "base/text.h"

namespace queen::s3 {
namespace {

constexpr long kConnectTimeoutMs = 5'000;
constexpr std::size_t kHeadersMax = 100;
constexpr std::size_t kErrorBodyBytesKept = 64 << 10;
constexpr std::uint64_t kErrorBodyBytesMax = 1 << 20;

Breakage breakage_of(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return Breakage::resolve;
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:  // only connecting has a limit inside libcurl
    case CURLE_PROXY:
      return Breakage::connect;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
      return Breakage::tls;
    default:
      return Breakage::other;
  }
}

template <class Value>
void set(CURL* easy, CURLoption option, Value value) {
  const CURLcode code = curl_easy_setopt(easy, option, value);
  INVARIANT(code == CURLE_OK, "libcurl refuses option {}: {}", static_cast<int>(option),
            curl_easy_strerror(code));
}

}  // namespace

Transfer::~Transfer() {
  if (easy_ != nullptr) curl_easy_cleanup(easy_);
  curl_slist_free_all(header_lines_);
}

CURL* Transfer::prepare(const HttpSettings& settings, std::uint64_t id) {
  easy_ = curl_easy_init();
  INVARIANT(easy_ != nullptr, "libcurl gives no handle");
  set(easy_, CURLOPT_PRIVATE, reinterpret_cast<void*>(static_cast<std::uintptr_t>(id)));
  set(easy_, CURLOPT_ERRORBUFFER, error_text_);
  set(easy_, CURLOPT_URL, request_.url.c_str());
  set(easy_, CURLOPT_PATH_AS_IS, 1L);  // `..` and `//` in a key are signed as they stand
  set(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  set(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(easy_, CURLOPT_FOLLOWLOCATION, 0L);
  set(easy_, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  set(easy_, CURLOPT_NOSIGNAL, 1L);
  set(easy_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(easy_, CURLOPT_BUFFERSIZE, 256L << 10);
  set(easy_, CURLOPT_UPLOAD_BUFFERSIZE, 256L << 10);
  if (!settings.user_agent.empty()) set(easy_, CURLOPT_USERAGENT, settings.user_agent.c_str());
  // libcurl keeps its directory of system certificates beside the file named here.
  if (!settings.ca_file.empty()) set(easy_, CURLOPT_CAINFO, settings.ca_file.c_str());
  set_headers();
  set_body();
  set(easy_, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  set(easy_, CURLOPT_HEADERDATA, this);
  set(easy_, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  set(easy_, CURLOPT_WRITEDATA, this);
  return easy_;
}

// libcurl adds `Expect` to large bodies and `Accept` to everything by itself: both off (HD-1).
void Transfer::set_headers() {
  const auto add = [this](const std::string& line) {
    curl_slist* const longer = curl_slist_append(header_lines_, line.c_str());
    INVARIANT(longer != nullptr, "no memory for a header line");
    header_lines_ = longer;
  };
  for (const NamedValue& header : request_.headers) add(header.name + ": " + header.value);
  for (const char* const off : {"Expect:", "Accept:", "Transfer-Encoding:"}) add(off);
  set(easy_, CURLOPT_HTTPHEADER, header_lines_);
}

void Transfer::set_body() {
  if (request_.method == "HEAD") {
    set(easy_, CURLOPT_NOBODY, 1L);
  } else if (request_.method == "GET") {
    set(easy_, CURLOPT_HTTPGET, 1L);
  } else if (request_.method == "DELETE") {
    set(easy_, CURLOPT_CUSTOMREQUEST, "DELETE");
  } else {
    set(easy_, CURLOPT_UPLOAD, 1L);
    set(easy_, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
    set(easy_, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
    set(easy_, CURLOPT_READFUNCTION, &Transfer::on_send);
    set(easy_, CURLOPT_READDATA, this);
    set(easy_, CURLOPT_SEEKFUNCTION, &Transfer::on_seek);
    set(easy_, CURLOPT_SEEKDATA, this);
  }
}

std::uint64_t Transfer::bytes_moved() const {
  curl_off_t up = 0;
  curl_off_t down = 0;
  long head = 0;
  curl_easy_getinfo(easy_, CURLINFO_SIZE_UPLOAD_T, &up);
  curl_easy_getinfo(easy_, CURLINFO_SIZE_DOWNLOAD_T, &down);
  curl_easy_getinfo(easy_, CURLINFO_HEADER_SIZE, &head);
  return static_cast<std::uint64_t>(up) + static_cast<std::uint64_t>(down) + static_cast<std::uint64_t>(head);
}

// An error answer counts even when the connection broke around it: a server that refuses an upload answers
// and closes while we still send, and the broken pipe must not hide the answer (HD-5).
HttpAnswer Transfer::conclude(CURLcode code) {
  long status = 0;
  curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
  if (code == CURLE_OK || status >= 300 || answer_.too_large) {
    answer_.status = static_cast<int>(status);
  } else {
    answer_.breakage = breakage_of(code);
    answer_.breakage_text = error_text_[0] != '\0' ? error_text_ : curl_easy_strerror(code);
  }
  return std::move(answer_);
}

std::size_t Transfer::on_header(char* line, std::size_t size, std::size_t count, void* self) {
  HttpAnswer& answer = static_cast<Transfer*>(self)->answer_;
  const std::string_view text(line, size * count);
  if (text.starts_with("HTTP/")) answer.headers.clear();  // a 100 came before
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos && answer.headers.size() < kHeadersMax)
    answer.headers.push_back({lower_ascii(text.substr(0, colon)), trim(text.substr(colon + 1))});
  return text.size();
}

std::size_t Transfer::on_body(char* bytes, std::size_t size, std::size_t count, void* self) {
  Transfer& transfer = *static_cast<Transfer*>(self);
  HttpAnswer& answer = transfer.answer_;
  const BytesView more(bytes, size * count);
  long status = 0;
  curl_easy_getinfo(transfer.easy_, CURLINFO_RESPONSE_CODE, &status);
  const bool error = status >= 300;
  transfer.received_ += more.size();
  const std::uint64_t kept_max = error ? kErrorBodyBytesKept : transfer.request_.answer_bytes_max;
  answer.body.append(more.substr(0, std::min<std::uint64_t>(more.size(), kept_max - answer.body.size())));
  const bool too_much = transfer.received_ > (error ? kErrorBodyBytesMax : kept_max);
  answer.too_large = too_much && !error;
  return too_much ? CURL_WRITEFUNC_ERROR : more.size();
}

std::size_t Transfer::on_send(char* to, std::size_t size, std::size_t count, void* self) {
  Transfer& transfer = *static_cast<Transfer*>(self);
  const BytesView next = transfer.request_.body.substr(transfer.sent_, size * count);
  std::memcpy(to, next.data(), next.size());
  transfer.sent_ += next.size();
  return next.size();
}

// libcurl would rewind to send a request again by itself, at once, when a kept connection closes without an
// answer. Then the attempt fails instead, and the wait between attempts is kept (HD-6).
int Transfer::on_seek(void* /*transfer*/, curl_off_t /*offset*/, int /*origin*/) {
  return CURL_SEEKFUNC_FAIL;
}

}  // namespace queen::s3
