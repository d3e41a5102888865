// Timers: peek, list and count. They show what is in the store once everything is that was answered before.
#include <charconv>

#include "api/detail/names.h"
#include "api/detail/timers.h"

namespace queen::api {
namespace {

constexpr std::int64_t kPageDefault = 100, kPageMax = 1000;
constexpr std::size_t kPrefixBytesMax = 128;

TimerFault bad(std::string reason, std::string detail) {
  return {TimerFault::Kind::shape, 400, "timers_bad_request", std::move(reason), std::move(detail)};
}

// Answers with what `read()` gives, on a thread that may wait for the store.
enum class Walk : bool { bounded, whole };
template <class Read>
void answer_after_barrier(const SharedContext& context, std::unique_ptr<Reply> reply, Walk walk, Read read) {
  auto pending = std::make_shared<Pending>(context->deadlines, std::move(reply));
  pending->set_deadline(context->deadline_us(context->settings.default_timeout_ms), [pending] {
    pending->answer(timer_refusal_response({"timeout", "the deadline passed"}));
  });
  context->broker.barrier([context, pending, walk, read = std::move(read)](auto passed) mutable {
    if (!passed) return void(pending->answer(timer_refusal_response(passed.error())));
    auto work = [context, pending, read = std::move(read)]() mutable {
      pending->answer(json_response(200, read(broker::TimerReads(context->broker.state()))));
    };
    if (walk == Walk::whole) return context->broker.look(std::move(work));
    context->broker.run(std::move(work));
  });
}

void write_text_or_null(JsonWriter& out, const std::optional<std::string>& text) {
  if (text) {
    out.text(*text);
  } else {
    out.null();
  }
}

enum class Payload : bool { left_out, shown };
void write_timer(JsonWriter& out, std::string_view queue, const broker::TimerView& timer, Payload payload) {
  const store::TimerRow& row = timer.row;
  if (payload == Payload::shown) out.name("found").boolean(true);
  out.name("queue").text(queue).name("timerKey").text(timer.key).name("partition").text(row.partition);
  out.name("deliverAt").instant(row.deliver_at).name("txn").text(row.transaction_id);
  out.name("messageId").uuid(row.message_id);
  if (payload == Payload::shown) out.name("payload").text(base64(row.payload));
  out.name("payloadZstd").boolean(false).name("encrypted").boolean(row.encrypted).name("producerSub");
  write_text_or_null(out, row.producer_sub);
  out.name("attempts").number(row.attempts).name("lastError");
  write_text_or_null(out, row.last_error);
  out.name("claimed").boolean(false).name("createdAt").instant(row.created);
  out.name("updatedAt").instant(row.updated);
}

void count(const SharedContext& context, Inbound inbound, std::string queue) {
  const auto refuse = [&inbound](std::string reason, std::string detail) {
    inbound.reply->send(timer_fault_response(bad(std::move(reason), std::move(detail))));
  };
  const http::Request& request = inbound.request;
  if (request.query_value("after") || request.query_value("limit"))
    return refuse("timers_count_page_parameters", "a count has no pages: leave out after and limit");
  const std::string prefix = request.query_value("prefix").value_or("");
  if (prefix.empty()) return refuse("timers_count_prefix_required", "a count needs a prefix, not empty");
  if (prefix.find('\0') != std::string::npos || !is_utf8(prefix))
    return refuse("timers_count_prefix_invalid", "the prefix must be UTF-8 without NUL");
  if (prefix.size() > kPrefixBytesMax)
    return refuse("timers_count_prefix_too_long", fmt::format("a prefix may have {} bytes", kPrefixBytesMax));
  answer_after_barrier(context, std::move(inbound.reply), Walk::whole,
                       [tenant = std::move(inbound.tenant), queue = std::move(queue),
                        prefix](const broker::TimerReads& reads) {
                         std::string text;
                         JsonWriter out(text);
                         out.open('{').name("queue").text(queue).name("prefix").text(prefix);
                         out.name("count").number(reads.count(tenant, queue, prefix)).close('}');
                         return text;
                       });
}

// What is no number counts as not given.
std::size_t page_limit(const std::optional<std::string>& text) {
  std::int64_t limit = kPageDefault;
  if (text) {
    const char* end = text->data() + text->size();
    const auto parsed = std::from_chars(text->data(), end, limit);
    if (parsed.ec != std::errc{} || parsed.ptr != end) limit = kPageDefault;
  }
  return static_cast<std::size_t>(std::clamp<std::int64_t>(limit, 1, kPageMax));
}

}  // namespace

std::optional<TimerFault> check_timer_path(std::string_view tenant, std::string_view queue,
                                           std::string_view key) {
  if (queue.empty()) return bad("timers_queue_required", "queue must not be empty");
  if (key.empty()) return bad("timerKey must not be empty", {});
  if (!is_utf8(queue) || !is_utf8(key)) return bad("queue and timerKey must be UTF-8", {});
  return check_timer_name(tenant, queue, key);
}

std::string render_peek(std::string_view queue, std::string_view key,
                        const std::optional<broker::TimerView>& timer) {
  std::string text;
  JsonWriter out(text);
  out.open('{');
  if (timer) {
    write_timer(out, queue, *timer, Payload::shown);
  } else {
    out.name("found").boolean(false).name("queue").text(queue).name("timerKey").text(key);
  }
  out.close('}');
  return text;
}

std::string render_timer_page(std::string_view queue, const broker::TimerPage& page) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("rows").open('[');
  for (const broker::TimerView& timer : page.timers) {
    out.open('{');
    write_timer(out, queue, timer, Payload::left_out);
    out.close('}');
  }
  out.close(']').name("truncated").boolean(page.truncated).name("nextAfter");
  write_text_or_null(out, page.truncated ? std::optional(page.timers.back().key) : std::nullopt);
  out.close('}');
  return text;
}

void handle_timer_peek(const SharedContext& context, Inbound inbound) {
  std::string queue = inbound.request.params.at(0), key = inbound.request.params.at(1);
  if (auto fault = check_timer_path(inbound.tenant, queue, key))
    return inbound.reply->send(timer_fault_response(*fault));
  answer_after_barrier(context, std::move(inbound.reply), Walk::bounded,
                       [tenant = std::move(inbound.tenant), queue = std::move(queue),
                        key = std::move(key)](const broker::TimerReads& reads) {
                         return render_peek(queue, key, reads.peek(tenant, queue, key));
                       });
}

void handle_timer_list(const SharedContext& context, Inbound inbound) {
  std::string queue = inbound.request.params.at(0);
  std::string after = inbound.request.query_value("after").value_or("");
  if (auto fault = check_timer_path(inbound.tenant, queue, "k"))
    return inbound.reply->send(timer_fault_response(*fault));
  const auto mode = inbound.request.query_value("mode");
  if (mode == "count") return count(context, std::move(inbound), std::move(queue));
  if (mode)
    return inbound.reply->send(timer_fault_response(bad("timers_read_mode_unknown", "mode must be count")));
  const std::size_t limit = page_limit(inbound.request.query_value("limit"));
  answer_after_barrier(context, std::move(inbound.reply), Walk::bounded,
                       [tenant = std::move(inbound.tenant), queue = std::move(queue),
                        after = std::move(after), limit](const broker::TimerReads& reads) {
                         return render_timer_page(queue, reads.page(tenant, queue, after, limit));
                       });
}

}  // namespace queen::api
