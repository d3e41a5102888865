// The reads of 10.3 that show one queue, its partitions, its depth and sizes, and the sums over queues.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/detail/context.h"
#include "broker/resources.h"

namespace queen::api {

enum class Label : bool { namespace_name, task };

std::string render_queue(std::string_view name, const broker::QueueView& queue);
// The same as `GET /api/v1/status/queues/:queue` has it.
std::string render_queue_status(std::string_view name, const broker::QueueView& queue);
std::string render_depth(std::string_view queue, const std::optional<std::string>& group,
                         const broker::DepthView& depth);
std::string render_sizes(std::string_view queue, const broker::SizesView& sizes);
std::string render_busiest(const broker::BusyView& busy);
std::string render_labels(Label label, const broker::QueuesAnswer& queues);
std::string render_overview(const broker::OverviewView& overview);

void handle_queue(const SharedContext& context, Inbound inbound);
void handle_depth(const SharedContext& context, Inbound inbound);
void handle_sizes(const SharedContext& context, Inbound inbound);
void handle_partitions(const SharedContext& context, Inbound inbound);
void handle_namespaces(const SharedContext& context, Inbound inbound);
void handle_tasks(const SharedContext& context, Inbound inbound);
void handle_overview(const SharedContext& context, Inbound inbound);

http::Response queue_not_found();

// Sends what `make()` gives, which walks more than a thread that serves connections has time for.
template <class Make>
void answer_from_look(const SharedContext& context, std::unique_ptr<Reply> reply, Make make) {
  context->broker.look([reply = std::move(reply), make = std::move(make)]() mutable { reply->send(make()); });
}

}  // namespace queen::api
