#include "store/detail/block.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/invariant.h"
#include "store/detail/key_order.h"

// A row: checksum u64 | suffix length and dirty bit u16 | value length u16, kExternal for a value outside |
// suffix | value, or the pointer to u32 length and bytes.
namespace queen::store::detail {
namespace {

constexpr std::size_t kHeaderBytes = 12;
constexpr std::uint16_t kDirtyBit = 0x8000;
constexpr std::uint16_t kExternal = 0xFFFF;

char* allocate(std::size_t bytes) {
  char* out = static_cast<char*>(std::malloc(bytes));
  if (out == nullptr) throw std::bad_alloc();
  return out;
}

char* make_external(BytesView value) {
  char* out = allocate(sizeof(std::uint32_t) + value.size());
  store_le(out, static_cast<std::uint32_t>(value.size()));
  std::memcpy(out + sizeof(std::uint32_t), value.data(), value.size());
  return out;
}

BytesView external_value(const char* from) {
  return {from + sizeof(std::uint32_t), load_le<std::uint32_t>(from)};
}

}  // namespace

Block::~Block() {
  for (std::size_t i = 0; i < count(); ++i) free_external(i);
  std::free(data_);
}

Block::Block(Block&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)),
      prefix_(std::move(other.prefix_)),
      slots_(std::exchange(other.slots_, {})) {
  other.prefix_.clear();
}

Block& Block::operator=(Block&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  std::swap(prefix_, other.prefix_);
  std::swap(slots_, other.slots_);
  return *this;
}

std::size_t Block::bytes_with_prefix(std::size_t prefix_bytes) const {
  const std::size_t lost = prefix_.size() > prefix_bytes ? prefix_.size() - prefix_bytes : 0;
  return size_ + count() * lost;
}
std::size_t Block::shared_with(BytesView key) const {
  return common_prefix(key, prefix_);
}

Block::Header Block::header_at(std::size_t index) const {
  const char* at = data_ + slots_[index];
  Header out;
  out.checksum = load_le<std::uint64_t>(at);
  const auto suffix = load_le<std::uint16_t>(at + 8);
  out.suffix_bytes = suffix & static_cast<std::uint16_t>(~kDirtyBit);
  out.dirty = (suffix & kDirtyBit) != 0;
  const auto stored = load_le<std::uint16_t>(at + 10);
  out.external = stored == kExternal;
  out.stored_bytes = out.external ? static_cast<std::uint16_t>(sizeof(char*)) : stored;
  return out;
}

void Block::write_header(std::size_t at, const Header& header) {
  store_le(data_ + at, header.checksum);
  store_le(data_ + at + 8, static_cast<std::uint16_t>(header.suffix_bytes | (header.dirty ? kDirtyBit : 0)));
  store_le(data_ + at + 10, header.external ? kExternal : header.stored_bytes);
}

std::size_t Block::row_bytes(std::size_t index) const {
  const Header header = header_at(index);
  return kHeaderBytes + header.suffix_bytes + header.stored_bytes;
}

BytesView Block::suffix_at(std::size_t index) const {
  const char* at = data_ + slots_[index];
  return {at + kHeaderBytes, static_cast<std::size_t>(load_le<std::uint16_t>(at + 8) & ~kDirtyBit)};
}

char* Block::stored_at(std::size_t index) const {
  return data_ + slots_[index] + kHeaderBytes + suffix_at(index).size();
}

char* Block::external_at(std::size_t index) const {
  char* out = nullptr;
  std::memcpy(&out, stored_at(index), sizeof out);
  return out;
}

void Block::free_external(std::size_t index) {
  if (header_at(index).external) std::free(external_at(index));
}

Block::Position Block::find(BytesView key) const {
  const int side = key.substr(0, prefix_.size()).compare(prefix_);
  if (side != 0) return {side < 0 ? 0 : count(), false};
  const BytesView suffix = key.substr(prefix_.size());
  std::size_t low = 0;
  std::size_t high = count();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const int order = suffix_at(middle).compare(suffix);
    if (order == 0) return {middle, true};
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return {low, false};
}

void Block::key_at(std::size_t index, Bytes& into) const {
  into.assign(prefix_);
  into.append(suffix_at(index));
}

BytesView Block::value_at(std::size_t index) const {
  const Header header = header_at(index);
  if (header.external) return external_value(external_at(index));
  return {stored_at(index), header.stored_bytes};
}

std::uint64_t Block::checksum_at(std::size_t index) const {
  return header_at(index).checksum;
}
bool Block::dirty_at(std::size_t index) const {
  return header_at(index).dirty;
}
void Block::set_dirty(std::size_t index, Dirty dirty) {
  Header header = header_at(index);
  header.dirty = dirty == Dirty::yes;
  write_header(slots_[index], header);
}

void Block::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return;
  // An eighth of slack: doubling would waste a third of all memory on average.
  const std::size_t wanted = bytes + std::max<std::size_t>(bytes / 8, 64);
  char* grown = static_cast<char*>(std::realloc(data_, wanted));
  if (grown == nullptr) throw std::bad_alloc();
  data_ = grown;
  capacity_ = static_cast<std::uint32_t>(wanted);
}

void Block::open_gap(std::size_t at, std::size_t bytes, std::size_t first_slot) {
  reserve(size_ + bytes);
  std::memmove(data_ + at + bytes, data_ + at, size_ - at);
  size_ += static_cast<std::uint32_t>(bytes);
  for (std::size_t i = first_slot; i < slots_.size(); ++i)
    slots_[i] = static_cast<std::uint16_t>(slots_[i] + bytes);
}

void Block::close_gap(std::size_t at, std::size_t bytes, std::size_t first_slot) {
  std::memmove(data_ + at, data_ + at + bytes, size_ - at - bytes);
  size_ -= static_cast<std::uint32_t>(bytes);
  for (std::size_t i = first_slot; i < slots_.size(); ++i)
    slots_[i] = static_cast<std::uint16_t>(slots_[i] - bytes);
}

void Block::insert(std::size_t index, BytesView key, BytesView value, std::uint64_t checksum) {
  if (count() == 0)
    prefix_ = Bytes(key);
  else if (!key.starts_with(prefix_))
    set_prefix(key.substr(0, common_prefix(key, prefix_)));
  const BytesView suffix = key.substr(prefix_.size());
  Header header;
  header.checksum = checksum;
  header.suffix_bytes = static_cast<std::uint16_t>(suffix.size());
  header.external = value.size() > kInlineValueBytesMax;
  header.stored_bytes = static_cast<std::uint16_t>(header.external ? sizeof(char*) : value.size());
  const std::size_t at = index < count() ? slots_[index] : size_;
  open_gap(at, kHeaderBytes + header.suffix_bytes + header.stored_bytes, index);
  slots_.insert(slots_.begin() + static_cast<std::ptrdiff_t>(index), static_cast<std::uint16_t>(at));
  write_header(at, header);
  std::memcpy(data_ + at + kHeaderBytes, suffix.data(), suffix.size());
  char* stored = data_ + at + kHeaderBytes + suffix.size();
  if (header.external) {
    char* outside = make_external(value);
    std::memcpy(stored, &outside, sizeof outside);
  } else if (!value.empty()) {
    std::memcpy(stored, value.data(), value.size());
  }
}

void Block::replace(std::size_t index, BytesView value, std::uint64_t checksum) {
  Header header = header_at(index);
  if (value_at(index).size() == value.size()) {
    char* into = header.external ? external_at(index) + sizeof(std::uint32_t) : stored_at(index);
    if (!value.empty()) std::memmove(into, value.data(), value.size());
    header.checksum = checksum;
    write_header(slots_[index], header);
    return;
  }
  Bytes key;
  key_at(index, key);
  const Bytes copy(value);  // `value` may be borrowed from this very block
  erase(index);
  insert(index, key, copy, checksum);
  set_dirty(index, header.dirty ? Dirty::yes : Dirty::no);
}

void Block::erase(std::size_t index) {
  free_external(index);
  const std::size_t bytes = row_bytes(index);
  const std::size_t at = slots_[index];
  slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(index));
  close_gap(at, bytes, index);
}

void Block::append_moved(const Block& from, std::size_t index, std::size_t key_skip, BytesView key_lead) {
  Header header = from.header_at(index);
  const BytesView suffix = from.suffix_at(index).substr(key_skip);
  header.suffix_bytes = static_cast<std::uint16_t>(key_lead.size() + suffix.size());
  const std::size_t at = size_;
  open_gap(at, kHeaderBytes + header.suffix_bytes + header.stored_bytes, count());
  slots_.push_back(static_cast<std::uint16_t>(at));
  write_header(at, header);
  char* into = data_ + at + kHeaderBytes;
  into = std::copy(key_lead.begin(), key_lead.end(), into);
  into = std::copy(suffix.begin(), suffix.end(), into);
  std::memcpy(into, from.stored_at(index), header.stored_bytes);
}

void Block::forget_all() {
  slots_.clear();
  size_ = 0;
}

// Rewrites the rows for a shorter or longer prefix, which all keys must have.
void Block::set_prefix(BytesView prefix) {
  if (prefix == prefix_) return;
  Block fresh;
  fresh.prefix_ = Bytes(prefix);
  const std::size_t lead_at = std::min(prefix.size(), prefix_.size());
  const BytesView lead = BytesView(prefix_).substr(lead_at);
  const std::size_t skip = prefix.size() > prefix_.size() ? prefix.size() - prefix_.size() : 0;
  fresh.slots_.reserve(count() + 1);
  for (std::size_t i = 0; i < count(); ++i) fresh.append_moved(*this, i, skip, lead);
  forget_all();
  *this = std::move(fresh);
}

Block Block::split(std::size_t index) {
  INVARIANT(index > 0 && index < count(), "split at {} of {}", index, count());
  Block right;
  right.prefix_ = prefix_;
  right.slots_.reserve(count() - index);
  for (std::size_t i = index; i < count(); ++i) right.append_moved(*this, i, 0, {});
  size_ = slots_[index];
  slots_.resize(index);
  for (Block* half : {this, &right}) {
    // All keys lie between the first and the last, so what these two share is shared by all.
    Bytes first;
    Bytes last;
    half->key_at(0, first);
    half->key_at(half->count() - 1, last);
    half->set_prefix(BytesView(first).substr(0, common_prefix(first, last)));
  }
  return right;
}

void Block::absorb(Block&& next) {
  if (next.count() == 0) return;
  if (count() == 0) {
    *this = std::move(next);
    return;
  }
  set_prefix(BytesView(prefix_).substr(0, common_prefix(prefix_, next.prefix_)));
  const BytesView lead = BytesView(next.prefix_).substr(prefix_.size());
  for (std::size_t i = 0; i < next.count(); ++i) append_moved(next, i, 0, lead);
  next.forget_all();
}

}  // namespace queen::store::detail
