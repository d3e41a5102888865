// The records of the files that keep figures. Bytes: docs/formats/metrics.md.
#pragma once

#include <cstdint>
#include <functional>

#include "base/bytes.h"
#include "broker/meter.h"

namespace queen::broker {

inline constexpr std::size_t kFigureHeaderBytes = 16;
inline constexpr std::size_t kFigureRecordBytesMax = 4096;

Bytes figure_file_header();
void append_figure(Bytes& to, const NodeRow& row);
void append_figure(Bytes& to, const QueueOpsRow& row);

// Calls the visitors for the rows of a whole file, in order. False when it ends before the end of `bytes`,
// because of a header or record that is not whole or not ours; the rows before that were given. Counters that
// this build does not know are passed over, and those that an older one did not write are 0.
struct FigureVisitor {
  std::function<void(const NodeRow&)> node;
  std::function<void(QueueOpsRow)> queue;
};
bool read_figures(BytesView bytes, const FigureVisitor& visitor);

}  // namespace queen::broker
