#include "s3/detail/call.h"

#include <algorithm>
#include <charconv>

#include "s3/detail/retry.h"

namespace queen::s3 {

void Call::begin() {
  context_.calls.insert(shared_from_this());
  start();
}

void Call::cancel() {
  const auto self = shared_from_this();
  context_.engine->abandon(active_);
  end();
  deliver_error(cancelled_error());
}

void Call::end() {
  context_.calls.erase(shared_from_this());
}

std::optional<S3Error> Call::judge_status(const ErrorScene& scene, const HttpAnswer& answer) {
  if (answer.status < 200 || answer.status > 299) return error_of(scene, answer);
  if (answer.too_large) return body_error(scene, answer, "the answer is larger than it may be");
  return std::nullopt;
}

void Call::send(S3Request request, int attempts_max, Judge judge, Next next) {
  finish_request(request);
  request_ = std::move(request);
  attempts_max_ = attempts_max;
  judge_ = std::move(judge);
  next_ = std::move(next);
  attempts_ = 0;
  attempt();
}

void Call::attempt() {
  ++attempts_;
  const auto self = shared_from_this();
  active_ = context_.engine->start(
      [self] {
        self->attempt_wall_us_ = self->context_.clock.wall_us();
        return self->context_.builder.build(self->request_, self->attempt_wall_us_);
      },
      [self](HttpAnswer answer) { self->answered(std::move(answer)); });
}

void Call::answered(HttpAnswer answer) {
  active_ = 0;
  if (context_.settings.on_attempt)
    context_.settings.on_attempt({name_of(request_.operation), answer.status});
  const ErrorScene scene{context_.settings, request_.operation, request_.key, attempt_wall_us_};
  std::optional<S3Error> error = judge_(scene, answer);
  if (error) {
    const int attempts_max =
        error->failure == Failure::integrity ? std::min(attempts_max_, kIntegrityAttemptsMax) : attempts_max_;
    if (error->retriable && attempts_ < attempts_max) {
      context_.log.debug("s3_attempt_failed", {{"op", name_of(request_.operation)},
                                               {"attempt", attempts_},
                                               {"status", answer.status},
                                               {"error", error->sentence}});
      const std::int64_t wait_us =
          retry_wait_us(attempts_, context_.settings.retry_unit_us, error->retry_after_us, context_.random);
      active_ = context_.engine->start_timer(wait_us, [self = shared_from_this()] { self->attempt(); });
      return;
    }
    if (error->failure == Failure::integrity)
      error->retriable = false;  // reported, never repeated for ever (HD-3)
  }
  Next next = std::move(next_);
  next({std::move(answer), std::move(error)});
}

void Call::wait_then(int attempt, HttpEngine::Work work) {
  const std::int64_t wait_us =
      retry_wait_us(attempt, context_.settings.retry_unit_us, std::nullopt, context_.random);
  active_ =
      context_.engine->start_timer(wait_us, [self = shared_from_this(), work = std::move(work)]() mutable {
        self->active_ = 0;
        work();
      });
}

std::optional<std::uint64_t> content_length(const HttpAnswer& answer) {
  const std::string_view text = answer.header("content-length");
  std::uint64_t value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (bad != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

}  // namespace queen::s3
