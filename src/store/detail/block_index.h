// The blocks of a table in key order, and which of them a key belongs to. Two levels of sorted arrays: a
// bound is compared by eight of its bytes behind what its neighbours share, so that a search stays in a few
// lines of memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "store/detail/block.h"

namespace queen::store::detail {

class BlockIndex {
 public:
  // Where a block is; valid until the index changes.
  struct Place {
    std::size_t run = 0, at = 0;
    bool operator==(const Place&) const = default;
  };

  // One empty block, whose bound is the empty key: every key has a block.
  BlockIndex();

  // The last block whose bound is not above `key`.
  Place find(BytesView key) const;
  Block& block(Place place) { return runs_[place.run]->blocks[place.at]; }
  const Block& block(Place place) const { return runs_[place.run]->blocks[place.at]; }
  const Bytes& bound(Place place) const { return runs_[place.run]->bounds[place.at]; }
  static Place first() { return {}; }
  Place last() const { return {runs_.size() - 1, runs_.back()->blocks.size() - 1}; }
  // false: there is none, and `place` stays.
  bool next(Place& place) const;
  bool previous(Place& place) const;
  std::size_t size() const { return size_; }

  // A block behind the one at `place`; `bound` is above that one's and below the next one's.
  Place insert_behind(Place place, Bytes bound, Block block);
  // Never the first.
  void erase(Place place);

 private:
  // Sorted keys; what is compared of each but the first is `heads`: eight bytes behind `prefix`, which all
  // but the first share, as a big-endian number. The first is below whatever comes here.
  struct Heads {
    Bytes prefix;
    std::vector<std::uint64_t> heads;

    std::uint64_t head_of(BytesView key) const;
    // The last of `keys` that is not above `key`; 0 when only the first is not.
    template <class KeyAt>
    std::size_t find(BytesView key, std::size_t count, const KeyAt& key_at) const;
    template <class KeyAt>
    void rebuild(std::size_t count, const KeyAt& key_at);
  };
  struct Run {
    Heads order;
    std::vector<Bytes> bounds;
    std::vector<Block> blocks;
  };
  static constexpr std::size_t kRunMax = 256;  // blocks of one run

  void insert_bound(Run& run, std::size_t at, Bytes bound);
  void halve(std::size_t run);
  void rebuild(Run& run);
  void rebuild_top();

  std::vector<std::unique_ptr<Run>> runs_;
  Heads top_;  // over the first bound of each run
  std::size_t size_ = 1;
};

}  // namespace queen::store::detail
