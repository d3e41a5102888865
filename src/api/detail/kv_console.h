// What the console asks of the key/value store: GET /api/v1/resources/kv/namespaces, POST
// /api/v1/resources/kv/list.
#pragma once

#include <string>
#include <string_view>

#include "api/detail/context.h"
#include "api/detail/kv.h"
#include "broker/kv_reads.h"

namespace queen::api {

tl::expected<broker::KvListQuery, KvFault> parse_kv_list(std::string_view body);
std::string render_kv_list(const broker::KvListQuery& query, const broker::KvListPage& page);

void handle_kv_namespaces(const SharedContext& context, Inbound inbound);
void handle_kv_list(const SharedContext& context, Inbound inbound);

}  // namespace queen::api
