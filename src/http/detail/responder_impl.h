// What a Responder and the connection that waits for it share. It outlives both, and the server too.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "http/server.h"

namespace queen::http::detail {
class Connection;
class Worker;
}  // namespace queen::http::detail

namespace queen::http {

struct Responder::Impl {
  // Holds the io_context, so that an answer after the server's end has something to be refused by.
  std::shared_ptr<detail::Worker> worker;
  // The table that the handler came from, for as long as the request is owed an answer.
  std::shared_ptr<const Routes> routes;

  // The next three belong to the worker's thread. `connection` is null once answered or closed.
  detail::Connection* connection = nullptr;
  // While the handler runs on its own connection's stack an answer is left in `inline_answer`, which saves
  // the way through the mailbox.
  bool dispatching = false;
  std::optional<Response> inline_answer;
  std::optional<Admittance> inline_admittance;  // the same of a gate

  std::atomic<bool> gone = false;
  std::mutex mutex;  // guards on_gone
  UniqueFunction<void()> on_gone;
};

}  // namespace queen::http
