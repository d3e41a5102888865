// The `lake` commands on the command line.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace queen::cli {

// Adds `lake verify`, `lake ls` and `lake cat`. The call given back runs the one that was parsed and answers
// its exit status: 0 all is well, 1 something is wrong with the lake, 2 wrong usage or a bucket or broker
// that cannot be read.
std::function<int()> add_lake_commands(CLI::App& app);

}  // namespace queen::cli
