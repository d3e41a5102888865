#include "http/detail/worker.h"

#include <pthread.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "http/detail/connection.h"
#include "http/detail/response_head.h"

namespace queen::http::detail {

namespace {

// Lines about peers that do not read, per sweep and thread: many such peers at once must not fill the log.
constexpr int kTimeoutLinesPerSweep = 10;

// Coarse on purpose: a timer per request would cost more than the request. A deadline is late by at most
// this.
std::chrono::microseconds sweep_period(const ServerSettings& settings) {
  const std::int64_t shortest = std::min({settings.header_timeout_us, settings.body_progress_timeout_us,
                                          settings.write_timeout_us, settings.idle_timeout_us});
  return std::chrono::microseconds(std::clamp<std::int64_t>(shortest / 4, 10'000, 1'000'000));
}

}  // namespace

void Shared::maybe_drained(Force force) {
  if (!draining.load() || (force == Force::no && connections.load() > 0)) return;
  UniqueFunction<void()> call;
  {
    const std::lock_guard lock(drain_mutex);
    call = std::move(drained);
    drained = nullptr;
  }
  if (call) call();
}

Worker::Worker(std::shared_ptr<Shared> shared)
    : shared_(std::move(shared)),
      work_(context_.get_executor()),
      sweep_timer_(context_),
      date_(http_date(shared_->clock.wall_us())) {}

Worker::~Worker() = default;

void Worker::start(int number) {
  arm_sweep();
  // `this` outlives the thread: the server joins it before it lets go of the worker.
  thread_ = std::jthread([this, number] {
    const std::string name = "http-" + std::to_string(number);
    ::pthread_setname_np(::pthread_self(), name.c_str());
    thread_id_.store(std::this_thread::get_id());
    context_.run();
  });
}

void Worker::post_answer(std::shared_ptr<Responder::Impl> impl, Response response) {
  post({std::move(impl), std::move(response), std::nullopt});
}

void Worker::post_gone(std::shared_ptr<Responder::Impl> impl) {
  post({std::move(impl), std::nullopt, std::nullopt});
}

void Worker::post_admittance(std::shared_ptr<Responder::Impl> impl, Admittance admittance) {
  post({std::move(impl), std::nullopt, std::move(admittance)});
}

// Answers that come together, as after a group commit, share one wake-up. After close_all() nothing is taken,
// so no mail can keep its own worker alive.
void Worker::post(Mail mail) {
  bool first = false;
  {
    const std::lock_guard lock(mailbox_.mutex);
    if (mailbox_.closed) return;
    first = mailbox_.mails.empty();
    mailbox_.mails.push_back(std::move(mail));
  }
  if (first) asio::post(context_, [this] { read_mail(); });
}

void Worker::read_mail() {
  std::vector<Mail> mails;
  {
    const std::lock_guard lock(mailbox_.mutex);
    mails.swap(mailbox_.mails);
  }
  for (Mail& mail : mails) {
    if (mail.admittance) {
      if (mail.impl->connection != nullptr) mail.impl->connection->admit_late(std::move(*mail.admittance));
    } else if (!mail.answer) {
      if (Connection::tell_gone(*mail.impl) && mail.impl->connection != nullptr)
        mail.impl->connection->close();
    } else if (mail.impl->connection != nullptr) {
      mail.impl->connection->answer_late(std::move(*mail.answer));
    }
  }
}

void Worker::post_connection(Socket socket) {
  asio::post(context_, [this, socket = std::move(socket)]() mutable { adopt(std::move(socket)); });
}

void Worker::adopt(Socket socket) {
  if (shared_->draining.load() || mailbox_.closed) {
    shared_->connections.fetch_sub(1);
    shared_->maybe_drained();
    return;
  }
  connections_.push_back(std::make_shared<Connection>(*this, std::move(socket)));
  connections_.back()->start(std::prev(connections_.end()));
}

void Worker::remove(std::list<std::shared_ptr<Connection>>::iterator place) {
  connections_.erase(place);
  shared_->connections.fetch_sub(1);
  shared_->maybe_drained();
}

void Worker::post_drain(std::int64_t deadline_us) {
  asio::post(context_, [this, deadline_us] {
    drain_deadline_us_ = deadline_us;
    for (auto next = connections_.begin(); next != connections_.end();) {
      const std::shared_ptr<Connection> connection = *next++;
      connection->close_if_idle();
    }
    shared_->maybe_drained();
  });
}

void Worker::post_close() {
  asio::post(context_, [this] { close_all(); });
}

void Worker::close_all() {
  std::vector<Mail> unread;
  {
    const std::lock_guard lock(mailbox_.mutex);
    mailbox_.closed = true;
    unread.swap(mailbox_.mails);
  }
  while (!connections_.empty()) {
    const std::shared_ptr<Connection> connection = connections_.front();
    connection->close();
  }
  sweep_timer_.cancel();
  work_.reset();
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

const std::shared_ptr<const Routes>& Worker::routes() {
  const std::uint64_t generation = shared_->routes_generation.load(std::memory_order_acquire);
  if (generation != routes_.generation) {
    const std::lock_guard lock(shared_->routes_mutex);
    routes_.table = shared_->routes;
    routes_.generation = generation;
  }
  return routes_.table;
}

void Worker::arm_sweep() {
  sweep_timer_.expires_after(sweep_period(shared_->settings));
  sweep_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || mailbox_.closed) return;
    sweep();
    arm_sweep();
  });
}

void Worker::sweep() {
  timeout_lines_left_ = kTimeoutLinesPerSweep;
  date_ = http_date(shared_->clock.wall_us());
  const std::int64_t now = now_us();
  for (auto next = connections_.begin(); next != connections_.end();) {
    const std::shared_ptr<Connection> connection = *next++;
    connection->sweep(now);
  }
  if (timeout_lines_left_ < 0) {
    shared_->log.warn("http_write_timeout_more", {{"connections", -timeout_lines_left_}});
  }
  if (drain_deadline_us_ && now >= *drain_deadline_us_) {
    drain_deadline_us_.reset();
    shared_->maybe_drained(Shared::Force::yes);
  }
}

void Worker::log_write_timeout(const std::string& peer, const std::string& path, std::size_t unsent_bytes) {
  if (timeout_lines_left_-- > 0) {
    shared_->log.warn("http_write_timeout", {{"peer", peer}, {"path", path}, {"unsent_bytes", unsent_bytes}});
  }
  // After the line: whoever sees the count finds it.
  shared_->write_timeouts.fetch_add(1);
}

}  // namespace queen::http::detail
