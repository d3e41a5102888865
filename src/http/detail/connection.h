// One client connection: requests one after the other, read ahead at most one buffer. Lives on its worker's
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "http/detail/read_buffer.h"
#include "http/detail/request_parser.h"
#include "http/detail/worker.h"

namespace queen::http::detail {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Place = std::list<std::shared_ptr<Connection>>::iterator;

  Connection(Worker& worker, Socket socket);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // `place` is this connection's in the worker's list.
  void start(Place place);
  // The answer to the request at hand, not given while its handler ran.
  void answer_late(Response response);
  // What the gate said of the body at hand, not said while it ran.
  void admit_late(Admittance admittance);
  // Ends the connection if its time is up; gives back the buffer of one that has been quiet.
  void sweep(std::int64_t now_us);
  void close_if_idle();
  void close();

  // Runs the function that was left for a disconnect, if it is there; false when it is not.
  static bool tell_gone(Responder::Impl& impl);

 private:
  enum class State : std::uint8_t {
    idle,       // no byte of a request yet
    receiving,  // head or body
    gated,      // head; whether the body is read is not decided
    parked,     // the handler has not answered
    writing,    // the peer's window is full
    lingering,  // answered for the last time; reads until the peer has seen it
    closed,
  };
  enum class Reading : std::uint8_t { none, into_buffer, into_body, waiting };

  void wait_readable();
  void start_read();
  void on_read(const boost::system::error_code& error, std::size_t bytes);
  void on_read_error(const boost::system::error_code& error);
  void process();
  bool step();
  bool dispatch();
  bool ask_gate();
  bool admit(Admittance admittance);
  bool send_continue();
  void refuse(const ParseFailure& failure);
  bool write(Response response);
  void continue_write();
  bool finish_answer();
  void linger();
  void release_owed();
  std::string peer() const;

  Worker& worker_;
  Socket socket_;
  Place place_;
  State state_ = State::idle;
  Reading reading_ = Reading::none;
  bool keep_alive_ = true;
  bool peer_closed_ = false;
  bool gate_asked_ = false;     // for the request at hand
  std::shared_ptr<void> pass_;  // what it gave
  std::int64_t deadline_us_ = 0;
  std::int64_t active_us_ = 0;  // when bytes last came
  ReadBuffer buffer_;
  RequestParser parser_;
  std::string path_;  // of the request at hand, its start, for the log
  std::shared_ptr<Responder::Impl> owed_;
  // What the socket would not take at once; empty but for a peer that reads slowly.
  struct Unsent {
    std::string head;
    std::string body;
    std::size_t sent = 0;  // of head and body together
    std::shared_ptr<Undelivered> undelivered;
    std::size_t left() const { return head.size() + body.size() - sent; }
    std::array<asio::const_buffer, 2> buffers() const;
  };
  std::unique_ptr<Unsent> unsent_;
};

}  // namespace queen::http::detail
