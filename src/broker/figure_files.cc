#include "broker/figure_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace queen::broker {
namespace {

constexpr std::int64_t kHourUs = 3'600'000'000;
constexpr std::uint64_t kFileBytesMax = 256ULL << 20;  // no file of ours comes near it
constexpr std::uint64_t kFilesOfRows = 8;  // at least so many when rows are at their most: whole files go
constexpr std::string_view kNames[] = {"node", "queue"};

std::int64_t hour_of(std::int64_t us) {
  return us - ((us % kHourUs) + kHourUs) % kHourUs;
}

bool number(std::string_view text, auto& out) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, out);
  return parsed.ec == std::errc{} && parsed.ptr == end && !text.empty();
}

}  // namespace

void FigureFiles::open() {
  const auto names = disk_.list(directory_);
  if (!names) return;  // no rows yet, or none that can be read
  for (const auto& entry : *names) {
    // kind-hour-serial.rows
    std::string_view name = entry.name;
    constexpr std::string_view kEnd = ".rows";
    if (!name.ends_with(kEnd)) continue;
    name.remove_suffix(kEnd.size());
    const std::size_t first = name.find('-'), second = name.rfind('-');
    Part part;
    std::int64_t hour = 0;
    if (first == std::string_view::npos || first == second ||
        !number(name.substr(first + 1, second - first - 1), hour) ||
        !number(name.substr(second + 1), part.serial) || hour < 0 || hour > 1'000'000'000)
      continue;
    if (name.substr(0, first) == kNames[0])
      part.kind = Kind::node;
    else if (name.substr(0, first) == kNames[1])
      part.kind = Kind::queue;
    else
      continue;
    part.hour_us = hour * kHourUs;
    part.path = directory_ + "/" + entry.name;
    parts_.push_back(std::move(part));
  }
  for (Part& part : parts_) {
    const auto bytes = disk::read_file(disk_, part.path, kFileBytesMax);
    if (!bytes) continue;
    part.bytes = bytes->size();
    const bool whole = read_figures(*bytes, {[&](const NodeRow& row) {
                                               ++part.rows;
                                               newest_us_ = std::max(newest_us_, row.until_us);
                                             },
                                             [&](const QueueOpsRow&) { ++part.rows; }});
    if (!whole) log_.warn("figures_damaged", {{"file", part.path}, {"rows", part.rows}});
  }
}

bool FigureFiles::append(Kind kind, std::int64_t from_us, BytesView records, std::uint64_t rows) {
  if (rows == 0) return true;
  const Status status = write(kind, hour_of(from_us), records, rows);
  if (!status && !failing_) log_.warn("figures_not_written", {{"why", status.error().what}});
  failing_ = !status;
  return !failing_;
}

Status FigureFiles::write(Kind kind, std::int64_t hour_us, BytesView records, std::uint64_t rows) {
  Writer& to = writer(kind);
  const bool full = to.file && parts_[to.part].rows >= limits_.queue_rows_max / kFilesOfRows;
  if (!to.file || parts_[to.part].hour_us != hour_us || (kind == Kind::queue && full))
    if (Status status = begin_file(kind, hour_us); !status) return status;
  Part& part = parts_[to.part];
  if (Status status = to.file->pwrite(part.bytes, records); !status) {
    // What cannot be cut back stays behind; the next rows go to a file of their own.
    if (!to.file->truncate(part.bytes)) to.file.reset();
    return status;
  }
  part.bytes += records.size();
  part.rows += rows;
  return {};
}

// Never behind the rows of an earlier run: its last write may have ended in the middle of a record.
Status FigureFiles::begin_file(Kind kind, std::int64_t hour_us) {
  writer(kind).file.reset();
  if (Status status = disk_.make_dirs(directory_); !status) return status;
  Part part{kind, hour_us, 1, 0, kFigureHeaderBytes, {}};
  for (const Part& other : parts_)
    if (other.kind == kind && other.hour_us == hour_us) part.serial = std::max(part.serial, other.serial + 1);
  part.path = fmt::format("{}/{}-{}-{}.rows", directory_, kNames[static_cast<std::size_t>(kind)],
                          hour_us / kHourUs, part.serial);
  auto file = disk_.open(part.path, disk::Open::create);
  if (!file) return file.error();
  if (Status status = (*file)->truncate(0); !status) return status;
  if (Status status = (*file)->pwrite(0, figure_file_header()); !status) return status;
  parts_.push_back(std::move(part));
  writer(kind).file = std::move(*file);
  writer(kind).part = parts_.size() - 1;
  return {};
}

void FigureFiles::remove(std::size_t at) {
  ignore(disk_.remove_file(parts_[at].path), "it is found again at the next start");
  parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(at));
  for (Writer& one : writers_) {
    if (!one.file || one.part < at) continue;
    if (one.part == at)
      one.file.reset();
    else
      --one.part;
  }
}

void FigureFiles::prune(std::int64_t now_us) {
  const auto hours = [&](Kind kind) { return kind == Kind::node ? limits_.node_hours : limits_.queue_hours; };
  for (std::size_t i = parts_.size(); i-- > 0;)
    if (parts_[i].hour_us + kHourUs * (1 + hours(parts_[i].kind)) <= now_us) remove(i);
  for (;;) {
    std::uint64_t rows = 0;
    std::size_t oldest = parts_.size();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].kind != Kind::queue) continue;
      rows += parts_[i].rows;
      const auto age = [&](std::size_t at) { return std::pair(parts_[at].hour_us, parts_[at].serial); };
      if (oldest == parts_.size() || age(i) < age(oldest)) oldest = i;
    }
    if (rows <= limits_.queue_rows_max || oldest == parts_.size()) return;
    remove(oldest);
  }
}

void FigureFiles::read(Kind kind, std::int64_t from_us, std::int64_t to_us,
                       const FigureVisitor& visitor) const {
  for (const Part& part : parts_) {
    if (part.kind != kind || part.hour_us > to_us || part.hour_us + kHourUs <= from_us) continue;
    if (const auto bytes = disk::read_file(disk_, part.path, kFileBytesMax)) read_figures(*bytes, visitor);
  }
}

}  // namespace queen::broker
