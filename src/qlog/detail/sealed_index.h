// The index of a sealed file, searched where it lies: mapped, or in memory when it fits a page.
#pragma once

#include <atomic>
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
  // The records of `pid` from place `from` on: what follows an answer, without a search.
  std::vector<IndexRecord> from(std::size_t from, std::uint64_t pid, std::size_t records_max) const;
  // The records of places [from, to), by (pid, base_offset).
  template <class Visit>
  void for_each(std::size_t from, std::size_t to, const Visit& visit) const {
    const Reading reading(*this);
    for (std::size_t i = from; i < to; ++i) visit(index_record_at(reading.bytes, i));
  }
  IndexRecord at(std::size_t place) const {
    const Reading reading(*this);
    return index_record_at(reading.bytes, place);
  }
  // The first place in [from, to) whose record is not `below`, which holds for a front part of them.
  template <class Below>
  std::size_t first_not(std::size_t from, std::size_t to, const Below& below) const {
    const Reading reading(*this);
    while (from < to) {
      const std::size_t middle = from + (to - from) / 2;
      const bool further = below(index_record_at(reading.bytes, middle));
      (further ? from : to) = further ? middle + 1 : middle;
    }
    return from;
  }
  std::size_t count() const { return count_; }
  bool mapped() const { return mapping_ != nullptr; }
  // After a walk over all of it: searches need a few pages only, and the rest must not stay in memory.
  void let_go() const {
    if (mapping_) mapping_->let_go();
  }
  // The same when it was searched once, and not since the call before.
  void let_go_when_idle() const {
    if (searched_.load(std::memory_order_relaxed) == Searched::never) return;
    const bool lately = searched_.exchange(Searched::before) == Searched::lately;
    if (lately) return;
    searched_ = Searched::never;
    let_go();
  }

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

  std::vector<IndexRecord> records_from(BytesView bytes, std::size_t from, std::uint64_t pid,
                                        std::size_t records_max) const;
  Status verify(std::uint32_t file_id, std::uint64_t file_bytes);

  enum class Searched : std::uint8_t { never, before, lately };
  void note_search() const {
    // Most searches find it set, and write nothing that other threads read.
    if (searched_.load(std::memory_order_relaxed) != Searched::lately)
      searched_.store(Searched::lately, std::memory_order_relaxed);
  }

  Bytes held_;
  std::unique_ptr<disk::Mapping> mapping_;  // instead of held_
  mutable std::atomic<Searched> searched_{Searched::never};
  std::size_t count_ = 0;
};

}  // namespace queen::qlog::detail
