// The route table: a tree of path segments. A lookup tries the literal child before the `:name` child and
// that before the `*name` leaf, and steps back when a branch has no handler for the method, so its cost is
// bounded by the table, never by the path.
#include <array>
#include <map>

#include "base/invariant.h"
#include "base/text.h"
#include "http/server.h"

namespace queen::http {

namespace {

constexpr std::size_t kMethods = static_cast<std::size_t>(Method::other) + 1;

// Cuts the first segment off `rest`, which starts with `/`.
std::string_view next_segment(std::string_view& rest) {
  rest.remove_prefix(1);
  const std::size_t end = std::min(rest.find('/'), rest.size());
  const std::string_view segment = rest.substr(0, end);
  rest.remove_prefix(end);
  return segment;
}

}  // namespace

struct Routes::Node {
  std::map<std::string, std::unique_ptr<Node>, std::less<>> literals;
  std::unique_ptr<Node> param;
  struct Leaf {
    Handler handler;
    Gate gate;
  };
  using Leaves = std::array<Leaf, kMethods>;
  Leaves leaves;
  std::unique_ptr<Leaves> catch_all;  // of everything below this node

  static const Leaf* at(const Leaves& leaves, Method method) {
    const Leaf& leaf = leaves[static_cast<std::size_t>(method)];
    return leaf.handler ? &leaf : nullptr;
  }

  const Leaf* find(Method method, std::string_view rest, std::vector<std::string>& params) const {
    if (rest.empty()) return at(leaves, method);
    if (const Leaf* leaf = find_below(method, rest, params)) return leaf;
    const Leaf* leaf = catch_all ? at(*catch_all, method) : nullptr;
    if (leaf != nullptr) params.push_back(percent_decode(rest.substr(1), PlusIs::plus));
    return leaf;
  }

  const Leaf* find_below(Method method, std::string_view rest, std::vector<std::string>& params) const {
    const std::string_view segment = next_segment(rest);
    if (const auto literal = literals.find(segment); literal != literals.end()) {
      if (const Leaf* leaf = literal->second->find(method, rest, params)) return leaf;
    }
    if (!param) return nullptr;
    params.push_back(percent_decode(segment, PlusIs::plus));
    if (const Leaf* leaf = param->find(method, rest, params)) return leaf;
    params.pop_back();
    return nullptr;
  }
};

Routes::Routes() : root_(std::make_unique<Node>()) {}
Routes::~Routes() = default;
Routes::Routes(Routes&&) noexcept = default;

void Routes::add(Method method, std::string_view pattern, Handler handler, Gate gate) {
  INVARIANT(pattern.starts_with('/'), "route pattern '{}' does not start with /", pattern);
  Node* node = root_.get();
  Node::Leaves* leaves = nullptr;
  std::string_view rest = pattern;
  while (!rest.empty()) {
    const std::string_view segment = next_segment(rest);
    if (segment.starts_with('*')) {
      INVARIANT(rest.empty(), "route pattern '{}' goes on after its catch-all", pattern);
      if (!node->catch_all) node->catch_all = std::make_unique<Node::Leaves>();
      leaves = node->catch_all.get();
      break;
    }
    std::unique_ptr<Node>& next =
        segment.starts_with(':') ? node->param : node->literals[std::string(segment)];
    if (!next) next = std::make_unique<Node>();
    node = next.get();
  }
  if (leaves == nullptr) leaves = &node->leaves;
  Node::Leaf& slot = (*leaves)[static_cast<std::size_t>(method)];
  INVARIANT(!slot.handler, "route pattern '{}' is added twice for one method", pattern);
  slot = {std::move(handler), std::move(gate)};
}

void Routes::fallback(Handler handler) {
  fallback_ = std::move(handler);
}

const Handler* Routes::find(Method method, std::string_view path, std::vector<std::string>& params) const {
  params.clear();
  if (path.starts_with('/')) {
    if (const Node::Leaf* leaf = root_->find(method, path, params)) return &leaf->handler;
  }
  return fallback_ ? &fallback_ : nullptr;
}

const Gate* Routes::find_gate(Method method, std::string_view path) const {
  if (!path.starts_with('/')) return nullptr;
  std::vector<std::string> params;
  const Node::Leaf* leaf = root_->find(method, path, params);
  return leaf != nullptr && leaf->gate ? &leaf->gate : nullptr;
}

std::optional<std::string> Request::query_value(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view item = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t equals = std::min(item.find('='), item.size());
    const std::string_view key = item.substr(0, equals);
    const bool same = key == name || (key.find_first_of("%+") != std::string_view::npos &&
                                      percent_decode(key, PlusIs::blank) == name);
    if (!same || item.empty()) continue;
    return percent_decode(item.substr(std::min(equals + 1, item.size())), PlusIs::blank);
  }
  return std::nullopt;
}

}  // namespace queen::http
