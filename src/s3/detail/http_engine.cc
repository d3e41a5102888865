#include "s3/detail/http_engine.h"

#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/invariant.h"
#include "s3/detail/transfer.h"

namespace queen::s3 {
namespace {

constexpr std::int64_t kWatchEveryUs = 1'000'000;
constexpr std::int64_t kIdlePollUs = 60'000'000;

void start_libcurl_once() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  INVARIANT(started == CURLE_OK, "libcurl does not start: {}", curl_easy_strerror(started));
}

// libcurl leaves SIGPIPE alone under CURLOPT_NOSIGNAL, and a TLS library may write to a dead socket.
void ignore_broken_pipes() {
  sigset_t pipes;
  sigemptyset(&pipes);
  sigaddset(&pipes, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipes, nullptr);
}

}  // namespace

std::string_view HttpAnswer::header(std::string_view name) const {
  for (const NamedValue& held : headers)
    if (held.name == name) return held.value;
  return {};
}

class HttpEngine::Impl {
 public:
  Impl(HttpSettings settings, Clock& clock) : settings_(std::move(settings)), clock_(clock) {
    start_libcurl_once();
    multi_ = curl_multi_init();
    INVARIANT(multi_ != nullptr, "libcurl gives no multi handle");
    curl_multi_setopt(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(std::max(settings_.in_flight_max, 1)));
    if (settings_.node_cap)
      listener_ = settings_.node_cap->listen([multi = multi_] { curl_multi_wakeup(multi); });
    thread_ = std::thread([this] { run(); });
  }

  ~Impl() {
    while (!running_.empty()) remove(running_.begin());
    if (settings_.node_cap) settings_.node_cap->forget(listener_);
    curl_multi_cleanup(multi_);
  }

  void stop() {
    stopping_.store(true);
    curl_multi_wakeup(multi_);
    thread_.join();
  }

  void post(Work work) {
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(work));
    }
    curl_multi_wakeup(multi_);
  }

  std::uint64_t start(Make make, Done done) {
    const std::uint64_t id = ++last_id_;
    waiting_.emplace(id, Waiting{std::move(make), std::move(done)});
    admit();
    return id;
  }

  std::uint64_t start_timer(std::int64_t us, Work work) {
    const std::uint64_t id = ++last_id_;
    timers_.emplace(std::pair(clock_.mono_us() + us, id), std::move(work));
    return id;
  }

  void abandon(std::uint64_t id) {
    waiting_.erase(id);
    if (const auto at = running_.find(id); at != running_.end()) {
      remove(at);
      admit();
    }
    std::erase_if(timers_, [id](const auto& timer) { return timer.first.second == id; });
  }

 private:
  struct Waiting {
    Make make;
    Done done;
  };
  using Running = std::map<std::uint64_t, std::unique_ptr<Transfer>>;

  void run() {
    pthread_setname_np(pthread_self(), "queen-s3-http");
    ignore_broken_pipes();
    for (;;) {
      const bool stopping = stopping_.load();
      run_posted();
      if (stopping) return;
      run_due_timers();
      admit();  // another client may have given a place back
      int active = 0;
      curl_multi_perform(multi_, &active);
      conclude_finished();
      end_stalled();
      curl_multi_poll(multi_, nullptr, 0, poll_ms(), nullptr);
    }
  }

  void run_posted() {
    std::deque<Work> work;
    {
      const std::lock_guard lock(mutex_);
      work.swap(posted_);
    }
    for (Work& piece : work) piece();
  }

  void run_due_timers() {
    while (!timers_.empty() && timers_.begin()->first.first <= clock_.mono_us()) {
      Work work = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
      work();
    }
  }

  // Fills free places from the front of the queue (ids grow, so the map is first come, first served).
  void admit() {
    while (!waiting_.empty() &&
           running_.size() < static_cast<std::size_t>(std::max(settings_.in_flight_max, 1)) && take_place()) {
      const auto first = waiting_.begin();
      const std::uint64_t id = first->first;
      Waiting next = std::move(first->second);
      waiting_.erase(first);
      auto transfer = std::make_unique<Transfer>(next.make(), std::move(next.done));
      transfer->moved_at_mono_us = clock_.mono_us();
      CURL* const easy = transfer->prepare(settings_, id);
      const CURLMcode code = curl_multi_add_handle(multi_, easy);
      INVARIANT(code == CURLM_OK, "libcurl takes no transfer: {}", curl_multi_strerror(code));
      running_.emplace(id, std::move(transfer));
    }
  }

  bool take_place() { return !settings_.node_cap || settings_.node_cap->try_take(); }

  void remove(Running::iterator at) {
    curl_multi_remove_handle(multi_, at->second->handle());
    running_.erase(at);
    if (settings_.node_cap) settings_.node_cap->give_back();
  }

  void conclude_finished() {
    int left = 0;
    while (CURLMsg* const message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      void* tag = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &tag);
      const auto at = running_.find(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(tag)));
      INVARIANT(at != running_.end(), "libcurl ended a transfer that does not run");
      HttpAnswer answer =
          at->second->conclude(message->data.result);  // before remove: `message` dies with it
      finish(at, std::move(answer));
    }
  }

  void finish(Running::iterator at, HttpAnswer answer) {
    Done done = at->second->take_done();
    remove(at);
    admit();
    done(std::move(answer));
  }

  // libcurl's own limit is on an average speed; the rule here is about the last byte (HD-5).
  void end_stalled() {
    const std::int64_t now = clock_.mono_us();
    std::vector<std::uint64_t> stalled;
    for (auto& [id, transfer] : running_) {
      const std::uint64_t moved = transfer->bytes_moved();
      if (moved != transfer->moved_seen) {
        transfer->moved_seen = moved;
        transfer->moved_at_mono_us = now;
      } else if (now - transfer->moved_at_mono_us >= settings_.progress_timeout_us) {
        stalled.push_back(id);
      }
    }
    for (const std::uint64_t id : stalled) {
      const auto at = running_.find(id);
      if (at == running_.end()) continue;  // ended by the answer of another one
      HttpAnswer answer = at->second->conclude(CURLE_OPERATION_TIMEDOUT);
      if (answer.status == 0) answer.breakage = Breakage::stalled;
      finish(at, std::move(answer));
    }
  }

  int poll_ms() const {
    std::int64_t wait_us = kIdlePollUs;
    if (!running_.empty()) wait_us = std::min(kWatchEveryUs, settings_.progress_timeout_us / 4 + 1);
    if (!timers_.empty()) wait_us = std::min(wait_us, timers_.begin()->first.first - clock_.mono_us());
    return static_cast<int>(std::max<std::int64_t>(wait_us, 0) / 1'000 + 1);
  }

  const HttpSettings settings_;
  Clock& clock_;
  CURLM* multi_ = nullptr;
  std::uint64_t listener_ = 0;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // guards posted_
  std::deque<Work> posted_;
  // The rest belongs to the thread.
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Waiting> waiting_;
  Running running_;
  std::map<std::pair<std::int64_t, std::uint64_t>, Work> timers_;  // by (due µs, id)
  std::thread thread_;
};

HttpEngine::HttpEngine(HttpSettings settings, Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(settings), clock)) {}
HttpEngine::~HttpEngine() {
  impl_->stop();
}  // work that still runs may call the engine
void HttpEngine::post(Work work) {
  impl_->post(std::move(work));
}
std::uint64_t HttpEngine::start(Make make, Done done) {
  return impl_->start(std::move(make), std::move(done));
}
std::uint64_t HttpEngine::start_timer(std::int64_t us, Work work) {
  return impl_->start_timer(us, std::move(work));
}
void HttpEngine::abandon(std::uint64_t id) {
  impl_->abandon(id);
}

}  // namespace queen::s3
