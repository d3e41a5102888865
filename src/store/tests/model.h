// What a view must do, in a std::map: the model of the store and of the overlay.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <string>
#include <vector>

#include "store/view.h"

namespace queen::store {

using Model = std::map<Bytes, Bytes>;
using Rows = std::vector<std::pair<Bytes, Bytes>>;

inline Rows scan_of(const View& view, Keyspace keyspace, BytesView prefix, BytesView from,
                    std::size_t limit = SIZE_MAX) {
  Rows out;
  view.scan(keyspace, prefix, from, [&](BytesView key, BytesView value) {
    out.emplace_back(key, value);
    return out.size() < limit;
  });
  return out;
}

inline Rows scan_of(const Model& model, BytesView prefix, BytesView from, std::size_t limit = SIZE_MAX) {
  Rows out;
  for (const auto& [key, value] : model)
    if (out.size() < limit && key.starts_with(prefix) && key >= from) out.emplace_back(key, value);
  return out;
}

inline std::optional<View::Row> last_of(const Model& model, BytesView prefix, BytesView to) {
  std::optional<View::Row> out;
  for (const auto& [key, value] : model)
    if (key.starts_with(prefix) && key <= to) out = View::Row{key, value};
  return out;
}

// Keys over a small alphabet and of very different lengths: shared prefixes of every kind, some long.
inline rc::Gen<Bytes> keys() {
  return rc::gen::map(
      rc::gen::tuple(rc::gen::inRange(0, 6),
                     rc::gen::container<std::string>(rc::gen::element('\0', 'a', 'b', '\xFF')),
                     rc::gen::inRange(0, 40)),
      [](const std::tuple<int, std::string, int>& parts) {
        const auto& [lead, middle, number] = parts;
        const std::vector<Bytes> leads{"", "a", "ab", Bytes(200, 'a'), Bytes(390, 'p'), Bytes(2, '\xFF')};
        Bytes key = leads[static_cast<std::size_t>(lead)] + middle.substr(0, 60) + std::to_string(number);
        return key;
      });
}

// Values on both sides of what a block holds itself.
inline rc::Gen<Bytes> values() {
  return rc::gen::map(rc::gen::pair(rc::gen::element<std::size_t>(0, 1, 8, 100, 511, 512, 513, 3000),
                                    rc::gen::arbitrary<char>()),
                      [](const std::pair<std::size_t, char>& of) { return Bytes(of.first, of.second); });
}

inline void expect_same(const View& view, Keyspace keyspace, const Model& model, BytesView prefix,
                        BytesView at) {
  RC_ASSERT(scan_of(view, keyspace, prefix, at) == scan_of(model, prefix, at));
  RC_ASSERT(scan_of(view, keyspace, prefix, at, 2) == scan_of(model, prefix, at, 2));
  const auto last = view.last_at_or_below(keyspace, prefix, at);
  const auto expected = last_of(model, prefix, at);
  RC_ASSERT(last.has_value() == expected.has_value());
  RC_ASSERT(!last || (last->key == expected->key && last->value == expected->value));
  const auto found = model.find(Bytes(at));
  RC_ASSERT(view.get(keyspace, at) == (found == model.end() ? std::nullopt : std::optional(found->second)));
}

}  // namespace queen::store
