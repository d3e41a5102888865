// Dead letters: the list, the purge of a queue, the deletion of a message's. Sending one back is
// dlq_replay.cc.
#include "api/detail/dlq.h"

#include "api/detail/names.h"
#include "api/detail/page.h"
#include "api/detail/resources.h"
#include "api/detail/submit.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

void write_text_or_null(JsonWriter& out, const std::optional<std::string>& text) {
  if (text) {
    out.text(*text);
  } else {
    out.null();
  }
}

void write_letter(JsonWriter& out, const broker::DeadLetter& letter) {
  const store::DeadLetterRow& row = letter.row;
  out.open('{').name("id").uuid(letter.id).name("queue").text(letter.queue).name("partition");
  write_text_or_null(out, letter.partition);
  out.name("partitionId").digits(row.pid.value).name("createdAt").instant(row.failed_at);
  out.name("consumerGroup").text(row.group).name("offset").number(row.offset).name("messageId");
  if (row.message_id) {
    out.uuid(*row.message_id);
  } else {
    out.null();
  }
  out.name("transactionId").text(row.transaction_id).name("data").raw(row.payload);
  out.name("payload").raw(row.payload).name("errorMessage").text(row.error);
  out.name("retryCount").number(row.retry_count).name("failedAt").instant(row.failed_at).close('}');
}

http::Response queue_required() {
  return json_response(400, R"({"success":false,"error":"queue is required",)"
                            R"("message":"name the queue whose dead letters shall go"})");
}

std::string render_purged(std::string_view queue, const std::optional<std::string>& group,
                          std::uint64_t removed) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("success").boolean(true).name("queue").text(queue).name("consumerGroup");
  write_text_or_null(out, group);
  out.name("deleted").number(removed).close('}');
  return text;
}

// Of DELETE /api/v1/messages/…: `partition` and `transaction_id` are as sent, and a client may send any
// bytes.
http::Response render_deleted(std::string_view partition, std::string_view transaction_id,
                              std::uint64_t removed) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("success").boolean(removed > 0).name("partitionId").text(to_valid_utf8(partition));
  out.name("transactionId").text(to_valid_utf8(transaction_id));
  if (removed > 0) {
    out.name("deleted").number(removed).close('}');
    return json_response(200, std::move(text));
  }
  out.name("error").text("Message not found");
  out.name("message").text("no dead letter is filed for it; the log itself is never edited").close('}');
  return json_response(404, std::move(text));
}

// Removes dead letters and answers `render(how many)`. With none there is nothing to ask the planner.
template <class Render>
void remove_letters(const SharedContext& context, Inbound inbound, machine::DeadLetterDeleteCommand body,
                    Render render) {
  if (body.ids.empty()) return inbound.reply->send(render(0));
  machine::Command command{std::move(inbound.tenant), make_uuid_v7(context->clock.wall_us(), context->random),
                           std::move(body)};
  submit_command<machine::DeadLetterDeleteOutcome>(
      context, std::move(inbound.reply), context->settings.default_timeout_ms, std::move(command),
      [&broker = context->broker](machine::Command deletion, auto done) {
        broker.submit(std::move(deletion), std::move(done));
      },
      [render = std::move(render)](const machine::DeadLetterDeleteOutcome& outcome) {
        return render(outcome.removed);
      },
      refusal_response);
}

}  // namespace

std::string render_dlq_page(const broker::DeadLetterPage& page, const broker::PageRange& range) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("messages").open('[');
  for (const broker::DeadLetter& letter : page.letters) write_letter(out, letter);
  out.close(']');
  write_total(out, page.total, range);
  out.close('}');
  return text;
}

void handle_dlq_list(const SharedContext& context, Inbound inbound) {
  Query query = query_of(inbound.request);
  const broker::PageRange range = page_of(query, 100);
  if (!query.fault().empty()) return inbound.reply->send(query_fault_response(query.fault()));
  broker::DeadLetterFilter filter{query.filled("queue"), query.filled("consumerGroup")};
  answer_from_look(context, std::move(inbound.reply),
                   [context, tenant = std::move(inbound.tenant), filter = std::move(filter), range] {
                     const auto page = context->broker.dead_letters().page(tenant, filter, range);
                     return json_response(200, render_dlq_page(page, range));
                   });
}

void handle_dlq_purge(const SharedContext& context, Inbound inbound) {
  const Query query = query_of(inbound.request);
  auto queue = query.filled("queue");
  auto group = query.filled("consumerGroup");
  if (!queue) return inbound.reply->send(queue_required());
  if (!is_utf8(*queue) || !is_utf8(group.value_or("")))
    return inbound.reply->send(refusal_response(bad_request("queue and consumerGroup must be UTF-8")));
  context->broker.look(
      [context, inbound = std::move(inbound), queue = *std::move(queue), group = std::move(group)]() mutable {
        auto ids = context->broker.dead_letters().of_queue(inbound.tenant, queue, group);
        remove_letters(context, std::move(inbound), {queue, std::move(ids)},
                       [queue, group](std::uint64_t removed) {
                         return json_response(200, render_purged(queue, group, removed));
                       });
      });
}

void handle_message_delete(const SharedContext& context, Inbound inbound) {
  context->broker.look([context, inbound = std::move(inbound)]() mutable {
    const std::string partition = inbound.request.params.at(0);
    const std::string transaction_id = inbound.request.params.at(1);
    auto found = context->broker.dead_letters().of_message(inbound.tenant, partition, transaction_id);
    machine::DeadLetterDeleteCommand body;
    if (found) body = {std::move(found->queue), std::move(found->ids)};
    remove_letters(context, std::move(inbound), std::move(body),
                   [partition, transaction_id](std::uint64_t removed) {
                     return render_deleted(partition, transaction_id, removed);
                   });
  });
}

}  // namespace queen::api
