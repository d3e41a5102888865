// queen: one broker node.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "app/descriptors.h"
#include "app/node.h"
#include "app/signals.h"
#include "app/version.h"
#include "base/core_scrub.h"
#include "base/crash_points.h"
#include "disk/mapped_reads.h"

extern char** environ;

namespace queen::app {
namespace {

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view item = *at;
    names.emplace_back(item.substr(0, item.find('=')));
  }
  return names;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

// Descriptors that clients never get: the store, pipes, the sink's connections, files being rolled.
constexpr std::uint64_t kOwnDescriptors = 128;

constexpr int kRefused = 1;
constexpr int kUnknownFault = 2;  // BR-20

// Memory maps that this process may have; the kernel's default where it does not say.
std::uint64_t map_limit() {
  std::uint64_t limit = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  return limit > 0 ? limit : 65530;
}

int fatal(Logger log, const std::string& text, int status = kRefused) {
  log.error("FATAL: " + text);
  return status;
}

int run() {
  const auto lookup = [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  const sigset_t signals = block_stop_signals();
  SystemClock clock;
  SystemRandom random;
  auto settings = read_settings(lookup, environment_names(), std::thread::hardware_concurrency(), host_name(),
                                random.next());
  if (!settings) return fatal(Logger(*make_stdout_log("info", false), "boot"), settings.error().what);

  const auto log_sink = make_stdout_log(settings->log_level, settings->log_json);
  Logger boot(*log_sink, "boot");
  boot.info("queen", {{"version", kVersion}, {"pid", getpid()}});
  for (const auto& warning : settings->warnings) {
    boot.warn("setting", {{"name", warning.name}, {"value", warning.value}, {"why", warning.text}});
  }
  for (const auto& [heading, line] : settings->shown)
    boot.info("settings", {{"of", heading}, {"values", line}});
  boot.info("config: security", {{"encryption_key", settings->encryption_key_shown},
                                 {"tenancy_header", settings->api.tenancy_header}});
  if (settings->cipher) boot.with_target("encryption").info("encryption service initialized (AES-256-GCM)");
  CrashPoints crash_points(kill_this_process);
  if (!settings->test_faults.empty()) {
    if (auto armed = crash_points.arm(settings->test_faults); !armed)
      return fatal(boot, "QUEEN_TEST_FAULTS: " + armed.error().what, kUnknownFault);
    settings->broker.crash_points = &crash_points;
  }
  // Many queues are many files, and every client is a descriptor (HD-28).
  const DescriptorLimit limit = raise_descriptor_limit();
  boot.info("descriptors", {{"soft", limit.before}, {"raised_to", limit.now}});
  // A small limit keeps fewer files open; as many again are between their write and their sync.
  auto& fd_cache = settings->broker.logs.fd_cache;
  fd_cache = std::min(fd_cache, static_cast<std::uint32_t>(std::max<std::uint64_t>(limit.now / 8, 8)));
  const std::uint64_t for_files = 2 * std::uint64_t{settings->broker.logs.fd_cache} + kOwnDescriptors;
  settings->http.connections_max = limit.now > for_files + 16 ? limit.now - for_files : 16;
  settings->descriptors_max = limit.now;

  settings->broker.logs.maps_limit = map_limit();
  settings->broker.logs.pause = [](std::int64_t us) {
    std::this_thread::sleep_for(std::chrono::microseconds(us));
  };
  disk::end_process_on_bus_errors();
  scrub_secrets_on_fatal_signals();

  Node node(std::move(*settings), clock, random, *log_sink);
  if (auto started = node.start(); !started) return fatal(boot, started.error().what);
  wait_for_stop(signals);
  stop_at_once_on_next(signals);
  node.stop();
  return 0;
}

}  // namespace
}  // namespace queen::app

int main(int argc, char** argv) {
  CLI::App app{"queen: a durable message broker over HTTP, with an exactly-once S3 sink"};
  bool version = false;
  bool markdown = false;
  app.add_flag("--version", version, "Print the version and end");
  app.add_flag("--settings-markdown", markdown, "Print docs/configuration.md and end");
  app.footer([] { return queen::config::as_help(queen::app::all_rows()); });
  CLI11_PARSE(app, argc, argv);
  if (version) {
    fmt::print("queen {}\n", queen::app::kVersion);
    return 0;
  }
  if (markdown) {
    fmt::print("{}", queen::config::as_markdown(queen::app::all_rows()));
    return 0;
  }
  const int status = queen::app::run();
  std::fflush(stdout);
  return status;
}
