// Where the sources are, for tests that read golden files or pages of docs/.
#pragma once

#include <string>

namespace queen {

std::string source_dir();  // absolute, without a slash at its end

}  // namespace queen
