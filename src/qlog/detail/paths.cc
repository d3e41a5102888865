#include "qlog/detail/paths.h"

#include <fmt/format.h>

#include <charconv>

namespace queen::qlog::detail {
namespace {

std::string file_name(std::uint32_t file_id, std::string_view suffix) {
  return fmt::format("r{:08}{}", file_id, suffix);
}

template <class T>
std::optional<T> parse_number(std::string_view digits) {
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string log_directory(const std::string& root, LogId log) {
  return fmt::format("{}/q{}", root, log.value);
}
std::string record_file(const std::string& root, LogId log, std::uint32_t file_id) {
  return log_directory(root, log) + "/" + file_name(file_id, ".qlog");
}
std::string index_path(const std::string& root, LogId log, std::uint32_t file_id) {
  return log_directory(root, log) + "/" + file_name(file_id, ".qidx");
}
std::string compact_path(const std::string& root, LogId log, std::uint32_t file_id) {
  return log_directory(root, log) + "/" + file_name(file_id, ".compact");
}
std::string removed_note_path(const std::string& root) {
  return root + "/REMOVED";
}
std::string dead_directory(const std::string& root, LogId log) {
  return log_directory(root, log) + ".dead";
}

std::optional<LogId> parse_log_directory(std::string_view name) {
  if (!name.starts_with('q')) return std::nullopt;
  const auto id = parse_number<std::uint64_t>(name.substr(1));
  if (!id || fmt::format("q{}", *id) != name) return std::nullopt;
  return LogId{*id};
}

std::string directory_path(const std::string& root, LogId log, std::uint32_t first, std::uint32_t last) {
  return fmt::format("{}/dirx-{:08}-{:08}.qdx", log_directory(root, log), first, last);
}

std::optional<std::pair<std::uint32_t, std::uint32_t>> parse_directory_name(std::string_view name) {
  constexpr std::string_view kFront = "dirx-", kBack = ".qdx";
  const auto dash = name.rfind('-');
  if (!name.starts_with(kFront) || !name.ends_with(kBack) || dash < kFront.size()) return std::nullopt;
  const auto first = parse_number<std::uint32_t>(name.substr(kFront.size(), dash - kFront.size()));
  const auto last = parse_number<std::uint32_t>(name.substr(dash + 1, name.size() - dash - 1 - kBack.size()));
  if (!first || !last || *first == 0 || *last < *first) return std::nullopt;
  if (fmt::format("dirx-{:08}-{:08}.qdx", *first, *last) != name) return std::nullopt;
  return std::pair(*first, *last);
}

std::optional<std::uint32_t> parse_file_name(std::string_view name, std::string_view suffix) {
  if (!name.starts_with('r') || !name.ends_with(suffix) || name.size() < suffix.size() + 2)
    return std::nullopt;
  const auto id = parse_number<std::uint32_t>(name.substr(1, name.size() - 1 - suffix.size()));
  if (!id || *id == 0 || file_name(*id, suffix) != name) return std::nullopt;
  return id;
}

std::string parent_directory(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace queen::qlog::detail
