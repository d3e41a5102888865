// A kind of use of the node: its clients, and what the contract says of what they were answered.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "client.h"
#include "cursors.h"
#include "ledger.h"

namespace queen::sim {

// What the workloads of one history share.
struct Scene {
  World& world;
  ClientWorld& clients;
  SimNode& node;
  SimBucket& bucket;
  Story& story;
  Ledger& ledger;
  Cursors& cursors;
  std::uint64_t seed = 0;
  const auth::PayloadCipher* cipher = nullptr;
  bool quiet = false;  // no client begins anything new
  std::uint32_t ends_given = kNodeEnd;
  std::uint64_t calls = 0, answers = 0;

  std::unique_ptr<Client> new_client() { return std::make_unique<Client>(clients, ++ends_given, seed); }
};

class Workload {
 public:
  virtual ~Workload() = default;
  virtual std::string_view name() const = 0;
  // Starts its clients. They end by themselves, soon after the scene is quiet.
  virtual void start() = 0;
  virtual bool ended() const = 0;
  // The faults are over and all clients have ended: everything is brought to its end. Started once; ended()
  // tells.
  virtual void drain() {}
  // Everything has ended and the node is up: what it holds is judged. Called once more after another restart.
  virtual void check() = 0;
};

// Runs tasks of one lane and counts them.
class Tasks {
 public:
  explicit Tasks(Executor& lane) : lane_(lane) {}
  void start(Task<void> task) {
    ++running_;
    spawn(lane_, std::move(task), [this] { --running_; });
  }
  bool ended() const { return running_ == 0; }

 private:
  Executor& lane_;
  int running_ = 0;
};

// A command to the broker's submit(), push() and ack() as a call of a client. Nothing: no answer, or one that
// says that the outcome is not known. A refusal that changed nothing has its code.
template <class Outcome>
struct Said {
  std::string code;  // empty: carried out
  Outcome outcome;
  std::int64_t before_us = 0, after_us = 0;
};
// Whether a refusal says for sure that nothing was done.
bool changed_nothing(std::string_view code);

machine::Command command_of(Client& client, decltype(machine::Command::body) body);

template <class Outcome>
Task<std::optional<Said<Outcome>>> submit(Client& client, decltype(machine::Command::body) body,
                                          std::int64_t timeout_us, bool as_ack = false) {
  using Answered = broker::Answer<machine::Outcome>;
  const machine::Command command = command_of(client, std::move(body));
  Client::Start<Answered> start = [command, as_ack](broker::Broker& broker,
                                                    UniqueFunction<void(Answered)> done) {
    if (as_ack) return broker.ack(command, std::move(done));
    broker.submit(command, std::move(done));
  };
  auto reply = co_await client.call<Answered>(std::move(start), timeout_us);
  if (!reply) co_return std::nullopt;
  Said<Outcome> said{{}, {}, reply->before_us, reply->after_us};
  if (!reply->value) {
    said.code = reply->value.error().code;
    if (!changed_nothing(said.code)) co_return std::nullopt;
    co_return said;
  }
  said.code = reply->value->code;
  if (said.code.empty()) {
    auto* outcome = std::get_if<Outcome>(&reply->value->body);
    if (outcome != nullptr) said.outcome = std::move(*outcome);
  }
  co_return said;
}

// Configures until it is answered.
Task<void> configure(Client& client, machine::ConfigureCommand command);

// `text` as a front end stores it in an encrypted queue; as it is when there is no `cipher`.
Bytes sealed_text(Client& client, Bytes text, const auth::PayloadCipher* cipher);

// The batch of one partition with these transaction ids, as a front end prepares it; sealed when `cipher` is
// given.
machine::PushBatch batch_of(Client& client, const PartitionName& where, const std::vector<std::string>& ids,
                            const auth::PayloadCipher* cipher);

}  // namespace queen::sim
