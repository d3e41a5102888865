// queenctl: looks after a Queen installation. Exit status: 0 all is well, 1 damage was found, 2 wrong usage
// or something that cannot be read.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "cli/data_dump.h"
#include "cli/data_verify.h"
#include "cli/lake_commands.h"
#include "disk/mapped_reads.h"

namespace queen::cli {
namespace {

constexpr int kHealthy = 0, kDamaged = 1, kUnusable = 2;

// Progress goes to stderr, so that stdout holds the answer alone.
class StderrLog final : public LogSink {
 public:
  bool enabled(LogLevel level, std::string_view) const override { return level >= LogLevel::info; }
  void write(LogLevel, std::string_view, std::string_view event, std::span<const LogField> fields) override {
    std::string line(event);
    for (const auto& field : fields) line += fmt::format(" {}={}", field.key, field.text);
    fmt::print(stderr, "{}\n", line);
  }
};

int unusable(const Error& error) {
  fmt::print(stderr, "queenctl: {}\n", error.what);
  return kUnusable;
}

int verify(const std::string& directory, bool json) {
  const auto disk = disk::make_posix_disk();
  SystemClock clock;
  StderrLog log;
  const auto report = verify_directory(*disk, directory, clock, Logger(log, "verify"));
  if (!report) return unusable(report.error());
  fmt::print("{}", json ? report->as_json() : report->as_text());
  return report->damaged ? kDamaged : kHealthy;
}

struct DumpArguments {
  std::string directory, queue, keyspace;
  std::string tenant{kDefaultTenant};
  std::optional<std::uint64_t> log;
  std::uint64_t from = 0;
  bool json = false, payloads = false;
};

Result<DumpWhat> what_of(const DumpArguments& arguments, disk::Disk& disk) {
  DumpWhat what;
  what.json = arguments.json;
  what.payloads = arguments.payloads ? Payloads::shown : Payloads::hidden;
  what.from_seq = arguments.from;
  const bool of_logs = arguments.log || !arguments.queue.empty() || arguments.from > 0;
  what.logs = of_logs || arguments.keyspace.empty();
  what.store = !of_logs || !arguments.keyspace.empty();
  if (arguments.log) what.only_logs.push_back(LogId{*arguments.log});
  if (!arguments.queue.empty()) {
    auto logs = logs_of_queue(disk, arguments.directory, arguments.tenant, arguments.queue);
    if (!logs) return std::move(logs).error();
    what.only_logs.insert(what.only_logs.end(), logs->begin(), logs->end());
  }
  if (arguments.keyspace.empty()) return what;
  const auto found = std::ranges::find(store::kKeyspaceNames, arguments.keyspace);
  if (found == store::kKeyspaceNames.end())
    return Error{Errc::invalid, fmt::format("{} is no keyspace; they are {}", arguments.keyspace,
                                            fmt::join(store::kKeyspaceNames, ", "))};
  what.keyspace = static_cast<store::Keyspace>(found - store::kKeyspaceNames.begin());
  return what;
}

int dump(const DumpArguments& arguments) {
  const auto disk = disk::make_posix_disk();
  const auto what = what_of(arguments, *disk);
  if (!what) return unusable(what.error());
  bool damaged = false;
  const auto done = dump_directory(*disk, arguments.directory, *what, [&](const std::string& line) {
    damaged = damaged || line.starts_with("damage ") || line.starts_with(R"({"line":"damage")");
    fmt::print("{}\n", line);
  });
  if (!done) return unusable(done.error());
  return damaged ? kDamaged : kHealthy;
}

int run(int argc, char** argv) {
  CLI::App app{"queenctl: looks after a Queen installation"};
  app.set_version_flag("--version", "queenctl " QUEEN_VERSION);
  app.require_subcommand(1);
  const auto run_lake = add_lake_commands(app);
  auto* data =
      app.add_subcommand("data", "Look into the data directory of a node that is stopped; never changes it");
  data->require_subcommand(1);

  std::string directory;
  bool json = false;
  auto* verifying = data->add_subcommand("verify", "Run every check of a boot and of the scrubs");
  verifying->add_option("DIR", directory, "The data directory (QUEEN_RAFT_DIR)")->required();
  verifying->add_flag("--json", json, "One JSON document instead of text");

  DumpArguments arguments;
  auto* dumping = data->add_subcommand("dump", "List records and rows, one line each");
  dumping->add_option("DIR", arguments.directory, "The data directory (QUEEN_RAFT_DIR)")->required();
  auto* log = dumping->add_option("--log", arguments.log, "Only this log, by its number");
  dumping->add_option("--queue", arguments.queue, "Only the logs of this queue")->excludes(log);
  dumping->add_option("--tenant", arguments.tenant, "The tenant of --queue; the default one without it");
  dumping->add_option("--from", arguments.from, "Only records of this entry and later ones");
  dumping->add_option("--keyspace", arguments.keyspace, "Only rows of this table of the store");
  dumping->add_flag("--json", arguments.json, "One JSON object per line");
  dumping->add_flag("--payloads", arguments.payloads, "Show what producers and clients stored, too");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kHealthy : kUnusable;
  }
  if (!data->parsed()) return run_lake();
  return verifying->parsed() ? verify(directory, json) : dump(arguments);
}

}  // namespace
}  // namespace queen::cli

int main(int argc, char** argv) {
  queen::disk::end_process_on_bus_errors();
  const int status = queen::cli::run(argc, argv);
  return std::fflush(stdout) == 0 ? status : 2;
}
