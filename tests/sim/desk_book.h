// What a row may be whose only writer was answered, or not.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace queen::sim {

// Rows by name. Each has one writer, whose calls come one after the other; a call that was not answered may
// still take place later, or never.
template <class Row>
class OneWriterBook {
 public:
  void answered(const std::string& name, Row row) { rows_[name].sure = std::move(row); }
  void unknown(const std::string& name, Row row) { rows_[name].maybe.push_back(std::move(row)); }
  // Whether a reader may see this, once nothing is on its way.
  bool explains(const std::string& name, const Row& seen) const {
    const auto& known = rows_.at(name);
    return known.sure == seen || std::find(known.maybe.begin(), known.maybe.end(), seen) != known.maybe.end();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, known] : rows_) out.push_back(name);
    return out;
  }

 private:
  struct Known {
    Row sure{};  // none, before the first answer
    std::vector<Row> maybe;
  };
  std::map<std::string, Known> rows_;
};

}  // namespace queen::sim
