#include "http/detail/responder_impl.h"
#include "http/detail/worker.h"

namespace queen::http {

namespace {

Response unanswered() {
  Response response;
  response.status = 500;
  response.body = R"({"error":"the request was dropped without an answer","code":"internal"})";
  return response;
}

}  // namespace

Responder::Responder(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Responder::Responder(Responder&&) noexcept = default;

Responder& Responder::operator=(Responder&& other) noexcept {
  if (this == &other) return *this;
  if (impl_) send(unanswered());
  impl_ = std::move(other.impl_);
  return *this;
}

Responder::~Responder() {
  if (impl_) send(unanswered());
}

void Responder::send(Response response) {
  const std::shared_ptr<Impl> impl = std::move(impl_);
  if (!impl) return;
  if (impl->worker->on_own_thread() && impl->dispatching) {
    impl->inline_answer = std::move(response);
    return;
  }
  impl->worker->post_answer(impl, std::move(response));
}

void Responder::on_disconnect(UniqueFunction<void()> gone) {
  if (!impl_) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->on_gone = std::move(gone);
  }
  // Whoever stores second sees the other: the connection sets `gone` before it looks for the function.
  if (impl_->gone.load()) impl_->worker->post_gone(impl_);
}

bool Responder::client_gone() const {
  return impl_ && impl_->gone.load();
}

}  // namespace queen::http
