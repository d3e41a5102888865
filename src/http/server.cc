// Binding, accepting, and the life of the threads. One acceptor hands sockets round-robin to the workers: a
// few keep-alive connections then spread evenly, which SO_REUSEPORT's hash does not promise.
#include "http/server.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>

#include "base/text.h"
#include "http/detail/worker.h"

namespace queen::http {

namespace {

using detail::Shared;
using detail::Socket;
using detail::tcp;
using detail::Worker;
using ErrorCode = boost::system::error_code;
using Acceptor = boost::asio::basic_socket_acceptor<tcp, boost::asio::io_context::executor_type>;

// No descriptors or no memory for a socket: others must close first, so there is a wait between tries.
constexpr std::chrono::milliseconds kAcceptRetry{100};

bool is_shortage(const ErrorCode& error) {
  using boost::system::errc::errc_t;
  return error == errc_t::too_many_files_open || error == errc_t::too_many_files_open_in_system ||
         error == errc_t::no_buffer_space || error == errc_t::not_enough_memory;
}

Error bind_error(const ServerSettings& settings, const ErrorCode& error) {
  std::string cause = error.message();
  if (error == boost::system::errc::address_in_use) cause = "address already in use";
  return {
      Errc::unavailable,
      "cannot listen on " + settings.bind_address + " port " + std::to_string(settings.port) + ": " + cause,
      error.category() == boost::system::system_category() ? error.value() : 0};
}

class BeastServer final : public Server {
 public:
  BeastServer(ServerSettings settings, Clock& clock, Logger log);
  ~BeastServer() override { BeastServer::stop(); }

  ErrorCode bind();
  void start();

  void set_routes(std::shared_ptr<const Routes> routes) override;
  std::uint16_t port() const override { return port_; }
  std::size_t connections() const override { return shared_->connections.load(); }
  std::uint64_t write_timeouts() const override { return shared_->write_timeouts.load(); }
  void drain(std::int64_t grace_us, UniqueFunction<void()> drained) override;
  void stop() override;

 private:
  void accept_next();
  void on_accept(const ErrorCode& error, Socket socket);
  void accept_later(std::string_view cause);
  void close_acceptor();

  std::shared_ptr<Shared> shared_;
  // Shared with Responders, which may outlive the server.
  std::vector<std::shared_ptr<Worker>> workers_;
  std::uint16_t port_ = 0;
  bool stopped_ = false;

  // The rest belongs to the first worker's thread once start() has run.
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<boost::asio::steady_timer> accept_timer_;
  std::size_t next_worker_ = 0;
  bool short_of_descriptors_ = false;
};

BeastServer::BeastServer(ServerSettings settings, Clock& clock, Logger log)
    : shared_(std::make_shared<Shared>(std::move(settings), clock, std::move(log))) {
  const int threads = std::max(shared_->settings.threads, 1);
  for (int i = 0; i < threads; ++i) workers_.push_back(std::make_shared<Worker>(shared_));
  acceptor_ = std::make_unique<Acceptor>(workers_.front()->context());
  accept_timer_ = std::make_unique<boost::asio::steady_timer>(workers_.front()->context());
}

ErrorCode BeastServer::bind() {
  const ServerSettings& settings = shared_->settings;
  ErrorCode error;
  tcp::resolver resolver(workers_.front()->context());
  const auto found =
      resolver.resolve(settings.bind_address, std::to_string(settings.port), tcp::resolver::passive, error);
  if (error) return error;
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_->open(endpoint.protocol(), error);
  if (!error) acceptor_->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_->bind(endpoint, error);
  if (!error) acceptor_->listen(boost::asio::socket_base::max_listen_connections, error);
  if (!error) port_ = acceptor_->local_endpoint(error).port();
  return error;
}

void BeastServer::start() {
  accept_next();
  for (std::size_t i = 0; i < workers_.size(); ++i) workers_[i]->start(static_cast<int>(i));
}

void BeastServer::accept_next() {
  if (shared_->connections.load() >= shared_->settings.connections_max)
    return accept_later("connection limit");
  Worker& worker = *workers_[next_worker_];
  acceptor_->async_accept(worker.context(), [this](const ErrorCode& error, Socket socket) {
    on_accept(error, std::move(socket));
  });
}

void BeastServer::on_accept(const ErrorCode& error, Socket socket) {
  if (!acceptor_->is_open()) return;
  if (is_shortage(error)) return accept_later(error.message());
  // Other errors are the peer's, who went before it was accepted.
  if (!error) {
    short_of_descriptors_ = false;
    shared_->connections.fetch_add(1);
    workers_[next_worker_]->post_connection(std::move(socket));
    next_worker_ = (next_worker_ + 1) % workers_.size();
  }
  accept_next();
}

// Whoever connects meanwhile waits in the kernel's queue.
void BeastServer::accept_later(std::string_view cause) {
  if (!short_of_descriptors_) shared_->log.warn("http_accept_waits", {{"cause", cause}});
  short_of_descriptors_ = true;
  accept_timer_->expires_after(kAcceptRetry);
  accept_timer_->async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled && acceptor_->is_open()) accept_next();
  });
}

void BeastServer::close_acceptor() {
  ErrorCode error;
  acceptor_->close(error);
  accept_timer_->cancel();
}

void BeastServer::set_routes(std::shared_ptr<const Routes> routes) {
  {
    const std::lock_guard lock(shared_->routes_mutex);
    shared_->routes = std::move(routes);
  }
  shared_->routes_generation.fetch_add(1, std::memory_order_release);
}

void BeastServer::drain(std::int64_t grace_us, UniqueFunction<void()> drained) {
  if (stopped_) return drained();
  {
    const std::lock_guard lock(shared_->drain_mutex);
    shared_->drained = std::move(drained);
  }
  const std::int64_t deadline_us = shared_->clock.mono_us() + grace_us;
  boost::asio::post(workers_.front()->context(), [this, deadline_us] {
    // In this order: after it no connection can be added, so none is left when the count is zero.
    close_acceptor();
    shared_->draining.store(true);
    for (const auto& worker : workers_) worker->post_drain(deadline_us);
  });
}

void BeastServer::stop() {
  if (std::exchange(stopped_, true)) return;
  boost::asio::post(workers_.front()->context(), [this] { close_acceptor(); });
  for (const auto& worker : workers_) worker->post_close();
  for (const auto& worker : workers_) worker->join();
  // Both refer to the first worker's context.
  acceptor_.reset();
  accept_timer_.reset();
  shared_->maybe_drained(Shared::Force::yes);
}

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(ServerSettings settings, Clock& clock, Logger log,
                                               std::shared_ptr<const Routes> routes) {
  const ServerSettings wanted = settings;
  try {
    auto server = std::make_unique<BeastServer>(std::move(settings), clock, std::move(log));
    if (const ErrorCode error = server->bind()) return bind_error(wanted, error);
    if (routes) server->set_routes(std::move(routes));
    server->start();
    return std::unique_ptr<Server>(std::move(server));
  } catch (const boost::system::system_error& error) {
    return bind_error(wanted, error.code());
  } catch (const std::system_error& error) {
    return Error{Errc::unavailable, std::string("cannot start the HTTP server's threads: ") + error.what(),
                 error.code().value()};
  }
}

}  // namespace queen::http
