#include "cli/broker_log.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "cli/http_post.h"

namespace queen::cli {
namespace {

using simdjson::ondemand::object;

constexpr std::uint64_t kFetchBytesMax = 8ULL << 20;
constexpr std::size_t kDepthMax = 2048;  // a payload may nest 1,024 levels, inside those of the answer
constexpr std::string_view kOutOfRange = "OFFSET_OUT_OF_RANGE";

// Reads one answer front to back. simdjson throws nowhere here: every access gives an error code, and the
// first one is kept.
class Answer {
 public:
  Answer(std::string path, std::string body) : path_(std::move(path)), body_(std::move(body)) {}

  // Calls `entry` with the first element of the list `name`.
  template <class Entry>
  Status first_of(const char* name, const Entry& entry) {
    simdjson::ondemand::document document;
    simdjson::ondemand::array list;
    if (failed(parser_.allocate(body_.size(), kDepthMax)) || failed(parser_.iterate(body_).get(document)) ||
        failed(document[name].get(list)))
      return status();
    for (auto element : list) {
      object fields;
      if (!failed(element.get(fields))) entry(fields);
      return status();
    }
    failed(simdjson::INDEX_OUT_OF_BOUNDS);
    return status();
  }
  template <class T>
  T get(object& fields, const char* name) {
    T value{};
    failed(fields[name].get(value));
    return value;
  }
  std::string text(object& fields, const char* name) {
    return std::string(get<std::string_view>(fields, name));
  }
  // Nothing for null and for an absent field.
  std::optional<std::string> optional_text(object& fields, const char* name) {
    std::string_view value;
    if (fields[name].get(value) != simdjson::SUCCESS) return std::nullopt;
    return std::string(value);
  }
  std::int64_t instant(object& fields, const char* name) {
    const auto us = parse_iso_micros_strict(text(fields, name));
    if (!us) failed(simdjson::INCORRECT_TYPE);
    return us.value_or(0);
  }
  std::string raw(object& fields, const char* name) {
    simdjson::ondemand::value value;
    std::string_view json;
    if (failed(fields[name].get(value)) || failed(simdjson::to_json_string(value).get(json))) return {};
    return std::string(json);
  }
  bool has(object& fields, const char* name) {
    simdjson::ondemand::value value;
    return fields[name].get(value) == simdjson::SUCCESS;
  }
  template <class Each>
  void each(object& fields, const char* name, const Each& call) {
    simdjson::ondemand::array list;
    if (failed(fields[name].get(list))) return;
    for (auto element : list) {
      object item;
      if (failed(element.get(item))) return;
      call(item);
    }
  }
  Status status() const {
    if (failure_ == simdjson::SUCCESS) return {};
    return Error{Errc::corrupt, fmt::format("the answer of {} cannot be read: {}", path_,
                                            simdjson::error_message(failure_))};
  }

 private:
  bool failed(simdjson::error_code code) {
    if (failure_ == simdjson::SUCCESS) failure_ = code;
    return code != simdjson::SUCCESS;
  }

  const std::string path_;
  const simdjson::padded_string body_;
  simdjson::ondemand::parser parser_;
  simdjson::error_code failure_ = simdjson::SUCCESS;
};

class HttpBrokerLog final : public BrokerLog {
 public:
  HttpBrokerLog(std::string url, const std::string& tenant, std::string queue)
      : poster_(std::move(url), tenant == kDefaultTenant ? "" : "x-queen-tenant: " + tenant),
        queue_(std::move(queue)) {}

  Result<std::optional<sink::Committed>> committed(const std::string& sink) override {
    auto answer =
        ask("/api/v1/kv", fmt::format(R"({{"operations":[{{"op":"get","ns":"queen-s3","key":{}}}]}})",
                                      json_string(sink::committed_key(sink, queue_))));
    if (!answer) return std::move(answer).error();
    std::string value;  // stays empty where there is no row
    const auto read = (*answer)->first_of("results", [&](object& row) {
      if ((*answer)->has(row, "value")) value = (*answer)->raw(row, "value");
    });
    if (!read) return read.error();
    if (value.empty() || value == "null") return std::optional<sink::Committed>();
    auto pointer = sink::parse_committed(value);
    if (!pointer) return std::move(pointer).error();
    return std::optional(*std::move(pointer));
  }

  Result<std::map<std::string, LogBounds>> partitions() override {
    std::map<std::string, LogBounds> out;
    std::optional<std::string> after;
    do {
      auto answer = ask("/api/v1/partitions/changed",
                        fmt::format(R"({{"entries":[{{"queue":{},"since":null,"after":{},"limit":1000}}]}})",
                                    json_string(queue_), after ? json_string(*after) : "null"));
      if (!answer) return std::move(answer).error();
      Answer& page = **answer;
      std::optional<std::string> error;
      const auto read = page.first_of("entries", [&](object& entry) {
        error = page.optional_text(entry, "error");
        if (error) return;
        page.each(entry, "partitions", [&](object& row) {
          LogBounds bounds;
          bounds.last_offset = page.get<std::int64_t>(row, "lastOffset");
          bounds.log_start = page.get<std::uint64_t>(row, "logStart");
          out[page.text(row, "name")] = bounds;
        });
        after = page.optional_text(entry, "next");
      });
      if (!read) return read.error();
      if (error) return Error{Errc::not_found, fmt::format("the broker says {} of queue {}", *error, queue_)};
    } while (after);
    return out;
  }

  Result<LogPart> fetch(const std::string& partition, std::uint64_t offset,
                        std::uint64_t bytes_max) override {
    std::string error;
    auto part = fetch_once(partition, offset, bytes_max, error);
    if (!part || error.empty()) return part;
    if (error != kOutOfRange)
      return Error{Errc::unavailable, fmt::format("the broker says {} of queue {}", error, queue_)};
    if (part->log_start <= offset) return part;  // above what is there
    return fetch_once(partition, part->log_start, bytes_max, error);
  }

 private:
  Result<std::unique_ptr<Answer>> ask(const std::string& path, const std::string& body) {
    auto reply = poster_.post(path, body);
    if (!reply) return std::move(reply).error();
    if (reply->status != 200)
      return Error{Errc::unavailable, fmt::format("the broker answers {} with {}: {}", path, reply->status,
                                                  reply->body.substr(0, 200))};
    return std::make_unique<Answer>(path, std::move(reply->body));
  }

  Result<LogPart> fetch_once(const std::string& partition, std::uint64_t offset, std::uint64_t bytes_max,
                             std::string& error) {
    auto answer =
        ask("/api/v1/fetch",
            fmt::format(R"({{"entries":[{{"queue":{},"partition":{},"offset":{},"maxBytes":{}}}]}})",
                        json_string(queue_), json_string(partition), offset,
                        std::min(bytes_max, kFetchBytesMax)));
    if (!answer) return std::move(answer).error();
    LogPart part;
    Answer& page = **answer;
    const auto read = page.first_of("entries", [&](object& entry) {
      error = page.optional_text(entry, "error").value_or("");
      page.each(entry, "records", [&](object& row) {
        LogRecord record;
        record.offset = page.get<std::uint64_t>(row, "offset");
        record.transaction_id = page.text(row, "transactionId");
        record.payload = page.raw(row, "payload");
        record.ts = page.instant(row, "ts");
        part.records.push_back(std::move(record));
      });
      part.high_watermark = page.get<std::uint64_t>(entry, "highWatermark");
      part.log_start = page.get<std::uint64_t>(entry, "logStartOffset");
    });
    if (!read) return read.error();
    return part;
  }

  HttpPoster poster_;
  const std::string queue_;
};

}  // namespace

Result<std::unique_ptr<BrokerLog>> connect_broker(const std::string& url, const std::string& tenant,
                                                  const std::string& queue) {
  const std::string base = url.ends_with('/') ? url.substr(0, url.size() - 1) : url;
  const bool http = base.starts_with("http://") || base.starts_with("https://");
  if (!http || base.find('/', base.find("//") + 2) != std::string::npos || base.ends_with("//"))
    return Error{Errc::invalid, fmt::format("--url {} is not http(s)://host[:port]", url)};
  return std::unique_ptr<BrokerLog>(std::make_unique<HttpBrokerLog>(base, tenant, queue));
}

}  // namespace queen::cli
