// The text format of Prometheus, version 0.0.4.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "broker/broker.h"
#include "http/server.h"

namespace queen::ops {

// Families one after the other: HELP and TYPE come once, before the first sample of each.
class PrometheusText {
 public:
  enum class Type : bool { gauge, counter };
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  // Samples that follow are of this family; one without samples is not shown.
  void family(std::string_view name, Type type, std::string_view help);
  void sample(Labels labels, std::uint64_t value);
  void sample(Labels labels, double value);
  std::string take() { return std::move(out_); }

 private:
  void begin(Labels labels);

  std::string out_;
  std::string_view name_, help_;
  Type type_ = Type::gauge;
  bool told_ = false;  // the family's HELP and TYPE are written
};

// The exposition of this node. Walks over all queues: on Broker::look().
http::Response prometheus_response(broker::Broker& broker);

}  // namespace queen::ops
