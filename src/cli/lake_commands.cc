#include "cli/lake_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/text.h"
#include "cli/broker_log.h"
#include "cli/lake_settings.h"
#include "cli/lake_show.h"
#include "cli/lake_verify.h"

namespace queen::cli {
namespace {

constexpr int kRight = 0, kWrong = 1, kUnusable = 2;

constexpr const char* kFooter =
    "The bucket is the one of the QUEEN_S3_* variables that the broker's sink takes; an option wins over its "
    "variable. The secret "
    "key comes from QUEEN_S3_SECRET_KEY alone.\nExit status: 0 all is well, 1 something is wrong with the "
    "lake, 2 wrong usage, or "
    "bucket or broker cannot be read.";

struct LakeArguments {
  LakeOptions options;
  std::string url, from, to;
  std::optional<std::string> partition;
  bool json = false;
};

// Only what the client cannot tell in its errors: the sentence of a failed call says the rest.
class NoLog final : public LogSink {
 public:
  bool enabled(LogLevel, std::string_view) const override { return false; }
  void write(LogLevel, std::string_view, std::string_view, std::span<const LogField>) override {}
};

// A bucket over the network and what it needs.
struct OpenLake {
  SystemClock clock;
  SystemRandom random;
  NoLog log;
  LakeSettings settings;
  std::unique_ptr<s3::ObjectStore> store;
  std::unique_ptr<LakeBucket> bucket;
};

std::optional<std::string> variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

int failed(const Error& error) {
  fmt::print(stderr, "queenctl: {}\n", error.what);
  return error.code == Errc::corrupt ? kWrong : kUnusable;
}

Result<std::unique_ptr<OpenLake>> open_lake(const LakeOptions& options) {
  auto settings = lake_settings(options, variable);
  if (!settings) return std::move(settings).error();
  auto lake = std::make_unique<OpenLake>();
  lake->settings = *std::move(settings);
  lake->store = s3::make_s3_client(lake->settings.client, lake->clock, lake->random, Logger(lake->log, "s3"));
  lake->bucket = std::make_unique<LakeBucket>(*lake->store, lake->settings.path);
  return lake;
}

int verify(const LakeArguments& arguments) {
  const auto lake = open_lake(arguments.options);
  if (!lake) return failed(lake.error());
  std::unique_ptr<BrokerLog> log;
  if (!arguments.url.empty()) {
    auto connected = connect_broker(arguments.url, arguments.options.tenant, arguments.options.queue);
    if (!connected) return failed(connected.error());
    log = *std::move(connected);
  }
  const auto report =
      verify_lake(*(*lake)->bucket, {(*lake)->settings.sink, (*lake)->settings.align, log.get()});
  if (!report) {
    fmt::print(stderr, "queenctl: {}\n", report.error().what);
    return kUnusable;
  }
  fmt::print("{}", arguments.json ? report->as_json() : report->as_text());
  return report->findings.any() ? kWrong : kRight;
}

Result<LakeStretch> stretch_of(const LakeArguments& arguments) {
  LakeStretch stretch;
  const auto read = [](const std::string& text, const char* option, std::int64_t& into) -> Status {
    if (text.empty()) return {};
    const auto us = parse_iso_micros(text);
    if (!us)
      return Error{Errc::invalid, fmt::format("{} {} is no time like 2026-11-07T09:00:00Z", option, text)};
    into = *us;
    return {};
  };
  if (auto from = read(arguments.from, "--from", stretch.from); !from) return from.error();
  if (auto to = read(arguments.to, "--to", stretch.to); !to) return to.error();
  if (stretch.from >= stretch.to) return Error{Errc::invalid, "--from is not before --to"};
  return stretch;
}

bool print_line(const std::string& line) {
  return std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fputc('\n', stdout) != EOF;
}

int show(const LakeArguments& arguments, bool windows) {
  const auto stretch = stretch_of(arguments);
  if (!stretch) return failed(stretch.error());
  const auto lake = open_lake(arguments.options);
  if (!lake) return failed(lake.error());
  LakeBucket& bucket = *(*lake)->bucket;
  const auto done =
      windows ? list_windows(bucket, *stretch, arguments.json ? LakeText::json : LakeText::plain, print_line)
              : print_records(bucket, *stretch, arguments.partition, print_line);
  return done ? kRight : failed(done.error());
}

void add_bucket_options(CLI::App& command, LakeArguments& arguments) {
  LakeOptions& options = arguments.options;
  command.add_option("QUEUE", options.queue, "The queue, by its plain name")->required();
  command.add_option("--endpoint", options.endpoint,
                     "http(s)://host[:port] of the store (QUEEN_S3_ENDPOINT)");
  command.add_option("--region", options.region, "The region that requests are signed for (QUEEN_S3_REGION)");
  command.add_option("--bucket", options.bucket, "The bucket (QUEEN_S3_BUCKET)");
  command.add_option("--prefix", options.prefix, "The root of the keys (QUEEN_S3_PREFIX, else queen)");
  command.add_option("--access-key", options.access_key, "The access key (QUEEN_S3_ACCESS_KEY)");
  command.add_flag("--path-style", options.path_style,
                   "The bucket is in the path, not in the host name (QUEEN_S3_PATH_STYLE)");
  command.add_option("--tenant", options.tenant, "The tenant of the queue; the default one without it");
  command.footer(kFooter);
}

void add_stretch_options(CLI::App& command, LakeArguments& arguments, const char* what) {
  command.add_option("--from", arguments.from, fmt::format("Only {} at or after this time (ISO, UTC)", what));
  command.add_option("--to", arguments.to, fmt::format("Only {} before this time (ISO, UTC)", what));
}

}  // namespace

std::function<int()> add_lake_commands(CLI::App& app) {
  const auto arguments = std::make_shared<LakeArguments>();  // shared with the call given back
  auto* lake = app.add_subcommand("lake", "Look into the copy of a queue in a bucket; never changes it");
  lake->require_subcommand(1);

  auto* verifying =
      lake->add_subcommand("verify", "Check that every committed record is there once, and nothing else");
  add_bucket_options(*verifying, *arguments);
  verifying->add_option("--url", arguments->url,
                        "Also compare with the log of the broker at http(s)://host[:port]");
  verifying->add_option("--sink", arguments->options.sink,
                        "The name of the sink (QUEEN_S3_SINK, else default)");
  verifying->add_option("--align", arguments->options.align,
                        "hour, day or none, as the sink has it (QUEEN_S3_ALIGN); without it any is right");
  verifying->add_flag("--json", arguments->json, "One JSON document instead of text");

  auto* listing = lake->add_subcommand("ls", "List windows, one line each");
  add_bucket_options(*listing, *arguments);
  add_stretch_options(*listing, *arguments, "windows that hold a moment");
  listing->add_flag("--json", arguments->json, "One JSON object per line");

  auto* printing =
      lake->add_subcommand("cat", "Print records as JSON lines, whatever the format of the objects");
  add_bucket_options(*printing, *arguments);
  add_stretch_options(*printing, *arguments, "records stamped");
  printing->add_option("--partition", arguments->partition, "Only records of this partition");

  return [arguments, verifying, listing] {
    if (verifying->parsed()) return verify(*arguments);
    return show(*arguments, listing->parsed());
  };
}

}  // namespace queen::cli
