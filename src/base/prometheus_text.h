// The text format of Prometheus, version 0.0.4.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace queen {

// Families one after the other: HELP and TYPE come once, before the first sample of each.
class PrometheusText {
 public:
  enum class Type : std::uint8_t { gauge, counter, histogram };
  // Whether a family without samples is shown all the same.
  enum class Shown : bool { with_samples, always };
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

  // Samples that follow are of this family.
  void family(std::string_view name, Type type, std::string_view help, Shown shown = Shown::with_samples);
  void sample(const Labels& labels, std::uint64_t value);
  void sample(const Labels& labels, double value);
  // One series of a histogram: `counts[i]` observations above `bounds[i - 1]` and at most `bounds[i]`, the
  // last of `counts` above every bound.
  void histogram(const Labels& labels, std::span<const std::uint64_t> bounds,
                 std::span<const std::uint64_t> counts, std::uint64_t sum);
  std::string take() { return std::move(out_); }

 private:
  void tell();
  void begin(std::string_view suffix, const Labels& labels);

  std::string out_;
  std::string_view name_, help_;
  Type type_ = Type::gauge;
  bool told_ = false;  // the family's HELP and TYPE are written
};

}  // namespace queen
