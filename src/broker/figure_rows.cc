#include "broker/figure_rows.h"

#include <algorithm>

#include "base/hash.h"
#include "base/ids.h"

namespace queen::broker {
namespace {

constexpr BytesView kMagic = "QNFIGURE";
constexpr std::uint32_t kVersion = 1;
constexpr std::uint8_t kNode = 1, kQueue = 2;
constexpr std::size_t kTenantBytes = 36;

void append_varint(Bytes& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

std::uint64_t read_varint(ByteReader& in) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    const auto byte = in.le<std::uint8_t>();
    value |= shift < 64 ? static_cast<std::uint64_t>(byte & 0x7F) << shift : 0;
    if ((byte & 0x80) == 0) return value;
  }
  in.fail();
  return 0;
}

void append_lag(Bytes& to, const LagSum& lag) {
  append_varint(to, lag.count);
  append_varint(to, lag.sum_us);
  append_varint(to, lag.max_us);
}

LagSum read_lag(ByteReader& in) {
  LagSum out;
  out.count = read_varint(in);
  out.sum_us = read_varint(in);
  out.max_us = read_varint(in);
  return out;
}

void append_ops(Bytes& to, const OpCounts& ops) {
  to.push_back(static_cast<char>(kOps));
  for (const std::uint64_t count : ops.counts) append_varint(to, count);
  append_lag(to, ops.lag);
}

OpCounts read_ops(ByteReader& in) {
  OpCounts out;
  const auto written = in.le<std::uint8_t>();
  for (std::size_t i = 0; i < written; ++i) {
    const std::uint64_t count = read_varint(in);
    if (i < kOps) out.counts[i] = count;
  }
  out.lag = read_lag(in);
  return out;
}

void append_record(Bytes& to, BytesView body) {
  append_le(to, static_cast<std::uint32_t>(body.size()));
  append_le(to, static_cast<std::uint32_t>(xxh3_64(body)));
  to.append(body);
}

bool read_node(ByteReader& in, const FigureVisitor& visitor) {
  NodeRow row;
  row.from_us = in.le<std::int64_t>();
  row.until_us = in.le<std::int64_t>();
  row.ops = read_ops(in);
  row.loop = read_lag(in);
  row.gauges.looks = read_varint(in);
  const auto gauges = in.le<std::uint8_t>();
  for (std::size_t i = 0; i < gauges; ++i) {
    GaugeRange range;
    range.sum = read_varint(in);
    range.min = read_varint(in);
    range.max = read_varint(in);
    range.last = read_varint(in);
    if (i < kGauges) row.gauges.gauges[i] = range;
  }
  if (!in.done()) return false;
  if (visitor.node) visitor.node(row);
  return true;
}

bool read_queue(ByteReader& in, const FigureVisitor& visitor) {
  QueueOpsRow row;
  row.from_us = in.le<std::int64_t>();
  row.tenant = in.take(kTenantBytes);
  row.queue = in.sized16();
  row.ops = read_ops(in);
  row.parked = read_varint(in);
  if (!in.done()) return false;
  if (visitor.queue) visitor.queue(std::move(row));
  return true;
}

}  // namespace

Bytes figure_file_header() {
  Bytes out(kMagic);
  append_le(out, kVersion);
  append_le(out, std::uint32_t{0});
  return out;
}

void append_figure(Bytes& to, const NodeRow& row) {
  Bytes body;
  body.push_back(static_cast<char>(kNode));
  append_le(body, row.from_us);
  append_le(body, row.until_us);
  append_ops(body, row.ops);
  append_lag(body, row.loop);
  append_varint(body, row.gauges.looks);
  body.push_back(static_cast<char>(kGauges));
  for (const GaugeRange& range : row.gauges.gauges)
    for (const std::uint64_t value : {range.sum, range.min, range.max, range.last})
      append_varint(body, value);
  append_record(to, body);
}

void append_figure(Bytes& to, const QueueOpsRow& row) {
  Bytes body;
  body.push_back(static_cast<char>(kQueue));
  append_le(body, row.from_us);
  body.append(row.tenant).resize(1 + sizeof row.from_us + kTenantBytes);
  append_sized16(body, row.queue);
  append_ops(body, row.ops);
  append_varint(body, row.parked);
  append_record(to, body);
}

bool read_figures(BytesView bytes, const FigureVisitor& visitor) {
  ByteReader in(bytes);
  if (in.take(kFigureHeaderBytes) != figure_file_header()) return false;
  while (in.left() > 0) {
    const auto size = in.le<std::uint32_t>();
    const auto check = in.le<std::uint32_t>();
    if (size > kFigureRecordBytesMax) return false;
    const BytesView body = in.take(size);
    if (!in.ok() || static_cast<std::uint32_t>(xxh3_64(body)) != check) return false;
    ByteReader fields(body);
    const auto kind = fields.le<std::uint8_t>();
    const bool whole =
        kind == kNode ? read_node(fields, visitor) : kind == kQueue && read_queue(fields, visitor);
    if (!whole) return false;
  }
  return true;
}

}  // namespace queen::broker
