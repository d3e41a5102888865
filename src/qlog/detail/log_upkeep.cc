// What upkeep asks of one log and changes in it: which files there are, and which of them readers find.
#include <algorithm>

#include "base/invariant.h"
#include "qlog/detail/log.h"

namespace queen::qlog::detail {
namespace {

bool holds(const std::vector<std::uint32_t>& ids, std::uint32_t id) {
  return std::ranges::find(ids, id) != ids.end();
}

}  // namespace

std::vector<std::uint32_t> Log::listed_files() const {
  const std::lock_guard held(mutex_);
  std::vector<std::uint32_t> ids;
  for (const auto& file : *sealed_)
    if (!holds(doomed_, file.id)) ids.push_back(file.id);
  if (active_.id != 0) ids.push_back(active_.id);
  return ids;
}

ActiveFile Log::active_file() const {
  const std::lock_guard held(mutex_);
  return {.empty = active_.empty(),
          .first_seq = active_.first_seq,
          .highest_seq = active_.highest_seq,
          .since_us = active_.oldest_us != 0 ? active_.oldest_us : active_.opened_us,
          .unsynced = has_unsynced()};
}

std::shared_ptr<const SealedFiles> Log::sealed_files() const {
  const std::lock_guard held(mutex_);
  return sealed_;
}

std::vector<std::uint32_t> Log::doomed() const {
  const std::lock_guard held(mutex_);
  return doomed_;
}

void Log::doom(std::uint32_t file_id) {
  const std::lock_guard held(mutex_);
  if (!holds(doomed_, file_id)) doomed_.push_back(file_id);
}

void Log::spare(std::uint32_t file_id) {
  const std::lock_guard held(mutex_);
  std::erase(doomed_, file_id);
}

void Log::forget(const std::vector<std::uint32_t>& file_ids) {
  auto sealed = std::make_shared<SealedFiles>(*sealed_files());
  std::erase_if(*sealed, [&](const SealedFile& file) { return holds(file_ids, file.id); });
  const std::lock_guard held(mutex_);
  sealed_ = std::move(sealed);
  std::erase_if(doomed_, [&](std::uint32_t id) { return holds(file_ids, id); });
  swaps_.fetch_add(1, std::memory_order_release);
}

void Log::replace(const SealedFile& file, Bytes index) {
  auto sealed = std::make_shared<SealedFiles>(*sealed_files());
  const auto old = std::ranges::find(*sealed, file.id, &SealedFile::id);
  INVARIANT(old != sealed->end(), "log {} has no file {} to replace", id_.value, file.id);
  *old = file;
  shared_.indexes.hold(key_of(file), file.bytes, std::move(index));
  const std::lock_guard held(mutex_);
  sealed_ = std::move(sealed);
  swaps_.fetch_add(1, std::memory_order_release);
}

std::shared_ptr<const SealedDirectories> Log::directories() const {
  const std::lock_guard held(mutex_);
  return directories_;
}

void Log::replace_directories(const SealedDirectories& old, std::shared_ptr<const SealedDirectory> built) {
  auto all = std::make_shared<SealedDirectories>(*directories());
  const auto before = static_cast<std::int64_t>(all->size());
  std::erase_if(*all, [&](const auto& one) { return std::ranges::find(old, one) != old.end(); });
  if (built) all->push_back(std::move(built));
  std::ranges::sort(*all, {}, [](const auto& directory) { return directory->first(); });
  shared_.indexes.count_maps(static_cast<std::int64_t>(all->size()) - before);
  std::shared_ptr<const SealedDirectories> fresh = std::move(all);
  const std::lock_guard held(mutex_);
  std::swap(directories_, fresh);  // the old ones are unmapped after the lock is released
}

}  // namespace queen::qlog::detail
