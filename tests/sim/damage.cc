#include "damage.h"

#include <array>
#include <filesystem>
#include <fstream>

#include "base/invariant.h"
#include "broker/state_reads.h"
#include "offline.h"

namespace queen::sim {
namespace {

constexpr std::uint64_t kFetchBytes = 1ULL << 20;
constexpr std::int64_t kScrubUs = 2 * kSecondUs;  // more than a round of the scrub of a small disk takes
constexpr std::size_t kSector = 512;
constexpr std::string_view kLogs = "/data/qlog/";
constexpr std::string_view kStoreFile = "/data/store/data.mdb";

// The bytes as the damage leaves them; nothing: the file is gone.
std::optional<Bytes> damaged(Dice& dice, DamagePlan::Kind kind, Bytes bytes) {
  if (kind == DamagePlan::Kind::removed || bytes.empty()) return std::nullopt;
  const std::size_t at = dice.below(bytes.size());
  if (kind == DamagePlan::Kind::cut) {
    bytes.resize(at);
  } else if (kind == DamagePlan::Kind::flip) {
    bytes[at] = static_cast<char>(static_cast<std::uint8_t>(bytes[at]) ^ (1U << dice.below(8)));
  } else {
    const std::size_t from = at / kSector * kSector;
    const std::size_t count = std::min(kSector, bytes.size() - from);
    bytes.replace(from, count, count, '\0');
  }
  return bytes;
}

class Damaging {
 public:
  Damaging(const DamagePlan& plan, const NodePlan& node, SimNode& whole, const Ledger& ledger)
      : plan_(plan),
        node_(node),
        place_(whole.place()),
        ledger_(ledger),
        disk_(place_.disk.copy()),
        copy_({place_.world, place_.network, *disk_, place_.bucket, place_.clock, place_.story}) {
    copy_.take_store(*whole.home());
    node_.sink.reset();
  }

  void run() {
    const std::string what = damage();
    const auto report = verify_offline(*disk_, *copy_.home(), place_.clock);
    if (!report) return;
    place_.story.note("damage", "{}: {} findings, {}", what, report->findings.size(),
                      report->would_boot ? "would boot" : "would not boot");
    const auto booted = copy_.boot(node_);
    if (booted.has_value() != report->would_boot)
      return violate(what, fmt::format("verify says {}, the boot: {}", report->would_boot ? "yes" : "no",
                                       booted ? "fine" : booted.error().what));
    if (!booted) {
      if (booted.error().code != Errc::corrupt) violate(what, booted.error().what);
      return;
    }
    judge_reads(what, report->damaged);
    judge_scrub(what, *report);
  }

 private:
  void violate(const std::string& what, const std::string& how) {
    place_.story.violate("damage is told of", "{}: {}", what, how);
  }

  std::string damage() {
    static constexpr std::array kNames = {"flipped", "zeros", "cut", "removed"};
    const std::string path = plan_.store ? std::string(kStoreFile) : log_file();
    if (path.empty()) return "nothing to damage";
    if (plan_.store)
      damage_store(copy_.home()->real(path));
    else
      damage_log(path);
    return fmt::format("{} {}", path, kNames.at(static_cast<std::size_t>(plan_.kind)));
  }

  std::string log_file() {
    std::vector<std::string> paths;
    for (const auto& [path, bytes] : disk_->files())
      if (path.starts_with(kLogs) && !bytes.empty()) paths.push_back(path);
    return paths.empty() ? std::string() : paths[place_.world.dice().below(paths.size())];
  }

  void damage_log(const std::string& path) {
    const auto bytes = damaged(place_.world.dice(), plan_.kind, disk_->files().at(path));
    if (!bytes) return must(disk_->remove_file(path));
    auto file = disk_->open(path, disk::Open::read_write);
    INVARIANT(file.has_value(), "a file is gone");
    must((*file)->truncate(bytes->size()));
    must((*file)->pwrite(0, *bytes));
    must((*file)->sync());
  }
  static void must(const Status& done) { INVARIANT(done.has_value(), "{}", done.error().what); }

  void damage_store(const std::string& path) {
    std::ifstream from(path, std::ios::binary);
    const Bytes whole{std::istreambuf_iterator<char>(from), {}};
    const auto bytes = damaged(place_.world.dice(), plan_.kind, whole);
    std::filesystem::remove(path);
    if (bytes) std::ofstream(path, std::ios::binary) << *bytes;
  }

  // What is served is what was written; what cannot be is refused, and the check knew it.
  void judge_reads(const std::string& what, bool known_damaged) {
    for (const auto& [where, log] : ledger_.logs()) {
      const auto read = read_all(what, where, log);
      if (place_.story.failed()) return;
      if (read < log.records.size() && !known_damaged)
        return violate(what, fmt::format("{}/{}: {} of {} records, and the check found nothing", where.queue,
                                         where.partition, read, log.records.size()));
    }
  }

  std::size_t read_all(const std::string& what, const PartitionName& where, const PartitionRead& log) {
    std::uint64_t next = log.log_start;
    std::size_t read = 0;
    while (next < log.end) {
      const std::array<broker::FetchEntry, 1> ask = {{{where.queue, where.partition, next, kFetchBytes}}};
      const auto answer = copy_.broker().fetch(std::string(kDefaultTenant), ask);
      if (!answer || !answer->at(0).error.empty()) {
        ++next;  // what lies behind may be good
        continue;
      }
      const auto& messages = answer->at(0).messages.messages;
      for (const auto& message : messages)
        if (!same(what, where, log, message)) return read;
      read += messages.size();
      next = messages.empty() ? next + 1 : messages.back().offset + 1;
    }
    return read;
  }

  bool same(const std::string& what, const PartitionName& where, const PartitionRead& log,
            const broker::Message& message) {
    const std::uint64_t at = message.offset - log.log_start;
    const bool there = message.offset >= log.log_start && at < log.records.size();
    if (there && log.records[at].transaction_id == message.transaction_id &&
        log.records[at].payload == message.payload && log.records[at].ts_us == message.ts_us)
      return true;
    violate(what, fmt::format("{}/{} offset {}: {}", where.queue, where.partition, message.offset,
                              message.transaction_id));
    return false;
  }

  // The scrub finds what the check found in files that are written no more.
  void judge_scrub(const std::string& what, const cli::VerifyReport& report) {
    const std::int64_t until = place_.world.now_us() + kScrubUs;
    while (place_.world.now_us() < until && place_.world.step()) {
    }
    const auto health = copy_.broker().health();
    if (!health.damaged.empty() && !report.damaged)
      return violate(what, fmt::format("a scrub found {}, the check nothing", health.damaged.front().what));
    place_.story.note("damage", "the scrub knows {} damaged files", health.damaged.size());
  }

  const DamagePlan plan_;
  NodePlan node_;
  const SimNode::Place place_;
  const Ledger& ledger_;
  std::unique_ptr<disk::RamDisk> disk_;
  SimNode copy_;
};

}  // namespace

DamagePlan draw_damage(Dice& dice) {
  using Kind = DamagePlan::Kind;
  return {dice.pick({Kind::flip, Kind::flip, Kind::flip, Kind::zeros, Kind::cut, Kind::removed}),
          dice.chance(40)};
}

void judge_damage(const DamagePlan& plan, const NodePlan& node, SimNode& whole, const Ledger& ledger) {
  Damaging(plan, node, whole, ledger).run();
}

}  // namespace queen::sim
