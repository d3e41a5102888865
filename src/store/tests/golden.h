// Golden files of the store's formats: tests/golden/store/<name>.hex, hex digits with free white space.
#pragma once

#include <cctype>
#include <fstream>
#include <string>

#include "source_dir.h"

namespace queen::store {

inline std::string golden(const std::string& name) {
  std::ifstream file(source_dir() + "/tests/golden/store/" + name + ".hex");
  std::string out;
  for (char c = 0; file.get(c);)
    if (std::isspace(static_cast<unsigned char>(c)) == 0) out.push_back(c);
  return out;
}

}  // namespace queen::store
