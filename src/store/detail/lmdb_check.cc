#include "store/detail/lmdb_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/bytes.h"

// Layout of LMDB 0.9 on a 64-bit little-endian machine, from mdb.c (MDB_page, MDB_meta, MDB_db, MDB_node).
namespace queen::store::detail {
namespace {

constexpr std::size_t kPageHeaderBytes = 16;
constexpr std::size_t kNodeHeaderBytes = 8;
constexpr std::size_t kTreeBytes = 48;
constexpr std::size_t kMetaBytes = 152;
constexpr std::uint32_t kMagic = 0xBEEFC0DE;
constexpr std::uint32_t kDataVersion = 1;
constexpr std::uint16_t kBranch = 0x01;
constexpr std::uint16_t kLeaf = 0x02;
constexpr std::uint16_t kOverflow = 0x04;
constexpr std::uint16_t kMeta = 0x08;
constexpr std::uint16_t kNodeBig = 0x01;
constexpr std::uint16_t kNodeTree = 0x02;
constexpr std::uint16_t kIntegerKey = 0x08;
constexpr std::uint16_t kDepthMax = 32;
constexpr std::uint64_t kNoPage = ~std::uint64_t{0};

struct Tree {
  std::uint32_t pad = 0;
  std::uint16_t flags = 0;
  std::uint16_t depth = 0;
  std::uint64_t entries = 0;
  std::uint64_t root = 0;
};

Tree read_tree(BytesView bytes) {
  ByteReader reader(bytes);
  Tree out;
  out.pad = reader.le<std::uint32_t>();
  out.flags = reader.le<std::uint16_t>();
  out.depth = reader.le<std::uint16_t>();
  reader.take(24);  // counts of branch, leaf and overflow pages
  out.entries = reader.le<std::uint64_t>();
  out.root = reader.le<std::uint64_t>();
  return out;
}

struct Meta {
  Tree free_pages;
  Tree main;
  std::uint64_t last_page = 0;
  std::uint64_t transaction = 0;
};

struct Node {
  std::uint16_t flags = 0;
  std::uint64_t child = 0;  // of a branch
  BytesView key;
  std::uint64_t data_bytes = 0;  // of a leaf
  BytesView data;                // as far as it lies in the page
};

// What to do with the values of a tree.
enum class Holds : std::uint8_t { rows, trees, free_pages };

class FileWalk {
 public:
  FileWalk(std::string path, LmdbVisitor* visitor) : path_(std::move(path)), visitor_(visitor) {}
  ~FileWalk() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileWalk(const FileWalk&) = delete;
  FileWalk& operator=(const FileWalk&) = delete;

  Result<LmdbFacts> run();

 private:
  Error damaged(std::string_view cause, int sys_errno = 0) const {
    return {Errc::corrupt, fmt::format("{} cannot be opened: {}", path_, cause), sys_errno};
  }
  Status open();
  Result<Meta> newest_meta();
  Result<Meta> read_meta(std::uint64_t page);
  Status read_at(std::uint64_t offset, std::size_t bytes, Bytes& into) const;
  Status claim(std::uint64_t first, std::uint64_t pages);
  Result<Bytes> read_page(std::uint64_t number);
  Result<Node> read_node(BytesView page, std::size_t index, bool leaf, std::uint64_t number) const;
  Status walk(const Tree& tree, Holds holds);
  Status walk_table(const Tree& tree);
  Status walk_page(std::uint64_t number, std::uint16_t levels, Holds holds, std::uint64_t& entries);
  bool separates(BytesView key, Holds holds);
  Result<std::vector<Node>> read_nodes(BytesView page, bool leaf, std::uint64_t number) const;
  Status walk_branch(const std::vector<Node>& nodes, std::uint64_t number, std::uint16_t levels, Holds holds,
                     std::uint64_t& entries);
  Status walk_leaf(const Node& node, Holds holds);
  Result<Bytes> value_of(const Node& node);
  Status check_free_pages() const;
  // What is done about damage found in a page.
  Status judge(Status found, std::uint64_t page);

  std::string path_;
  LmdbVisitor* visitor_;      // nullptr: the first damage stops the walk
  Bytes table_;               // whose rows are walked
  std::uint64_t judged_ = 0;  // damages that did not stop it
  int fd_ = -1;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t page_bytes_ = 0;
  std::uint64_t last_page_ = 0;
  Bytes last_key_;   // of the tree that is walked, so far
  Bytes lower_key_;  // no key from here on may be below
  std::vector<bool> seen_;
  std::vector<std::uint64_t> free_;
};

Status FileWalk::open() {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) return damaged(std::strerror(errno), errno);
  struct stat facts{};
  if (::fstat(fd_, &facts) != 0) return damaged(std::strerror(errno), errno);
  if (!S_ISREG(facts.st_mode)) return damaged("it is not a file");
  file_bytes_ = static_cast<std::uint64_t>(facts.st_size);
  return {};
}

Status FileWalk::read_at(std::uint64_t offset, std::size_t bytes, Bytes& into) const {
  into.resize(bytes);
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(fd_, into.data() + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return damaged(std::strerror(errno), errno);
    if (got == 0) return damaged(fmt::format("it is truncated: it ends at byte {}", offset + done));
    done += static_cast<std::size_t>(got);
  }
  return {};
}

Result<Meta> FileWalk::read_meta(std::uint64_t page) {
  Bytes bytes;
  if (auto read = read_at(page * page_bytes_, kMetaBytes, bytes); !read) return read.error();
  ByteReader reader(BytesView(bytes).substr(8));
  reader.take(2);
  const auto flags = reader.le<std::uint16_t>();
  reader.take(4);
  const auto magic = reader.le<std::uint32_t>();
  const auto version = reader.le<std::uint32_t>();
  if ((flags & kMeta) == 0 || magic != kMagic) return damaged("it is not an LMDB file");
  if (version != kDataVersion)
    return damaged(fmt::format("LMDB data version {} is not {}", version, kDataVersion));
  reader.take(16);  // address and size of the map
  Meta out;
  out.free_pages = read_tree(reader.take(kTreeBytes));
  out.main = read_tree(reader.take(kTreeBytes));
  out.last_page = reader.le<std::uint64_t>();
  out.transaction = reader.le<std::uint64_t>();
  if (out.free_pages.flags != kIntegerKey || out.main.flags != 0)
    return damaged(fmt::format("meta page {} is damaged: flags {:#x} and {:#x}", page, out.free_pages.flags,
                               out.main.flags));
  return out;
}

Result<Meta> FileWalk::newest_meta() {
  const auto first = read_meta(0);
  if (!first) return first.error();
  page_bytes_ = first->free_pages.pad;
  if (page_bytes_ < 512 || page_bytes_ > 65536 || (page_bytes_ & (page_bytes_ - 1)) != 0)
    return damaged(fmt::format("page size {} is impossible", page_bytes_));
  const auto second = read_meta(1);
  if (!second) return second.error();
  if (second->free_pages.pad != page_bytes_) return damaged("its two meta pages differ in page size");
  // Transactions write the two in turn, by their lowest bit; a new file has none in either. Other numbers are
  // damage that would make LMDB take the older page for the newer.
  const std::uint64_t even = first->transaction;
  const std::uint64_t odd = second->transaction;
  const bool made = even == 0 && odd == 0;
  if (!made && (even % 2 != 0 || odd % 2 != 1 || (even + 1 != odd && odd + 1 != even)))
    return damaged(fmt::format("its meta pages are damaged: transactions {} and {}", even, odd));
  const Meta newest = second->transaction > first->transaction ? *second : *first;
  if (newest.last_page < 1 || newest.last_page > (std::uint64_t{1} << 47) / page_bytes_)
    return damaged(fmt::format("last page {} is impossible", newest.last_page));
  return newest;
}

// A page belongs to one place: a second claim is a loop or a cross link.
Status FileWalk::claim(std::uint64_t first, std::uint64_t pages) {
  if (first < 2 || first > last_page_ || pages == 0 || pages > last_page_ - first + 1)
    return damaged(fmt::format("page {} is outside of its {} pages", first, last_page_ + 1));
  if (first + pages > seen_.size())
    return damaged(fmt::format("it is truncated: page {} of {} bytes lies beyond its end at byte {}",
                               first + pages - 1, page_bytes_, file_bytes_));
  for (std::uint64_t page = first; page < first + pages; ++page) {
    if (seen_[page]) return damaged(fmt::format("page {} is in use twice", page));
    seen_[page] = true;
  }
  return {};
}

Result<Bytes> FileWalk::read_page(std::uint64_t number) {
  if (auto claimed = claim(number, 1); !claimed) return claimed.error();
  Bytes page;
  if (auto read = read_at(number * page_bytes_, page_bytes_, page); !read) return read.error();
  if (load_le<std::uint64_t>(page.data()) != number)
    return damaged(fmt::format("page {} carries number {}", number, load_le<std::uint64_t>(page.data())));
  return page;
}

Result<Node> FileWalk::read_node(BytesView page, std::size_t index, bool leaf, std::uint64_t number) const {
  const auto broken = [&] { return damaged(fmt::format("node {} of page {} is damaged", index, number)); };
  const auto lower = load_le<std::uint16_t>(page.data() + 12);
  const auto at = load_le<std::uint16_t>(page.data() + kPageHeaderBytes + index * 2);
  if (at < lower || at + kNodeHeaderBytes > page.size() || at % 2 != 0) return broken();
  ByteReader reader(page.substr(at));
  const std::uint64_t low = reader.le<std::uint16_t>();
  const std::uint64_t high = reader.le<std::uint16_t>();
  Node out;
  out.flags = reader.le<std::uint16_t>();
  out.key = reader.take(reader.le<std::uint16_t>());
  if (!reader.ok()) return broken();
  if (!leaf) {
    out.child = low | high << 16 | std::uint64_t{out.flags} << 32;
    return out;
  }
  out.data_bytes = low | high << 16;
  out.data = reader.take((out.flags & kNodeBig) != 0 ? sizeof(std::uint64_t) : out.data_bytes);
  if (!reader.ok() || (out.flags & ~(kNodeBig | kNodeTree)) != 0) return broken();
  return out;
}

// The whole value, from overflow pages when it is big.
Result<Bytes> FileWalk::value_of(const Node& node) {
  if ((node.flags & kNodeBig) == 0) return Bytes(node.data);
  const auto first = load_le<std::uint64_t>(node.data.data());
  const std::uint64_t pages = (kPageHeaderBytes + node.data_bytes + page_bytes_ - 1) / page_bytes_;
  if (auto claimed = claim(first, pages); !claimed) return claimed.error();
  Bytes head;
  if (auto read = read_at(first * page_bytes_, kPageHeaderBytes, head); !read) return read.error();
  if (load_le<std::uint64_t>(head.data()) != first || load_le<std::uint16_t>(head.data() + 10) != kOverflow ||
      load_le<std::uint32_t>(head.data() + 12) != pages)
    return damaged(fmt::format("overflow page {} is damaged", first));
  Bytes value;
  if (auto read = read_at(first * page_bytes_ + kPageHeaderBytes, node.data_bytes, value); !read)
    return read.error();
  return value;
}

Status FileWalk::walk_leaf(const Node& node, Holds holds) {
  if (((node.flags & kNodeTree) != 0) != (holds == Holds::trees)) return damaged("a table lies among rows");
  if (holds == Holds::rows && (node.flags & kNodeBig) == 0) {
    if (visitor_ != nullptr) visitor_->row(table_, node.key, node.data);
    return {};
  }
  auto value = value_of(node);
  if (!value) return value.error();
  if (holds == Holds::rows) {
    if (visitor_ != nullptr) visitor_->row(table_, node.key, *value);
    return {};
  }
  if (holds == Holds::trees) {
    if (value->size() != kTreeBytes) return damaged("a table's root is damaged");
    const Tree tree = read_tree(*value);
    if (tree.flags != 0) return damaged(fmt::format("a table has flags {:#x}", tree.flags));
    table_ = node.key;
    return walk_table(tree);
  }
  ByteReader reader(*value);
  const auto count = reader.le<std::uint64_t>();
  if (!reader.ok() || reader.left() / 8 < count) return damaged("its list of free pages is damaged");
  for (std::uint64_t i = 0; i < count; ++i) free_.push_back(reader.le<std::uint64_t>());
  return {};
}

// The key of a branch's node is above all keys before it and not above those in it. A wrong one does not
// change what a load reads, but the next write of a key would go to the wrong page.
bool FileWalk::separates(BytesView key, Holds holds) {
  if (holds == Holds::free_pages) return true;  // those are numbers, and the list is verified whole
  if (key <= last_key_ || key < lower_key_) return false;
  lower_key_.assign(key);
  return true;
}

// LMDB keeps the nodes of a page packed at its end: one that is not there, or leaves a gap, is damage, and a
// wrong header would let the next write run over nodes.
Result<std::vector<Node>> FileWalk::read_nodes(BytesView page, bool leaf, std::uint64_t number) const {
  const auto flags = load_le<std::uint16_t>(page.data() + 10);
  const auto lower = load_le<std::uint16_t>(page.data() + 12);
  const auto upper = load_le<std::uint16_t>(page.data() + 14);
  if (flags != (leaf ? kLeaf : kBranch))
    return damaged(fmt::format("page {} has flags {:#x}", number, flags));
  if (lower < kPageHeaderBytes || lower % 2 != 0 || lower > upper || upper > page.size())
    return damaged(fmt::format("the header of page {} is damaged", number));
  const std::size_t count = (lower - kPageHeaderBytes) / 2;
  if (count < (leaf ? 1 : 2)) return damaged(fmt::format("page {} has {} nodes", number, count));
  std::vector<Node> out;
  out.reserve(count);
  std::size_t bytes = 0;
  std::size_t first = page.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto node = read_node(page, i, leaf, number);
    if (!node) return node.error();
    bytes += kNodeHeaderBytes + node->key.size() + node->data.size();
    bytes += bytes % 2;
    first = std::min(first, static_cast<std::size_t>(node->key.data() - page.data()) - kNodeHeaderBytes);
    out.push_back(*node);
  }
  if (first != upper || bytes != page.size() - upper)
    return damaged(fmt::format("the nodes of page {} do not fill it from byte {} on", number, upper));
  return out;
}

Status FileWalk::walk_page(std::uint64_t number, std::uint16_t levels, Holds holds, std::uint64_t& entries) {
  const auto page = read_page(number);
  if (!page) return page.error();
  const bool leaf = levels == 1;
  const auto nodes = read_nodes(*page, leaf, number);
  if (!nodes) return nodes.error();
  if (!leaf) return walk_branch(*nodes, number, levels, holds, entries);
  if (holds != Holds::free_pages) {
    if (nodes->front().key < lower_key_)
      return damaged(fmt::format("the first key of page {} is below its branch's", number));
    last_key_.assign(nodes->back().key);
  }
  for (const Node& node : *nodes)
    if (Status walked = judge(walk_leaf(node, holds), number); !walked) return walked;
  entries += nodes->size();
  return {};
}

Status FileWalk::walk_branch(const std::vector<Node>& nodes, std::uint64_t number, std::uint16_t levels,
                             Holds holds, std::uint64_t& entries) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Status walked;
    if (i != 0 && !separates(nodes[i].key, holds))
      walked = judge(damaged(fmt::format("node {} of page {} does not separate its keys", i, number)), number);
    if (!walked) return walked;
    const auto below = static_cast<std::uint16_t>(levels - 1);
    walked = judge(walk_page(nodes[i].child, below, holds, entries), nodes[i].child);
    if (!walked) return walked;
  }
  return {};
}

Status FileWalk::walk(const Tree& tree, Holds holds) {
  if (tree.root == kNoPage) {
    if (tree.entries != 0) return damaged("a table with rows has no pages");
    return {};
  }
  if (tree.depth < 1 || tree.depth > kDepthMax)
    return damaged(fmt::format("a table is {} levels deep", tree.depth));
  std::uint64_t entries = 0;
  const std::uint64_t judged_before = judged_;
  if (auto walked = judge(walk_page(tree.root, tree.depth, holds, entries), tree.root); !walked) return walked;
  if (entries != tree.entries && judged_ == judged_before)
    return damaged(fmt::format("a table says it has {} rows and has {}", tree.entries, entries));
  return {};
}

// In the middle of the walk over the tree that names it.
Status FileWalk::walk_table(const Tree& tree) {
  const Bytes last = std::exchange(last_key_, {});
  const Bytes lower = std::exchange(lower_key_, {});
  const Status walked = walk(tree, Holds::rows);
  last_key_ = last;
  lower_key_ = lower;
  return walked;
}

Status FileWalk::judge(Status found, std::uint64_t page) {
  if (found || visitor_ == nullptr) return found;
  ++judged_;
  return visitor_->damaged(std::move(found).error(), page * page_bytes_);
}

Status FileWalk::check_free_pages() const {
  for (const std::uint64_t page : free_) {
    if (page < 2 || page > last_page_) return damaged(fmt::format("free page {} does not exist", page));
    if (page < seen_.size() && seen_[page]) return damaged(fmt::format("page {} is free and in use", page));
  }
  return {};
}

Result<LmdbFacts> FileWalk::run() {
  if (auto opened = open(); !opened) return opened.error();
  const auto meta = newest_meta();
  if (!meta) return meta.error();
  last_page_ = meta->last_page;
  seen_.resize(file_bytes_ / page_bytes_);
  const std::uint64_t meta_page = meta->transaction % 2;
  if (auto walked = judge(walk(meta->free_pages, Holds::free_pages), meta_page); !walked) return walked.error();
  if (auto walked = judge(walk(meta->main, Holds::trees), meta_page); !walked) return walked.error();
  if (auto checked = judge(check_free_pages(), meta_page); !checked) return checked.error();
  return LmdbFacts{page_bytes_, last_page_, meta->transaction};
}

}  // namespace

Result<LmdbFacts> check_lmdb_file(const std::string& path) {
  return FileWalk(path, nullptr).run();
}

Result<LmdbFacts> walk_lmdb_file(const std::string& path, LmdbVisitor& visitor) {
  return FileWalk(path, &visitor).run();
}

}  // namespace queen::store::detail
