#include "letter_book.h"

#include <set>

namespace queen::sim {

void LetterBook::filed(const Uuid& id, bool is) {
  letters_[id.str()].filed = is;
}

void LetterBook::sent_back(const Uuid& id) {
  Letter& letter = letters_[id.str()];
  if (letter.moved || letter.removed)
    story_.violate("a dead letter ends once", "{} sent back, was {} before", id.str(),
                   letter.moved ? "sent back" : "deleted");
  letter.moved = true;
}

void LetterBook::deleted(const Uuid& id, bool is, bool known) {
  if (!is) return gone(id, known);
  Letter& letter = letters_[id.str()];
  if (letter.moved || letter.removed)
    story_.violate("a dead letter ends once", "{} deleted, was {} before", id.str(),
                   letter.moved ? "sent back" : "deleted");
  letter.removed = true;
}

// Somebody must have ended it, or it never was.
void LetterBook::gone(const Uuid& id, bool known) {
  const Letter& letter = letters_[id.str()];
  if (known && letter.replays + letter.deletions == 1)
    story_.violate("nothing answered is lost", "dead letter {} was filed, and is gone when it is asked for",
                   id.str());
}

void LetterBook::check(SimNode& node, const std::string& queue,
                       const std::map<PartitionName, PartitionRead>& logs) {
  const std::string tenant(kDefaultTenant);
  const auto& reads = node.broker().dead_letters();
  std::set<std::string> present;
  for (const Uuid& id : reads.of_queue(tenant, queue, std::nullopt)) {
    present.insert(id.str());
    const auto found = reads.by_id(tenant, id);
    if (!found) return story_.violate("dead letters can be read", "{}", id.str());
    check_present(*found);
  }
  std::set<std::string> copies;
  for (const auto& [where, log] : logs)
    for (const auto& record : log.records)
      if (record.transaction_id.starts_with("dlq:")) copies.insert(record.transaction_id.substr(4));
  for (const auto& [id, letter] : letters_)
    check_letter(id, letter, present.contains(id), copies.contains(id));
}

// It holds what it was filed for.
void LetterBook::check_present(const broker::DeadLetter& found) {
  const auto known = letters_.find(found.id.str());
  if (known == letters_.end())
    return story_.violate("nothing that nobody failed", "dead letter {} of {}", found.id.str(),
                          found.row.transaction_id);
  const LetterName& name = known->second.name;
  if (found.row.group != name.group || found.row.offset != name.offset ||
      found.row.transaction_id != name.transaction_id || found.partition != name.where.partition ||
      found.row.payload != payload_of(name.transaction_id))
    story_.violate("dead letters are what was filed", "{}: {} offset {} of {} for group {}", found.id.str(),
                   found.row.transaction_id, found.row.offset, found.partition.value_or("-"),
                   found.row.group);
}

void LetterBook::check_letter(const std::string& id, const Letter& letter, bool present, bool copied) {
  if (letter.filed == false && (present || copied))
    story_.violate("nothing that nobody failed", "dead letter {} was answered as not filed", id);
  if (letter.moved && !copied) story_.violate("nothing answered is lost", "dead letter {} was sent back", id);
  if (copied && present) story_.violate("sent back or kept", "dead letter {} is in its queue, and there", id);
  if (copied && letter.removed) story_.violate("sent back or deleted", "dead letter {} is in its queue", id);
  if (copied && letter.replays == 0)
    story_.violate("nothing that nobody sent", "dead letter {} in its queue", id);
  if (present && (letter.moved || letter.removed))
    story_.violate("what is gone stays gone", "dead letter {} is back", id);
  if (letter.filed == true && !present && !copied && letter.deletions == 0)
    story_.violate("nothing answered is lost", "dead letter {} of {}/{} offset {}", id,
                   letter.name.where.queue, letter.name.where.partition, letter.name.offset);
}

}  // namespace queen::sim
