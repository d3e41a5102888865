#include "http/detail/connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <limits>

#include "base/text.h"
#include "http/detail/response_head.h"

namespace queen::http::detail {

namespace {

using ErrorCode = boost::system::error_code;

constexpr std::size_t kReadBytes = 8U << 10;
constexpr std::size_t kReadBytesMin = 1U << 10;
// After the last answer: how long the peer may go on sending before it is cut off. Closing a socket with
// unread bytes resets the connection, and the reset overtakes the answer.
constexpr std::int64_t kLingerUs = 3'000'000;
// A connection quiet for this long gives its buffer back.
constexpr std::int64_t kKeepBufferUs = 5'000'000;
constexpr std::size_t kLoggedPathBytesMax = 256;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

void delivered(const std::shared_ptr<Undelivered>& answer) {
  if (answer) answer->run = nullptr;
}

Response no_table() {
  Response response;
  response.status = 503;
  response.body = R"({"error":"starting","code":"starting"})";
  return response;
}

Response no_route(std::string_view path) {
  Response response;
  response.status = 404;
  response.body = R"({"code":"no_such_route","error":"not found","path":)";
  append_json_string(response.body, to_valid_utf8(path));
  response.body += '}';
  return response;
}

ParserLimits limits_of(const ServerSettings& settings) {
  return {settings.body_bytes_max, settings.header_bytes_max};
}

}  // namespace

std::array<asio::const_buffer, 2> Connection::Unsent::buffers() const {
  const std::size_t of_head = std::min(sent, head.size());
  return {asio::buffer(head) + of_head, asio::buffer(body) + (sent - of_head)};
}

Connection::Connection(Worker& worker, Socket socket)
    : worker_(worker), socket_(std::move(socket)), parser_(limits_of(worker.shared().settings)) {}

Connection::~Connection() = default;

void Connection::start(Place place) {
  place_ = place;
  ErrorCode error;
  socket_.set_option(tcp::no_delay(true), error);
  if (!error) socket_.non_blocking(true, error);
  if (error) return close();
  active_us_ = worker_.now_us();
  deadline_us_ = active_us_ + worker_.shared().settings.idle_timeout_us;
  wait_readable();
}

// Costs a system call more than a read, but no buffer: for connections that are quiet.
void Connection::wait_readable() {
  reading_ = Reading::waiting;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const ErrorCode& error) {
    self->reading_ = Reading::none;
    if (self->state_ == State::closed) return;
    if (error) return self->on_read_error(error);
    self->start_read();
  });
}

void Connection::start_read() {
  if (reading_ != Reading::none || peer_closed_) return;
  auto handler = [self = shared_from_this()](const ErrorCode& error, std::size_t bytes) {
    self->on_read(error, bytes);
  };
  const std::span<char> room = state_ == State::receiving ? parser_.body_room() : std::span<char>{};
  if (!room.empty()) {
    reading_ = Reading::into_body;
    socket_.async_read_some(asio::buffer(room.data(), room.size()), std::move(handler));
    return;
  }
  reading_ = Reading::into_buffer;
  const std::span<char> free = buffer_.prepare(kReadBytesMin, kReadBytes);
  socket_.async_read_some(asio::buffer(free.data(), free.size()), std::move(handler));
}

void Connection::on_read(const ErrorCode& error, std::size_t bytes) {
  const Reading was = std::exchange(reading_, Reading::none);
  if (state_ == State::closed) return;
  if (error == asio::error::operation_aborted) {
    // The sweep cancelled it to have the buffer back.
    buffer_.release();
    return wait_readable();
  }
  if (error) return on_read_error(error);
  active_us_ = worker_.now_us();
  if (was == Reading::into_body) {
    parser_.commit_body(bytes);
  } else {
    buffer_.commit(bytes);
  }
  switch (state_) {
    case State::idle:
    case State::receiving:
      return process();
    case State::parked:
      // Reading goes on to notice a disconnect; what comes is the next request's and is kept, up to a buffer.
      if (buffer_.size() < kReadBytes) start_read();
      return;
    case State::lingering:
      buffer_.consume(buffer_.size());
      return start_read();
    case State::gated:
    case State::writing:
    case State::closed:
      return;
  }
}

// The end of the peer's stream. One that has only finished sending may still want its answer, unless the
// handler asked to be told: then the request is given up, so that a long poll leaves no lease behind.
void Connection::on_read_error(const ErrorCode& error) {
  peer_closed_ = true;
  const bool end = error == asio::error::eof;
  if (end && state_ == State::writing) return;
  if (!end || state_ != State::parked) return close();
  owed_->gone.store(true);
  if (tell_gone(*owed_)) close();
}

bool Connection::tell_gone(Responder::Impl& impl) {
  UniqueFunction<void()> call;
  {
    const std::lock_guard lock(impl.mutex);
    call = std::move(impl.on_gone);
    impl.on_gone = nullptr;
  }
  if (!call) return false;
  call();
  return true;
}

void Connection::process() {
  const auto self = shared_from_this();
  while (step()) {
  }
}

// One step of receiving; true while there is more to do without waiting.
bool Connection::step() {
  if (state_ != State::idle && state_ != State::receiving) return false;
  if (state_ == State::idle) {
    if (buffer_.size() == 0) {
      if (peer_closed_) return close(), false;
      return start_read(), false;
    }
    state_ = State::receiving;
    parser_.reset(RequestParser::PauseAt::body);
    gate_asked_ = false;
    pass_ = nullptr;
    deadline_us_ = worker_.now_us() + worker_.shared().settings.header_timeout_us;
  }
  buffer_.consume(parser_.feed(buffer_.view()));
  if (parser_.state() == ParseState::failed) return refuse(parser_.failure()), false;
  if (parser_.state() == ParseState::done) return dispatch();
  if (parser_.state() == ParseState::body) {
    if (!std::exchange(gate_asked_, true)) return ask_gate();
    deadline_us_ = active_us_ + worker_.shared().settings.body_progress_timeout_us;
  }
  if (peer_closed_) return close(), false;
  if (buffer_.size() == 0 && !send_continue()) return close(), false;
  start_read();
  return false;
}

// True when the body may be read now. One that has come whole costs nothing more.
bool Connection::ask_gate() {
  const auto body_bytes = parser_.body_size();
  const std::shared_ptr<const Routes>& routes = worker_.routes();
  if (!body_bytes || *body_bytes <= buffer_.size() || !routes) return true;
  const Gate* gate = routes->find_gate(parser_.method(), parser_.path());
  if (gate == nullptr) return true;
  auto impl = std::make_shared<Responder::Impl>();
  impl->worker = worker_.shared_from_this();
  impl->routes = routes;
  impl->connection = this;
  impl->dispatching = true;
  owed_ = impl;
  state_ = State::gated;
  deadline_us_ = kNever;
  (*gate)(*body_bytes, [impl](Admittance admittance) {
    if (impl->worker->on_own_thread() && impl->dispatching) {
      impl->inline_admittance = std::move(admittance);
      return;
    }
    impl->worker->post_admittance(impl, std::move(admittance));
  });
  impl->dispatching = false;
  return impl->inline_admittance && admit(std::move(*impl->inline_admittance));
}

// True when the body may be read.
bool Connection::admit(Admittance admittance) {
  release_owed();
  if (admittance.refusal) {
    // What the peer goes on sending is the body, not a request.
    keep_alive_ = false;
    path_.assign(parser_.path(), 0, kLoggedPathBytesMax);
    write(std::move(*admittance.refusal));
    return false;
  }
  pass_ = std::move(admittance.pass);
  state_ = State::receiving;
  active_us_ = worker_.now_us();
  return true;
}

void Connection::admit_late(Admittance admittance) {
  const auto self = shared_from_this();
  if (state_ == State::gated && admit(std::move(admittance))) process();
}

bool Connection::send_continue() {
  if (!parser_.take_expects_continue()) return true;
  // All earlier answers are sent, so the socket's buffer has room for a line; a peer for whom it has not is
  // cut.
  constexpr std::string_view kLine = "HTTP/1.1 100 Continue\r\n\r\n";
  ErrorCode error;
  return socket_.write_some(asio::buffer(kLine), error) == kLine.size() && !error;
}

// True when the request was answered and the answer is sent.
bool Connection::dispatch() {
  const bool draining = worker_.shared().draining.load(std::memory_order_relaxed);
  keep_alive_ = parser_.keep_alive() && !draining;
  path_.assign(parser_.path(), 0, kLoggedPathBytesMax);
  Request request = parser_.take();
  request.pass = std::move(pass_);
  const std::shared_ptr<const Routes>& routes = worker_.routes();
  if (!routes) return write(no_table());
  const Handler* handler = routes->find(request.method, request.path, request.params);
  if (handler == nullptr) return write(no_route(request.path));

  auto impl = std::make_shared<Responder::Impl>();
  impl->worker = worker_.shared_from_this();
  impl->routes = routes;
  impl->connection = this;
  impl->dispatching = true;
  owed_ = impl;
  state_ = State::parked;
  deadline_us_ = kNever;
  (*handler)(std::move(request), Responder(impl));
  impl->dispatching = false;
  if (impl->inline_answer) return write(std::move(*impl->inline_answer));
  if (peer_closed_) {
    impl->gone.store(true);
    if (tell_gone(*impl)) close();
    return false;
  }
  if (buffer_.size() < kReadBytes) start_read();
  return false;
}

void Connection::answer_late(Response response) {
  const auto self = shared_from_this();
  if (write(std::move(response))) process();
}

// The request cannot be understood, so neither can what follows it: answer and close.
void Connection::refuse(const ParseFailure& failure) {
  keep_alive_ = false;
  path_.assign(parser_.path(), 0, kLoggedPathBytesMax);
  Response response;
  response.status = failure.status;
  response.content_type = "text/plain; charset=utf-8";
  response.body = failure.text;
  write(std::move(response));
}

// Sends at once what the socket takes. True when all is sent and the connection can go on.
bool Connection::write(Response response) {
  release_owed();
  if (worker_.shared().draining.load(std::memory_order_relaxed)) keep_alive_ = false;
  std::string& head = worker_.scratch();
  head.clear();
  append_response_head(head, response, {worker_.date(), keep_alive_, parser_.is_http_10()});
  if (status_has_no_body(response.status) || parser_.is_head_method()) response.body.clear();

  const std::array<asio::const_buffer, 2> buffers{asio::buffer(head), asio::buffer(response.body)};
  ErrorCode error;
  const std::size_t sent = socket_.write_some(buffers, error);
  if (error && error != asio::error::would_block) return close(), false;
  if (sent == head.size() + response.body.size()) {
    delivered(response.undelivered);
    return finish_answer();
  }
  unsent_ =
      std::make_unique<Unsent>(Unsent{head, std::move(response.body), sent, std::move(response.undelivered)});
  state_ = State::writing;
  continue_write();
  return false;
}

// Not asio::async_write: each piece that goes out moves the deadline.
void Connection::continue_write() {
  deadline_us_ = worker_.now_us() + worker_.shared().settings.write_timeout_us;
  socket_.async_write_some(unsent_->buffers(),
                           [self = shared_from_this()](const ErrorCode& error, std::size_t bytes) {
                             if (self->state_ == State::closed) return;
                             if (error) return self->close();
                             self->unsent_->sent += bytes;
                             if (self->unsent_->left() > 0) return self->continue_write();
                             delivered(self->unsent_->undelivered);
                             self->unsent_.reset();
                             if (self->finish_answer()) self->process();
                           });
}

bool Connection::finish_answer() {
  if (!keep_alive_) {
    linger();
    return false;
  }
  state_ = State::idle;
  deadline_us_ = worker_.now_us() + worker_.shared().settings.idle_timeout_us;
  return true;
}

void Connection::linger() {
  const bool whole = parser_.state() == ParseState::done && buffer_.size() == 0;
  if (whole || peer_closed_) return close();
  state_ = State::lingering;
  deadline_us_ = worker_.now_us() + kLingerUs;
  ErrorCode error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  if (error) return close();
  buffer_.consume(buffer_.size());
  start_read();
}

void Connection::release_owed() {
  if (!owed_) return;
  owed_->connection = nullptr;
  owed_.reset();
}

std::string Connection::peer() const {
  ErrorCode error;
  const tcp::endpoint endpoint = socket_.remote_endpoint(error);
  if (error) return "unknown";
  return endpoint.address().to_string() + ":" + std::to_string(endpoint.port());
}

void Connection::sweep(std::int64_t now_us) {
  if (now_us >= deadline_us_) {
    if (state_ == State::writing) worker_.log_write_timeout(peer(), path_, unsent_->left());
    return close();
  }
  const bool quiet = state_ == State::idle || state_ == State::parked;
  if (!quiet || reading_ != Reading::into_buffer || now_us < active_us_ + kKeepBufferUs) return;
  if (buffer_.size() > 0) return;
  ErrorCode error;
  socket_.cancel(error);
}

void Connection::close_if_idle() {
  if (state_ == State::idle && buffer_.size() == 0) close();
}

void Connection::close() {
  if (state_ == State::closed) return;
  const auto self = shared_from_this();
  state_ = State::closed;
  ErrorCode error;
  socket_.close(error);
  unsent_.reset();
  pass_ = nullptr;
  if (const std::shared_ptr<Responder::Impl> impl = owed_) {
    release_owed();
    impl->gone.store(true);
    tell_gone(*impl);
  }
  worker_.remove(place_);
}

}  // namespace queen::http::detail
