// The index of a sealed file, searched where it lies: mapped, or in memory when it fits a page.
#pragma once

#include <memory>

#include "disk/disk.h"
#include "disk/mapped_reads.h"
#include "qlog/detail/index_file.h"

namespace queen::qlog::detail {

// Immutable; any thread. Whole and right when it was made (QL-21).
class SealedIndex {
 public:
  // Both: errors corrupt, also when it describes another file than `file_id` of `file_bytes`.
  static Result<std::shared_ptr<const SealedIndex>> hold(Bytes bytes, std::uint32_t file_id,
                                                         std::uint64_t file_bytes);
  static Result<std::shared_ptr<const SealedIndex>> over(std::unique_ptr<disk::Mapping> mapping,
                                                         std::uint32_t file_id, std::uint64_t file_bytes);

  IndexAnswer find(const IndexQuery& query, std::size_t records_max) const;
  // Every record, by (pid, base_offset).
  template <class Visit>
  void for_each(const Visit& visit) const {
    for_range(0, count_, visit);
  }
  // Those at [from, to) in that order.
  template <class Visit>
  void for_range(std::size_t from, std::size_t to, const Visit& visit) const {
    const Reading reading(*this);
    for (std::size_t i = from; i < to; ++i) visit(index_record_at(reading.bytes, i));
  }
  // The first place in [from, to) for which `pred` is false; it is true for all before and for none behind.
  template <class Pred>
  std::size_t first_not(std::size_t from, std::size_t to, const Pred& pred) const {
    const Reading reading(*this);
    while (from < to) {
      const std::size_t middle = from + (to - from) / 2;
      if (pred(index_record_at(reading.bytes, middle))) {
        from = middle + 1;
      } else {
        to = middle;
      }
    }
    return from;
  }
  std::size_t count() const { return count_; }
  bool mapped() const { return mapping_ != nullptr; }

 private:
  // The bytes, for as long as a call looks at them.
  struct Reading {
    explicit Reading(const SealedIndex& index) : bytes(index.held_) {
      if (!index.mapping_) return;
      declared.emplace(*index.mapping_);
      bytes = index.mapping_->bytes();
    }
    std::optional<disk::ReadingMapped> declared;
    BytesView bytes;
  };

  Status verify(std::uint32_t file_id, std::uint64_t file_bytes);

  Bytes held_;
  std::unique_ptr<disk::Mapping> mapping_;  // instead of held_
  std::size_t count_ = 0;
};

}  // namespace queen::qlog::detail
