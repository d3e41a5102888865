#include "broker/meter.h"

#include <algorithm>

namespace queen::broker {

LagSum& LagSum::operator+=(const LagSum& other) {
  count += other.count;
  sum_us += other.sum_us;
  max_us = std::max(max_us, other.max_us);
  return *this;
}

OpCounts& OpCounts::operator+=(const OpCounts& other) {
  for (std::size_t i = 0; i < kOps; ++i) counts[i] += other.counts[i];
  lag += other.lag;
  return *this;
}

void GaugeLooks::look(const std::array<std::uint64_t, kGauges>& values) {
  GaugeLooks one;
  one.looks = 1;
  for (std::size_t i = 0; i < kGauges; ++i) one.gauges[i] = {values[i], values[i], values[i], values[i]};
  *this += one;
}

GaugeLooks& GaugeLooks::operator+=(const GaugeLooks& later) {
  if (later.looks == 0) return *this;
  if (looks == 0) return *this = later;
  looks += later.looks;
  for (std::size_t i = 0; i < kGauges; ++i) {
    GaugeRange& mine = gauges[i];
    const GaugeRange& other = later.gauges[i];
    mine = {mine.sum + other.sum, std::min(mine.min, other.min), std::max(mine.max, other.max), other.last};
  }
  return *this;
}

}  // namespace queen::broker
