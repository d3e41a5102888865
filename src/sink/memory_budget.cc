#include "sink/memory_budget.h"

namespace queen::sink {

void MemoryBudget::report(const std::string& key, std::uint64_t bytes) {
  std::uint64_t& held = held_[key];
  total_ = total_ - held + bytes;
  held = bytes;
}

void MemoryBudget::leave(const std::string& key) {
  const auto found = held_.find(key);
  if (found == held_.end()) return;
  total_ -= found->second;
  held_.erase(found);
}

// Ties go to the first by name, so that exactly one queue is the largest.
bool MemoryBudget::is_largest(const std::string& key) const {
  const auto own = held_.find(key);
  if (own == held_.end()) return false;
  for (const auto& [name, bytes] : held_) {
    if (bytes > own->second || (bytes == own->second && name < key)) return false;
  }
  return true;
}

bool MemoryBudget::must_close(const std::string& key) const {
  if (total_ <= limit_) return false;
  const auto own = held_.find(key);
  return own != held_.end() && own->second > 0 && is_largest(key);
}

bool MemoryBudget::may_read(const std::string& key) const {
  return total_ <= limit_ || is_largest(key);
}

}  // namespace queen::sink
