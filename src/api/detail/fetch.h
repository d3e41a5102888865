// POST /api/v1/fetch: reads by offset, with a long poll.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/detail/context.h"
#include "api/detail/json_check.h"

namespace queen::api {

struct FetchRequest {
  std::vector<broker::FetchEntry> entries;
  std::int64_t wait_ms = 0;    // 0..30,000
  std::int64_t bytes_min = 1;  // 0 = never wait
};
// Errors: bad_body; its text is what §8 of the contract names.
broker::Answer<FetchRequest> parse_fetch(std::string_view body);

// A partition's name: a string, or a number whose text is the name; `Default` when there is none. Nothing for
// any other value.
std::optional<std::string> partition_of(const JsonFields& fields);

// O-3: an entry has an error, or enough bytes are there.
bool fetch_satisfied(const FetchRequest& request, const std::vector<broker::FetchEntryAnswer>& answers);
std::string render_fetch(const FetchRequest& request, const std::vector<broker::FetchEntryAnswer>& answers);
// Reads all entries; at most about `bytes_max` payload bytes beyond the first record of each.
broker::Answer<std::vector<broker::FetchEntryAnswer>> read_entries(broker::Broker& broker,
                                                                   const std::string& tenant,
                                                                   const FetchRequest& request,
                                                                   std::uint64_t bytes_max);

void handle_fetch(const SharedContext& context, Inbound inbound);

}  // namespace queen::api
