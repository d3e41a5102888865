// The meter of one node: cells that calls raise, a look at the gauges every few seconds, a row each period.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/log.h"
#include "broker/figure_files.h"
#include "broker/meter.h"
#include "broker/op_cells.h"
#include "disk/disk.h"
#include "store/store.h"

namespace queen::broker {

// Thread-safe. Locks: flush_mutex_ is held shared by reads of rows and alone by a flush, both across reads
// and writes of the files; no other lock is taken under last_mutex_.
class NodeMeter final : public Meter {
 public:
  struct Parts {
    const store::Store& store;
    disk::Disk& disk;
    Clock& clock;
    Executor& files;   // looks at the gauges, writes the rows
    Executor& timers;  // whose lateness is measured
    std::function<NodeGauges()> gauges;
    std::function<std::vector<ParkedPops>()> parked;
    std::function<bool()> storage_full;  // then rows of queues are not written
  };
  NodeMeter(Parts parts, const std::string& data_directory, MeterSettings settings, const Logger& log);

  void start();
  // The rows of the period so far, once both executors have stopped. Idempotent.
  void finish();

  Tally of(std::string_view tenant, std::string_view queue);
  OpCells& node() { return node_; }

  OpCounts totals() const override;
  std::int64_t uptime_us() const override { return parts_.clock.mono_us() - started_mono_us_; }
  LagSum loop_lag() const override;
  NodeGauges gauges() const override { return parts_.gauges(); }
  ProcessUse process() const override;
  std::vector<ParkedPops> parked() const override { return parts_.parked(); }
  std::vector<QueueOpsRow> last_rows() const override;
  std::optional<std::int64_t> written_until_us() const override;
  std::vector<NodeRow> node_rows(std::int64_t from_us, std::int64_t to_us) const override;
  std::vector<QueueOpsRow> queue_rows(const std::string& tenant, std::int64_t from_us,
                                      std::int64_t to_us) const override;
  std::vector<DeadLetterDepth> dead_letters() const override;

 private:
  void tick_look();
  void tick_flush();
  void tick_loop(std::int64_t due_us);
  void look();
  void flush();
  std::int64_t next_flush_in_us() const;
  // With flush_mutex_ held, shared or alone.
  NodeRow running_row() const;
  std::vector<QueueOpsRow> with_parked(std::vector<QueueOpsRow> rows) const;
  bool exists(const QueueOpsRow& row) const;

  const Parts parts_;
  const MeterSettings settings_;
  const std::int64_t started_mono_us_;
  OpCells node_, loop_;  // of the period that runs; of loop_ the lag alone
  QueueCells queues_;

  mutable std::shared_mutex flush_mutex_;  // guards what follows, down to finished_
  FigureFiles files_;
  std::int64_t period_from_us_ = 0;
  std::int64_t written_until_us_ = 0;  // 0: no row was written yet
  bool finished_ = false;

  mutable std::mutex last_mutex_;  // guards what follows
  GaugeLooks looks_;               // of the period that runs
  OpCounts node_before_;           // of all periods that ended
  LagSum loop_before_;
  ProcessUse used_;  // at the look before
  std::int64_t used_mono_us_ = 0;
  std::vector<QueueOpsRow> last_rows_;
};

}  // namespace queen::broker
