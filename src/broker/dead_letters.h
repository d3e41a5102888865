// Dead letters as this node has them (api-messaging.md 12), and removing many of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "broker/garbage.h"
#include "broker/page_range.h"
#include "broker/payload_opener.h"
#include "store/rows.h"
#include "store/store.h"

namespace queen::broker {

struct DeadLetter {
  Uuid id;
  std::string queue;
  std::optional<std::string> partition;  // its name; nothing when it does not exist
  store::DeadLetterRow row;
};
struct DeadLetterFilter {
  std::optional<std::string> queue, group;  // nothing = any
};
struct DeadLetterPage {
  std::vector<DeadLetter> letters;  // newest first
  std::uint64_t total = 0;          // all that match
};

// Thread-safe. Walks in steps over what it looks at (store_steps.h), so a call may take a while: not on a
// thread that serves connections.
class DeadLetters {
 public:
  // `cipher` outlives this; null: payloads stay as they are stored.
  explicit DeadLetters(const store::Store& store, const auth::PayloadCipher* cipher = nullptr)
      : store_(store), opener_(cipher) {}

  DeadLetterPage page(const std::string& tenant, const DeadLetterFilter& filter,
                      const PageRange& range) const;
  std::optional<DeadLetter> by_id(const std::string& tenant, const Uuid& id) const;
  // Those of one queue, oldest id first.
  std::vector<Uuid> of_queue(const std::string& tenant, const std::string& queue,
                             const std::optional<std::string>& group) const;
  // Those of one message: of every group that gave up on it (D-4), and of each message of the partition with
  // that transactionId. Oldest id first. `partition`: its number or UUID. Nothing when there is no such
  // partition.
  struct OfMessage {
    std::string queue;
    std::vector<Uuid> ids;
  };
  std::optional<OfMessage> of_message(const std::string& tenant, std::string_view partition,
                                      std::string_view transaction_id) const;

 private:
  std::optional<DeadLetter> read(BytesView key) const;

  const store::Store& store_;
  PayloadOpener opener_;
};

// Runs a DeadLetterDeleteCommand of any number of ids to its end, in steps that are an entry each: the answer
// counts what all of them removed, or is the first refusal. What the steps before a refusal removed stays
// removed.
void delete_dead_letters(Submit submit, machine::Command command, Clock& clock, Random& random,
                         UniqueFunction<void(Answer<machine::Outcome>)> done);

}  // namespace queen::broker
