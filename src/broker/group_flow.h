// Calls about a consumer group that take several commands: seeks, policies, deletions. Every step is an entry
// of its own, so that other commands come in between.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/pool.h"
#include "broker/broker.h"
#include "broker/cold_log.h"
#include "broker/garbage.h"
#include "broker/group_reads.h"

namespace queen::broker {

// Thread-safe. Outlives its calls.
class GroupFlow {
 public:
  using Done = UniqueFunction<void(Answer<machine::Outcome>)>;
  struct Parts {
    GroupReads& reads;
    const ColdLog& cold;
    Pool& readers;
    Pool& lookers;  // for walks over every partition
    Clock& clock;
    Random& random;
  };
  GroupFlow(Submit submit, Parts parts) : submit_(std::move(submit)), parts_(parts) {}

  // A SeekCommand or a SubscribeCommand to its end: the outcome counts all steps.
  void seek(machine::Command first, Done done);
  void subscribe(machine::Command first, Done done);
  void erase(std::string tenant, GroupDeletion deletion, UniqueFunction<void(Answer<GroupDeleted>)> done);

 private:
  struct Seek;
  struct Erase;
  void seek_on(const std::shared_ptr<Seek>& call);
  void on_sought(const std::shared_ptr<Seek>& call, Answer<machine::Outcome> answer);
  void subscribe_on(machine::Command step, std::uint32_t rows, Done done);
  void erase_next(const std::shared_ptr<Erase>& call);
  void on_erased(const std::shared_ptr<Erase>& call, const Answer<machine::Outcome>& answer);
  Uuid mint() { return make_uuid_v7(parts_.clock.wall_us(), parts_.random); }

  Submit submit_;
  Parts parts_;
};

}  // namespace queen::broker
