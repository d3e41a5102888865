#include "store/detail/block.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#include "base/invariant.h"
#include "store/detail/key_order.h"

// The allocation: shared prefix | rows in any order | room | slots, u16 each: where each row begins.
// A row: flags u8 (mark 2 bits, external, wide, low 4 bits of the suffix length) | value length u8, or when
// wide u16: value length 10 bits, high bits of the suffix length 6 | checksum u64 | suffix | value, or the
// pointer to u32 length and bytes.
namespace queen::store::detail {
namespace {

constexpr unsigned kMarkMask = 3;
constexpr unsigned kExternalBit = 4;
constexpr unsigned kWideBit = 8;
constexpr unsigned kSuffixLowBits = 4;
constexpr std::size_t kSuffixLowMax = 15;
constexpr unsigned kStoredBits = 10;
constexpr std::size_t kNarrowBytes = 10;
constexpr std::size_t kWideBytes = 11;
// Few sizes of allocation, so that what one block gives back fits another.
constexpr std::size_t kSmallStepBytes = 64;
constexpr std::size_t kStepBytes = 256;

static_assert(kInlineValueBytesMax < (1U << kStoredBits));

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
char* load_pointer(const char* from) {
  char* out = nullptr;
  std::memcpy(&out, from, sizeof out);
  return out;
}

char* copy(BytesView bytes, char* into) {
  if (!bytes.empty()) std::memcpy(into, bytes.data(), bytes.size());
  return into + bytes.size();
}

// The allocator keeps 8 bytes of its own beside each allocation, and rounds to 16.
std::size_t room_for(std::size_t bytes) {
  constexpr std::size_t kOwn = 8;
  const std::size_t step = bytes < 2 * kStepBytes ? kSmallStepBytes : kStepBytes;
  const std::size_t rounded = (bytes + kOwn + step - 1) / step * step - kOwn;
  return bytes <= kBlockBytes ? std::min(rounded, kBlockBytes) : rounded;
}

}  // namespace

std::size_t Block::Header::bytes() const {
  const bool wide = suffix_bytes > kSuffixLowMax || stored_bytes > std::numeric_limits<std::uint8_t>::max();
  return wide ? kWideBytes : kNarrowBytes;
}

Block::Header Block::header_for(std::size_t suffix_bytes, BytesView value, std::uint64_t checksum,
                                Mark mark) {
  Header out;
  out.checksum = checksum;
  out.suffix_bytes = static_cast<std::uint16_t>(suffix_bytes);
  out.external = value.size() > kInlineValueBytesMax;
  out.stored_bytes = static_cast<std::uint16_t>(out.external ? sizeof(char*) : value.size());
  out.mark = mark;
  return out;
}

Block::Header Block::parse(const char* row) {
  const auto flags = load_le<std::uint8_t>(row);
  Header out;
  out.mark = static_cast<Mark>(flags & kMarkMask);
  out.external = (flags & kExternalBit) != 0;
  out.suffix_bytes = flags >> kSuffixLowBits;
  if ((flags & kWideBit) == 0) {
    out.stored_bytes = load_le<std::uint8_t>(row + 1);
    out.checksum = load_le<std::uint64_t>(row + kNarrowBytes - sizeof out.checksum);
    return out;
  }
  const auto sizes = load_le<std::uint16_t>(row + 1);
  out.stored_bytes = sizes & ((1U << kStoredBits) - 1);
  out.suffix_bytes = static_cast<std::uint16_t>(out.suffix_bytes | sizes >> kStoredBits << kSuffixLowBits);
  out.checksum = load_le<std::uint64_t>(row + kWideBytes - sizeof out.checksum);
  return out;
}

void Block::write(char* row, const Header& header) {
  const std::size_t bytes = header.bytes();
  const bool wide = bytes == kWideBytes;
  const unsigned low = header.suffix_bytes & kSuffixLowMax;
  row[0] = static_cast<char>(static_cast<unsigned>(header.mark) | (header.external ? kExternalBit : 0) |
                             (wide ? kWideBit : 0) | low << kSuffixLowBits);
  if (wide)
    store_le(row + 1, static_cast<std::uint16_t>(header.stored_bytes |
                                                 header.suffix_bytes >> kSuffixLowBits << kStoredBits));
  else
    row[1] = static_cast<char>(header.stored_bytes);
  store_le(row + bytes - sizeof header.checksum, header.checksum);
}

Block::~Block() {
  for (std::size_t i = 0; i < count_; ++i) {
    const Header header = parse(row(i));
    if (header.external) std::free(load_pointer(row(i) + header.bytes() + header.suffix_bytes));
  }
  std::free(data_);
}

Block::Block(Block&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      used_(std::exchange(other.used_, 0)),
      holes_(std::exchange(other.holes_, 0)),
      count_(std::exchange(other.count_, 0)),
      capacity_(std::exchange(other.capacity_, 0)),
      prefix_bytes_(std::exchange(other.prefix_bytes_, 0)),
      inserted_(std::exchange(other.inserted_, 0)) {}

Block& Block::operator=(Block&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(used_, other.used_);
  std::swap(holes_, other.holes_);
  std::swap(count_, other.count_);
  std::swap(capacity_, other.capacity_);
  std::swap(prefix_bytes_, other.prefix_bytes_);
  std::swap(inserted_, other.inserted_);
  return *this;
}

std::size_t Block::bytes_with_prefix(std::size_t prefix_bytes) const {
  if (prefix_bytes >= prefix_bytes_) return bytes();
  // A longer suffix may also need a wide header.
  return bytes() + count_ * (prefix_bytes_ - prefix_bytes + 1);
}
std::size_t Block::bytes_with(BytesView key, BytesView value) const {
  const std::size_t shared = shared_with(key);
  return bytes_with_prefix(shared) + header_for(key.size() - shared, value, 0, Mark::clean).row_bytes() +
         slot_bytes(1);
}
std::size_t Block::shared_with(BytesView key) const {
  return common_prefix(key, prefix());
}

BytesView Block::suffix_at(std::size_t index) const {
  const char* at = row(index);
  const auto flags = load_le<std::uint8_t>(at);
  const std::size_t low = flags >> kSuffixLowBits;
  if ((flags & kWideBit) == 0) return {at + kNarrowBytes, low};
  const std::size_t high = load_le<std::uint16_t>(at + 1) >> kStoredBits;
  return {at + kWideBytes, low | high << kSuffixLowBits};
}

bool Block::ends_below(BytesView key) const {
  if (count_ == 0) return true;
  const int side = key.substr(0, prefix_bytes_).compare(prefix());
  return side > 0 || (side == 0 && key.substr(prefix_bytes_) > suffix_at(count_ - std::size_t{1}));
}

Block::Position Block::find(BytesView key) const {
  const int side = key.substr(0, prefix_bytes_).compare(prefix());
  if (side != 0) return {side < 0 ? 0 : count(), false};
  const BytesView suffix = key.substr(prefix_bytes_);
  std::size_t low = 0;
  std::size_t high = count_;
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
  into.assign(prefix());
  into.append(suffix_at(index));
}

BytesView Block::value_at(std::size_t index) const {
  const char* at = row(index);
  const Header header = parse(at);
  const char* stored = at + header.bytes() + header.suffix_bytes;
  if (header.external) return external_value(load_pointer(stored));
  return {stored, header.stored_bytes};
}
std::uint64_t Block::checksum_at(std::size_t index) const {
  return parse(row(index)).checksum;
}
Mark Block::mark_at(std::size_t index) const {
  return static_cast<Mark>(load_le<std::uint8_t>(row(index)) & kMarkMask);
}
void Block::set_mark(std::size_t index, Mark mark) {
  char* at = row(index);
  at[0] = static_cast<char>((load_le<std::uint8_t>(at) & ~kMarkMask) | static_cast<unsigned>(mark));
}

void Block::open_slot(std::size_t index) {
  char* end = slot(count_) + slot_bytes(1);  // of the slots in use
  std::memmove(end - slot_bytes(1), end, slot_bytes(count_ - index));
  ++count_;
}
void Block::close_slot(std::size_t index) {
  char* first = slot(count_ - std::size_t{1});
  std::memmove(first + slot_bytes(1), first, slot_bytes(count_ - index - 1));
  --count_;
}

char* Block::append(const Header& header, BytesView lead, BytesView suffix) {
  char* at = data_ + used_;
  write(at, header);
  used_ = static_cast<std::uint16_t>(used_ + header.row_bytes());
  return copy(suffix, copy(lead, at + header.bytes()));
}

void Block::begin(BytesView prefix, std::size_t capacity) {
  INVARIANT(data_ == nullptr && capacity <= std::numeric_limits<std::uint16_t>::max(), "a block of {} bytes",
            capacity);
  data_ = allocate(capacity);
  capacity_ = static_cast<std::uint16_t>(capacity);
  copy(prefix, data_);
  prefix_bytes_ = static_cast<std::uint16_t>(prefix.size());
  used_ = prefix_bytes_;
}

void Block::append_moved(const Block& other, std::size_t from, std::size_t to) {
  // Of the two prefixes one is the start of the other.
  const std::size_t same = std::min(prefix_bytes_, other.prefix_bytes_);
  const BytesView lead = other.prefix().substr(same);
  const std::size_t skip = prefix_bytes_ - same;
  for (std::size_t i = from; i < to; ++i) {
    const char* at = other.row(i);
    Header header = parse(at);
    const BytesView whole(at + header.bytes(), header.suffix_bytes);
    const BytesView suffix = whole.substr(skip);
    header.suffix_bytes = static_cast<std::uint16_t>(lead.size() + suffix.size());
    const auto begins = used_;
    char* into = append(header, lead, suffix);
    copy({whole.data() + whole.size(), header.stored_bytes}, into);
    ++count_;
    store_le(slot(count_ - std::size_t{1}), begins);
  }
}

std::size_t Block::bytes_of(std::size_t from, std::size_t to, std::size_t prefix_bytes) const {
  std::size_t out = prefix_bytes + slot_bytes(to - from);
  for (std::size_t i = from; i < to; ++i) {
    Header header = parse(row(i));
    header.suffix_bytes = static_cast<std::uint16_t>(header.suffix_bytes + prefix_bytes_ - prefix_bytes);
    out += header.row_bytes();
  }
  return out;
}

// Packs the rows into a fresh allocation.
void Block::rebuild(std::size_t capacity) {
  Block fresh;
  fresh.begin(prefix(), capacity);
  if (holes_ == 0) {
    copy({data_ + prefix_bytes_, std::size_t{used_} - prefix_bytes_}, fresh.data_ + prefix_bytes_);
    fresh.used_ = used_;
    fresh.count_ = count_;
    if (count_ != 0) std::memcpy(fresh.slot(count_ - 1U), slot(count_ - 1U), slot_bytes(count_));
  } else {
    fresh.append_moved(*this, 0, count_);
  }
  fresh.inserted_ = inserted_;
  forget_all();
  *this = std::move(fresh);
}

void Block::make_room(std::size_t bytes) {
  if (used_ + bytes + slot_bytes(count_) <= capacity_) return;
  const std::size_t needed = this->bytes() + bytes;
  rebuild(holes_ != 0 && needed <= capacity_ ? capacity_ : room_for(needed));
}

void Block::fit() {
  const std::size_t room = room_for(bytes());
  if (room < capacity_) rebuild(room);
}

void Block::set_prefix(BytesView prefix) {
  if (prefix.size() == prefix_bytes_) return;
  Block fresh;
  fresh.begin(prefix, room_for(bytes_of(0, count_, prefix.size())));
  fresh.append_moved(*this, 0, count_);
  fresh.inserted_ = inserted_;
  forget_all();
  *this = std::move(fresh);
}

void Block::insert(std::size_t index, BytesView key, BytesView value, std::uint64_t checksum, Mark mark) {
  if (count_ == 0) {
    *this = Block();
    begin(key, room_for(key.size() + header_for(0, value, checksum, mark).row_bytes() + slot_bytes(1)));
  } else if (!key.starts_with(prefix())) {
    set_prefix(key.substr(0, shared_with(key)));
  }
  const BytesView suffix = key.substr(prefix_bytes_);
  const Header header = header_for(suffix.size(), value, checksum, mark);
  make_room(header.row_bytes() + slot_bytes(1));
  const auto begins = used_;
  char* stored = append(header, {}, suffix);
  if (header.external) {
    char* outside = make_external(value);
    std::memcpy(stored, &outside, sizeof outside);
  } else {
    copy(value, stored);
  }
  open_slot(index);
  store_le(slot(index), begins);
  inserted_ = static_cast<std::uint16_t>(index);
}

void Block::replace(std::size_t index, BytesView value, std::uint64_t checksum) {
  char* at = row(index);
  const Header old = parse(at);
  char* stored = at + old.bytes() + old.suffix_bytes;
  const Header header = header_for(old.suffix_bytes, value, checksum, old.mark);
  char* outside = header.external ? make_external(value) : nullptr;
  const BytesView bytes =
      header.external ? BytesView(reinterpret_cast<const char*>(&outside), sizeof outside) : value;
  if (old.external) std::free(load_pointer(stored));
  if (header.row_bytes() <= old.row_bytes()) {
    // A header may become shorter than it was: the suffix moves down before the value comes behind it.
    std::memmove(at + header.bytes(), at + old.bytes(), old.suffix_bytes);
    write(at, header);
    copy(bytes, at + header.bytes() + header.suffix_bytes);
    holes_ = static_cast<std::uint16_t>(holes_ + old.row_bytes() - header.row_bytes());
    return;
  }
  // The value there no longer owns anything, whatever a rebuild makes of it.
  write(at, header_for(old.suffix_bytes, {}, 0, old.mark));
  holes_ = static_cast<std::uint16_t>(holes_ + old.row_bytes() - parse(at).row_bytes());
  std::memmove(at + parse(at).bytes(), at + old.bytes(), old.suffix_bytes);
  const std::size_t left = parse(at).row_bytes();
  make_room(header.row_bytes());
  const auto begins = used_;
  copy(bytes, append(header, {}, suffix_at(index)));
  store_le(slot(index), begins);
  holes_ = static_cast<std::uint16_t>(holes_ + left);
}

void Block::erase(std::size_t index) {
  const char* at = row(index);
  const Header header = parse(at);
  if (header.external) std::free(load_pointer(at + header.bytes() + header.suffix_bytes));
  holes_ = static_cast<std::uint16_t>(holes_ + header.row_bytes());
  close_slot(index);
  inserted_ = 0;
  if (count_ != 0 && bytes() < capacity_ / 2U) fit();
}

Block Block::part(std::size_t from, std::size_t to) const {
  // All keys lie between the first and the last, so what these two share is shared by all.
  const BytesView first = suffix_at(from);
  const BytesView last = suffix_at(to - 1);
  Bytes prefix(this->prefix());
  prefix.append(first.substr(0, common_prefix(first, last)));
  Block out;
  out.begin(prefix, room_for(bytes_of(from, to, prefix.size())));
  out.append_moved(*this, from, to);
  return out;
}

Block Block::split(std::size_t index) {
  INVARIANT(index > 0 && index < count(), "split at {} of {}", index, count());
  Block right = part(index, count_);
  Block left = part(0, index);
  left.inserted_ = static_cast<std::uint16_t>(index - 1);
  forget_all();
  *this = std::move(left);
  return right;
}

void Block::absorb(Block&& next) {
  if (next.count() == 0) return;
  if (count() == 0) {
    *this = std::move(next);
    return;
  }
  const Bytes prefix(this->prefix().substr(0, shared_with(next)));
  Block out;
  out.begin(prefix,
            room_for(bytes_of(0, count_, prefix.size()) + next.bytes_of(0, next.count_, prefix.size())));
  out.append_moved(*this, 0, count_);
  out.append_moved(next, 0, next.count_);
  forget_all();
  next.forget_all();
  *this = std::move(out);
}

}  // namespace queen::store::detail
