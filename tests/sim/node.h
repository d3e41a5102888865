// One node in the world: the broker and its sink as they run in the program, on the world's lanes, disk and
// bucket.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "auth/payload_cipher.h"
#include "broker/broker.h"
#include "bucket.h"
#include "disk/ram_disk.h"
#include "disk_checkpoint.h"
#include "sink/control_plane.h"
#include "sink/sink.h"
#include "store_home.h"
#include "story.h"
#include "world.h"

namespace queen::sim {

struct NodePlan {
  broker::Settings broker;  // directory, executors and checkpoint_home are filled in
  std::optional<sink::SinkSettings> sink;
  int sinks = 1;  // that share its queues, as those of several nodes do; each an instance of its own
  bool tenant_sinks = false;  // and each runs those that the control plane's rows ask for
  const auth::PayloadCipher* cipher = nullptr;
  std::uint64_t weights = 0;  // of its lanes
  bool lmdb = false;          // its store is the LMDB file of the program; else one on the simulated disk
};

// How a disk looks after the power came back.
enum class PowerLoss : std::uint8_t { clean, torn, careless };

class SimNode {
 public:
  // What is shared by all lives of a node; all outlive it.
  struct Place {
    World& world;
    Executor& network;
    disk::RamDisk& disk;
    SimBucket& bucket;
    SimClock& clock;
    Story& story;
  };
  explicit SimNode(Place place) : place_(place), log_(place.story), checkpoints_(place.disk) {}
  ~SimNode();

  // Errors: as Broker::open().
  Status boot(const NodePlan& plan);
  // As at SIGTERM.
  void stop();
  // The machine loses its power, and gets it back.
  void kill(PowerLoss loss);

  bool up() const { return broker_ != nullptr; }
  // The power is off: what is done now, nobody will know.
  bool dark() const { return place_.disk.power_is_off(); }
  broker::Broker& broker() { return *broker_; }
  // False once this life is over. Whoever holds it may outlive the node.
  const std::shared_ptr<const bool>& alive() const { return alive_; }
  // Where calls of clients arrive in this life.
  Executor& calls() { return *calls_; }
  Process& process() { return *process_; }
  // Of the newest entry that was applied.
  std::int64_t safe_time_us();
  std::size_t sinks() const { return sinks_.size(); }
  std::string sink_status(std::size_t number) const { return sinks_[number].manager->status_json(); }
  std::string sink_metrics(std::size_t number) const { return sinks_[number].manager->metrics_text(); }
  bool sink_healthy(std::size_t number) const { return sinks_[number].manager->healthy(); }
  // Nothing of that sink runs for `us`, while the broker does.
  void freeze_sink(std::size_t number, std::int64_t us);
  std::uint64_t lives() const { return lives_; }
  SimClock& clock() { return place_.clock; }
  const Place& place() const { return place_; }
  // Where the LMDB file is. Null: there is none.
  const StoreHome* home() const { return home_.get(); }
  // Begins with a copy of the LMDB file at `other`; before the first boot.
  void take_store(const StoreHome& other);

 private:
  store::CheckpointHome& checkpoint_home(bool lmdb);
  void start_sink(const NodePlan& plan, int number);
  void take_down();

  Place place_;
  StoryLog log_;
  crash::DiskCheckpoints checkpoints_;
  std::unique_ptr<StoreHome> home_;
  std::uint64_t lives_ = 0;
  std::shared_ptr<const bool> alive_ = std::make_shared<bool>(false);
  std::shared_ptr<bool> living_;
  std::unique_ptr<SeededRandom> random_;
  std::unique_ptr<Process> process_;
  struct Sink {
    std::unique_ptr<SimExecutor> lane, builder;
    std::unique_ptr<sink::BrokerPort> proxy;  // of the tenant whose rows say which sinks there are
    std::unique_ptr<sink::ControlPlanePort> rows;
    std::unique_ptr<sink::SinkManager> manager;
  };
  std::unique_ptr<Executor> calls_;
  std::unique_ptr<broker::Broker> broker_;
  std::vector<Sink> sinks_;
};

}  // namespace queen::sim
