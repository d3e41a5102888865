// The ObjectStore over HTTP: hands calls to the engine's thread and keeps the switch that cancel() turns.
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/core_scrub.h"
#include "s3/detail/call.h"
#include "s3/detail/http_engine.h"
#include "s3/object_store.h"

namespace queen::s3 {
namespace {

bool starts_with_one_of(const std::string& text, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return text.starts_with(prefix); });
}

class Client final : public ObjectStore {
 public:
  Client(ClientSettings settings, Clock& clock, Random& random, Logger log)
      : settings_(std::move(settings)),
        context_{settings_, RequestBuilder(settings_), clock, random, std::move(log), nullptr, {}},
        engine_(std::make_unique<HttpEngine>(
            HttpSettings{settings_.user_agent, settings_.ca_file, settings_.requests_in_flight_max,
                         settings_.node_cap, settings_.progress_timeout_us},
            clock)) {
    context_.engine = engine_.get();
    keep_out_of_core(settings_.secret_key);
  }

  ~Client() override { Client::cancel(); }

  void put(std::string key, std::shared_ptr<const Bytes> body, PutOptions options,
           Done<PutDone> done) override {
    begin(make_put_call(context_, std::move(key), std::move(body), std::move(options), std::move(done)));
  }
  void get(std::string key, std::uint64_t bytes_max, Done<std::optional<Bytes>> done) override {
    begin(make_get_call(context_, std::move(key), bytes_max, std::move(done)));
  }
  void head(std::string key, Done<std::optional<std::uint64_t>> done) override {
    begin(make_head_call(context_, std::move(key), std::move(done)));
  }
  void list(std::string prefix, std::string start_after, int max_keys, Done<Listing> done) override {
    begin(make_list_call(context_, {std::move(prefix), std::move(start_after), max_keys}, std::move(done)));
  }

  void cancel() override {
    const std::lock_guard lock(mutex_);
    open_ = false;
    engine_->post([this] {
      const std::vector<std::shared_ptr<Call>> calls(context_.calls.begin(), context_.calls.end());
      for (const auto& call : calls) call->cancel();
    });
  }

  void cancel_keys(const std::vector<std::string>& prefixes) override {
    const std::lock_guard lock(mutex_);
    engine_->post([this, prefixes] {
      const std::vector<std::shared_ptr<Call>> calls(context_.calls.begin(), context_.calls.end());
      for (const auto& call : calls)
        if (starts_with_one_of(call->subject(), prefixes)) call->cancel();
    });
  }

  void resume() override {
    const std::lock_guard lock(mutex_);
    open_ = true;
  }

 private:
  // What was begun before a cancel() reaches the engine before it and is ended by it; the lock keeps that
  // order.
  void begin(std::shared_ptr<Call> call) {
    const std::lock_guard lock(mutex_);
    engine_->post([call = std::move(call), admitted = open_] {
      if (admitted) {
        call->begin();
      } else {
        call->refuse();
      }
    });
  }

  const ClientSettings settings_;
  CallContext context_;  // belongs to the engine's thread
  std::mutex mutex_;     // guards open_ and the order of posts
  bool open_ = true;
  std::unique_ptr<HttpEngine> engine_;  // last: its thread ends first
};

}  // namespace

std::unique_ptr<ObjectStore> make_s3_client(ClientSettings settings, Clock& clock, Random& random,
                                            Logger log) {
  return std::make_unique<Client>(std::move(settings), clock, random, std::move(log));
}

}  // namespace queen::s3
