#include "cli/data_verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "broker/boot.h"
#include "broker/placement.h"
#include "cli/coverage.h"
#include "cli/data_directory.h"
#include "machine/check_state.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::cli {
namespace {

using store::Keyspace;

// Above every seq and small enough that bytes which are none are told apart: used where the checkpoint that
// would say it cannot be read.
constexpr std::uint64_t kUnknownDurable = 1ULL << 40;

constexpr std::array<std::string_view, 10> kRootNames = {
    "LOCK", "store", "qlog", "raft", "snapshots", "local.db", "dash.db", "reserve.bin", "groups", "figures"};

class ReportFindings final : public Findings {
 public:
  explicit ReportFindings(VerifyReport& report) : report_(report) {}
  void add(Finding finding) override {
    if (finding.severity == Severity::damage) report_.damaged = true;
    if (finding.boot == Boot::refused) report_.would_boot = false;
    if (report_.findings.size() < kFindingsMax)
      report_.findings.push_back(std::move(finding));
    else
      ++report_.left_out;
  }

 private:
  VerifyReport& report_;
};

class Verification {
 public:
  Verification(disk::Disk& disk, const std::string& directory, Clock& clock, Logger log)
      : disk_(disk), directory_(directory), clock_(clock), log_(std::move(log)), findings_(report_) {
    report_.directory = directory;
  }

  Result<VerifyReport> run() {
    if (auto done = look_at_root(); !done) return std::move(done).error();
    log_.info("verifying_store", {{"path", directory_ + "/store"}});
    if (auto done = look_at_store(); !done) return std::move(done).error();
    const qlog::DurableState durable = durable_state();
    log_.info("verifying_logs", {{"path", directory_ + "/qlog"}, {"durable_index", durable.durable_index}});
    Coverage coverage({store_, durable, directory_ + "/qlog", store_known_, report_.store.complete},
                      findings_);
    const auto appends_of = broker::appends_of_entry();
    auto logs = qlog::verify_logs({disk_, directory_ + "/qlog", durable, appends_of, clock_, log_}, coverage,
                                  findings_);
    if (!logs) return std::move(logs).error();
    report_.logs = std::move(*logs);
    coverage.finish();
    if (report_.store.complete) {
      machine::check_state(store_, directory_ + "/store/data.mdb", findings_);
    } else if (report_.store.there) {
      note("9", directory_ + "/store/data.mdb",
           "rows are damaged or missing, so the tables were not compared with each other");
    }
    return std::move(report_);
  }

 private:
  void note(const char* rule, const std::string& path, std::string what) {
    findings_.add(finding(Severity::note, Boot::starts, rule, path, std::move(what)));
  }
  void refused(const char* rule, const std::string& path, std::string what) {
    findings_.add(finding(Severity::damage, Boot::refused, rule, path, std::move(what)));
  }
  static Finding finding(Severity severity, Boot boot, const char* rule, const std::string& path,
                         std::string what) {
    Finding out;
    out.severity = severity;
    out.boot = boot;
    out.rule = rule;
    out.path = path;
    out.what = std::move(what);
    return out;
  }

  Status look_at_root() {
    const auto names = disk_.list(directory_);
    if (!names) return names.error();
    for (const auto& [name, unused] : *names) {
      if (std::ranges::find(kRootNames, name) != kRootNames.end()) continue;
      const bool half = name.ends_with(".tmp");
      note(half ? "DIR-1" : "DIR-8", directory_ + "/" + name,
           half ? "half written: never read" : "nothing of a node's: nothing reads it");
    }
    if (const auto owner = broker::check_owner(directory_, disk_); !owner) {
      if (owner.error().code != Errc::corrupt) return owner;
      refused("BR-13", directory_ + "/raft/state.json", owner.error().what);
    }
    return {};
  }

  Status look_at_store() {
    const auto gate = store_.write_gate();
    auto facts = store::verify_store_file(directory_ + "/store", findings_, [&](const store::StoredRow& row) {
      const bool of_file = row.keyspace == Keyspace::meta && (row.key == store::kMetaStoreFormat ||
                                                              row.key.starts_with(store::kMetaRowsPrefix));
      if (!of_file) store_.load(row.keyspace, row.key, row.value, row.checksum);
    });
    if (!facts) return std::move(facts).error();
    report_.store = *facts;
    if (!facts->there)
      note("HD-29", directory_ + "/store/data.mdb",
           "there is no checkpoint: the logs alone must be complete");
    if (const auto known = broker::check_version(store_); !known)
      refused("BR-7", directory_ + "/store/data.mdb", known.error().what);
    return {};
  }

  qlog::DurableState durable_state() {
    auto durable = broker::durable_state(store_);
    store_known_ = durable && (report_.store.complete || durable->durable_index > 0);
    if (store_known_) {
      durable->store_missing = !report_.store.there || !report_.store.written;
      return std::move(*durable);
    }
    if (!durable) refused("BR-5", directory_ + "/store/data.mdb", durable.error().what);
    if (!report_.store.there) {
      store_known_ = true;
      qlog::DurableState none;
      none.store_missing = true;
      return none;
    }
    note("9.2", directory_ + "/store/data.mdb",
         "what the checkpoint says about the logs cannot be read: they are judged by themselves");
    qlog::DurableState unknown;
    unknown.durable_index = kUnknownDurable;
    return unknown;
  }

  disk::Disk& disk_;
  const std::string directory_;
  Clock& clock_;
  Logger log_;
  VerifyReport report_;
  ReportFindings findings_;
  store::Store store_;
  bool store_known_ = false;
};

}  // namespace

Result<VerifyReport> verify_directory(disk::Disk& disk, const std::string& directory, Clock& clock,
                                      Logger log) {
  const auto hold = hold_directory(directory);
  if (!hold) return hold.error();
  return Verification(disk, directory, clock, std::move(log)).run();
}

}  // namespace queen::cli
