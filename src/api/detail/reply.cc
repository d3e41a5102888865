#include "api/detail/reply.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace queen::api {
namespace {

class ResponderReply final : public Reply {
 public:
  explicit ResponderReply(http::Responder responder) : responder_(std::move(responder)) {}
  void send(http::Response response) override { responder_.send(std::move(response)); }
  void on_disconnect(UniqueFunction<void()> gone) override { responder_.on_disconnect(std::move(gone)); }
  bool client_gone() const override { return responder_.client_gone(); }

 private:
  http::Responder responder_;
};

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

}  // namespace

std::unique_ptr<Reply> reply_to(http::Responder responder) {
  return std::make_unique<ResponderReply>(std::move(responder));
}

struct Deadlines::State : std::enable_shared_from_this<State> {
  struct Call {
    std::int64_t at = 0;
    UniqueFunction<void()> late;
  };
  explicit State(Executor& on) : executor(on) {}

  Executor& executor;
  std::mutex mutex;  // guards everything below
  std::unordered_map<Ticket, Call> calls;
  Ticket last = 0;
  std::int64_t armed_at = kNever;  // when the nearest timer of ours fires

  // Under the mutex.
  void arm(std::int64_t at) {
    if (at >= armed_at) return;
    armed_at = at;
    executor.post_at(at, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->fire();
    });
  }

  void fire() {
    std::vector<UniqueFunction<void()>> late;
    {
      const std::lock_guard lock(mutex);
      const std::int64_t now = executor.clock().mono_us();
      std::int64_t nearest = kNever;
      for (auto call = calls.begin(); call != calls.end();) {
        if (call->second.at > now) {
          nearest = std::min(nearest, call->second.at);
          ++call;
          continue;
        }
        late.push_back(std::move(call->second.late));
        call = calls.erase(call);
      }
      armed_at = kNever;
      if (nearest != kNever) arm(nearest);
    }
    for (auto& call : late) call();
  }
};

Deadlines::Deadlines(Executor& executor) : state_(std::make_shared<State>(executor)) {}
Deadlines::~Deadlines() = default;

Deadlines::Ticket Deadlines::add(std::int64_t mono_us, UniqueFunction<void()> late) {
  const std::lock_guard lock(state_->mutex);
  const Ticket ticket = ++state_->last;
  state_->calls.emplace(ticket, State::Call{mono_us, std::move(late)});
  state_->arm(mono_us);
  return ticket;
}

bool Deadlines::cancel(Ticket ticket) {
  UniqueFunction<void()> dropped;  // destroyed after the lock: it may own the last reference to a request
  const std::lock_guard lock(state_->mutex);
  const auto call = state_->calls.find(ticket);
  if (call == state_->calls.end()) return false;
  dropped = std::move(call->second.late);
  state_->calls.erase(call);
  return true;
}

std::size_t Deadlines::waiting() const {
  const std::lock_guard lock(state_->mutex);
  return state_->calls.size();
}

std::int64_t Deadlines::now_us() const {
  return state_->executor.clock().mono_us();
}

void Pending::send(http::Response response) {
  const Deadlines::Ticket ticket = ticket_;
  if (ticket != 0) deadlines_.cancel(ticket);
  reply_->send(std::move(response));
}

std::unique_ptr<Reply> Pending::release() {
  const Deadlines::Ticket ticket = ticket_;
  if (ticket != 0) deadlines_.cancel(ticket);
  return std::move(reply_);
}

bool Pending::answer(http::Response response) {
  if (!claim()) return false;
  send(std::move(response));
  return true;
}

}  // namespace queen::api
