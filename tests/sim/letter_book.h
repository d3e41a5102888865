// Which messages were filed as dead letters, and what became of those.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/ids.h"
#include "broker/dead_letters.h"
#include "ledger.h"
#include "story.h"

namespace queen::sim {

// As the ack named it that may have filed it.
struct LetterName {
  PartitionName where;
  std::string group;
  std::int64_t offset = 0;
  std::string transaction_id;
};

class LetterBook {
 public:
  explicit LetterBook(Story& story) : story_(story) {}

  // An ack is on its way that may file it.
  void may_file(const Uuid& id, LetterName name) { letters_[id.str()].name = std::move(name); }
  void filed(const Uuid& id, bool is);
  // A call is on its way that sends it back or removes it.
  void sending_back(const Uuid& id) { ++letters_[id.str()].replays; }
  void deleting(const Uuid& id) { ++letters_[id.str()].deletions; }
  // Its answers. `known`: it was answered as filed when the call was made.
  void sent_back(const Uuid& id);
  void deleted(const Uuid& id, bool is, bool known);
  void gone(const Uuid& id, bool known);
  bool is_known(const Uuid& id) const { return letters_.at(id.str()).filed == true; }
  const LetterName& name(const Uuid& id) const { return letters_.at(id.str()).name; }

  void check(SimNode& node, const std::string& queue, const std::map<PartitionName, PartitionRead>& logs);
  // Of the message that a dead letter is sent back as.
  static std::string copy_id(const Uuid& id) { return "dlq:" + id.str(); }

 private:
  struct Letter {
    LetterName name;
    std::optional<bool> filed;  // as answered
    int replays = 0, deletions = 0;
    bool moved = false, removed = false;
  };
  void check_present(const broker::DeadLetter& found);
  void check_letter(const std::string& id, const Letter& letter, bool present, bool copied);

  Story& story_;
  std::map<std::string, Letter> letters_;
};

}  // namespace queen::sim
