// Names under the directory of the queue logs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/ids.h"

namespace queen::qlog::detail {

std::string log_directory(const std::string& root, LogId log);                        // <root>/q<id>
std::string record_file(const std::string& root, LogId log, std::uint32_t file_id);   // …/r00000001.qlog
std::string index_path(const std::string& root, LogId log, std::uint32_t file_id);    // …/r00000001.qidx
std::string compact_path(const std::string& root, LogId log, std::uint32_t file_id);  // …/r00000001.compact
std::string removed_note_path(const std::string& root);                               // <root>/REMOVED
std::string dead_directory(const std::string& root, LogId log);                       // <root>/q<id>.dead
std::string directory_path(const std::string& root, LogId log, std::uint32_t first, std::uint32_t last);

// `q<decimal>` without leading zeros, nothing else.
std::optional<LogId> parse_log_directory(std::string_view name);
// `r` + at least eight digits + `suffix`; the number is not 0 and is written as we write it.
std::optional<std::uint32_t> parse_file_name(std::string_view name, std::string_view suffix);

// `dirx-<first>-<last>.qdx`, each as in a file name.
std::optional<std::pair<std::uint32_t, std::uint32_t>> parse_directory_name(std::string_view name);

// The directory that holds `path`.
std::string parent_directory(const std::string& path);

}  // namespace queen::qlog::detail
