// A history: random steps over a node, each judged by the contract.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "contract.h"
#include "disk/ram_disk.h"
#include "mini_node.h"

namespace queen::history {

// One step as numbers, so that a failing history shrinks: fewer steps, smaller numbers.
struct Step {
  int kind = 0, a = 0, b = 0, c = 0, d = 0;
};
std::string to_string(const Step& step);

class History {
 public:
  History();
  ~History();

  // The first thing that the contract does not allow; empty when there is none. Ends with a restart and a
  // last look at everything.
  std::string run(const std::vector<Step>& steps);

 private:
  // A claim that somebody was given, alive or not.
  struct Held {
    std::string group, lease_id;
    std::vector<machine::PopClaim> claims;
  };

  std::string step(const Step& step);
  std::string push(const Step& step);
  std::string pop(const Step& step);
  std::string ack(const Step& step);
  std::string hand_back(const Step& step);
  std::string configure(const Step& step);
  std::string seek(const Step& step);
  std::string renew(const Step& step);
  std::string delete_group(const Step& step);
  std::string restart(bool checkpoint);
  // Plans, writes and applies; the log time of the entry, or of the clock when there was none.
  std::string submit(machine::Command command, machine::Outcome& outcome, std::int64_t& now);
  std::string compare_rows();
  std::string compare_messages();
  template <class Body>
  machine::Command command(Body body) {
    return {std::string(kDefaultTenant), uuid(), std::move(body)};
  }
  Uuid uuid();

  ManualClock clock_;
  disk::RamDisk disk_;
  crash::MiniNode node_;
  Contract contract_;
  std::vector<Held> held_;
  std::uint64_t uuids_ = 0;
  std::uint32_t ids_ = 1000;
};

}  // namespace queen::history
