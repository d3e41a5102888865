// One server thread: its io_context, its connections, its copy of the route table, the mailbox through which
// other threads hand it answers, and the sweep that ends connections whose time is up.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "http/detail/responder_impl.h"
#include "http/server.h"

namespace queen::http::detail {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
// The executor's type is spelt out: the type-erased default costs a virtual call at each step.
using Socket = asio::basic_stream_socket<tcp, asio::io_context::executor_type>;

// What the threads of one server share.
struct Shared {
  Shared(ServerSettings server_settings, Clock& server_clock, Logger logger)
      : settings(std::move(server_settings)), clock(server_clock), log(std::move(logger)) {}
  const ServerSettings settings;
  Clock& clock;
  Logger log;

  // Bumped after each change of `routes`, so that a request costs one load and no lock.
  std::atomic<std::uint64_t> routes_generation = 0;
  std::mutex routes_mutex;  // guards routes
  std::shared_ptr<const Routes> routes;

  std::atomic<std::size_t> connections = 0;
  std::atomic<std::uint64_t> write_timeouts = 0;

  std::atomic<bool> draining = false;
  std::mutex drain_mutex;  // guards drained
  UniqueFunction<void()> drained;

  // Runs `drained`, once, if draining and no connection is left (or `force`).
  enum class Force : bool { no, yes };
  void maybe_drained(Force force = Force::no);
};

class Worker : public std::enable_shared_from_this<Worker> {
 public:
  explicit Worker(std::shared_ptr<Shared> shared);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Any thread.
  asio::io_context& context() { return context_; }
  Shared& shared() { return *shared_; }
  void start(int number);
  void post_answer(std::shared_ptr<Responder::Impl> impl, Response response);
  void post_gone(std::shared_ptr<Responder::Impl> impl);
  void post_admittance(std::shared_ptr<Responder::Impl> impl, Admittance admittance);
  // Takes over an accepted socket of this worker's context, counted in Shared::connections already.
  void post_connection(Socket socket);
  void post_drain(std::int64_t deadline_us);
  // Closes all connections and lets the thread run out; then join().
  void post_close();
  void join();
  bool on_own_thread() const { return std::this_thread::get_id() == thread_id_.load(); }

  // Own thread only.
  const std::shared_ptr<const Routes>& routes();
  std::int64_t now_us() const { return shared_->clock.mono_us(); }
  std::string_view date() const { return date_; }
  std::string& scratch() { return scratch_; }
  void remove(std::list<std::shared_ptr<Connection>>::iterator place);
  void log_write_timeout(const std::string& peer, const std::string& path, std::size_t unsent_bytes);

 private:
  struct Mail {
    std::shared_ptr<Responder::Impl> impl;
    std::optional<Response> answer;  // neither: run on_gone
    std::optional<Admittance> admittance;
  };
  void post(Mail mail);
  void read_mail();
  void adopt(Socket socket);
  void arm_sweep();
  void sweep();
  void close_all();

  std::shared_ptr<Shared> shared_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer sweep_timer_;
  std::jthread thread_;
  // thread_'s own id changes under its readers when it is started and joined.
  std::atomic<std::thread::id> thread_id_;

  struct Mailbox {
    std::mutex mutex;  // guards both
    std::vector<Mail> mails;
    bool closed = false;
  } mailbox_;

  // The rest belongs to the worker's thread.
  std::list<std::shared_ptr<Connection>> connections_;
  struct CachedRoutes {
    std::uint64_t generation = 0;
    std::shared_ptr<const Routes> table;
  } routes_;
  std::string date_;
  std::string scratch_;
  int timeout_lines_left_ = 0;
  std::optional<std::int64_t> drain_deadline_us_;
};

}  // namespace queen::http::detail
