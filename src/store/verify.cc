#include "store/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "store/checkpoint_file.h"
#include "store/detail/lmdb_check.h"
#include "store/detail/lmdb_checkpoint.h"
#include "store/detail/stored_value.h"
#include "store/keys.h"
#include "store/row_check.h"
#include "store/rows.h"

namespace queen::store {
namespace {

class RowCheck final : public detail::LmdbVisitor {
 public:
  RowCheck(std::string path, Findings& findings, const std::function<void(const StoredRow&)>& good_row)
      : path_(std::move(path)), findings_(findings), good_row_(good_row) {}

  void row(BytesView table, BytesView key, BytesView stored) override {
    const auto keyspace = keyspace_of(table);
    if (!keyspace) return;
    auto& rows = facts.rows[static_cast<std::size_t>(*keyspace)];
    if (!detail::is_of_file(*keyspace, key)) ++rows;
    if (const auto ordered = order_.next(*keyspace, key); !ordered)
      return add_row("BR-5", Boot::refused, *keyspace, key, ordered.error().what);
    const auto good = detail::verified(*keyspace, key, stored);
    if (!good) return add_row("BR-5", Boot::refused, *keyspace, key, good.error().what);
    if (*keyspace == Keyspace::meta) keep_meta(key, good->value);
    if (const auto fits = check_row(*keyspace, key, good->value); !fits)
      return add_row("CK-3", Boot::starts, *keyspace, key,
                     row_damage(*keyspace, key, fits.error().what).what);
    good_row_({*keyspace, key, good->value, good->checksum});
  }

  Status damaged(Error error, std::uint64_t position) override {
    pages_damaged_ = true;
    facts.complete = false;
    findings_.add({.boot = Boot::refused,
                   .rule = "BR-8",
                   .what = std::move(error.what),
                   .path = path_,
                   .position = position,
                   .keyspace = table_,
                   .key = {}});
    return {};
  }

  // What only the whole file can show.
  void finish() {
    check_format();
    // Rows below a damaged page are missing anyway.
    if (pages_damaged_) return;
    for (std::size_t i = 0; i < kKeyspaceCount; ++i) check_count(static_cast<Keyspace>(i));
  }

  StoreFacts facts;

 private:
  std::optional<Keyspace> keyspace_of(BytesView table) {
    if (table != table_) {
      table_ = table;
      order_ = {};
      const auto found = std::ranges::find(kKeyspaceNames, table);
      known_ = found != kKeyspaceNames.end();
      at_ = static_cast<Keyspace>(found - kKeyspaceNames.begin());
      if (!known_)
        findings_.add({.severity = Severity::note,
                       .rule = "CK-5",
                       .what = fmt::format("{} has a table {} that this build does not know", path_,
                                           describe_key(table)),
                       .path = path_,
                       .position = {},
                       .keyspace = {},
                       .key = {}});
    }
    return known_ ? std::optional(at_) : std::nullopt;
  }

  void add_row(const char* rule, Boot boot, Keyspace keyspace, BytesView key, std::string what) {
    facts.complete = false;
    findings_.add({.boot = boot,
                   .rule = rule,
                   .what = std::move(what),
                   .path = path_,
                   .position = {},
                   .keyspace = std::string(name_of(keyspace)),
                   .key = Bytes(key)});
  }

  void keep_meta(BytesView key, BytesView value) {
    const auto number = decode_meta_u64(value);
    if (!number) return;
    if (key == kMetaStoreFormat) format_ = *number;
    if (key.starts_with(kMetaRowsPrefix)) counts_[Bytes(key)] = *number;
  }

  void check_format() {
    if (format_ == detail::kStoreFormat) return;
    if (!format_ && std::ranges::all_of(facts.rows, [](auto rows) { return rows == 0; })) return;
    add_row("BR-6", Boot::refused, Keyspace::meta, kMetaStoreFormat,
            fmt::format("{} has store_format {}; this build supports {}", path_,
                        format_ ? std::to_string(*format_) : "none", detail::kStoreFormat));
  }

  void check_count(Keyspace keyspace) {
    const Bytes key = meta_rows(keyspace);
    const auto found = counts_.find(key);
    const std::uint64_t recorded = found == counts_.end() ? 0 : found->second;
    const std::uint64_t rows = facts.rows[static_cast<std::size_t>(keyspace)];
    if (recorded == rows) return;
    add_row("BR-5", Boot::refused, Keyspace::meta, key,
            row_damage(Keyspace::meta, key,
                              fmt::format("table {} should have {} rows and has {}", name_of(keyspace),
                                          recorded, rows))
                .what);
  }

  const std::string path_;
  Findings& findings_;
  const std::function<void(const StoredRow&)>& good_row_;
  Bytes table_;  // that the rows come from
  bool known_ = false;
  Keyspace at_ = Keyspace::meta;
  detail::KeyOrder order_;
  bool pages_damaged_ = false;
  std::optional<std::uint64_t> format_;
  std::map<Bytes, std::uint64_t> counts_;
};

}  // namespace

Result<StoreFacts> verify_store_file(const std::string& directory, Findings& findings,
                                     const std::function<void(const StoredRow&)>& good_row) {
  const std::string path = directory + "/data.mdb";
  const auto there = checkpoint_exists(directory);
  if (!there) return there.error();
  if (!*there) return StoreFacts{};
  RowCheck check(path, findings, good_row);
  check.facts.there = check.facts.complete = true;
  std::error_code ignored;
  check.facts.bytes = std::filesystem::file_size(path, ignored);
  const auto walked = detail::walk_lmdb_file(path, check);
  if (!walked) {
    ignore(check.damaged(walked.error(), 0), "told; nothing else can be read");
    return check.facts;
  }
  check.facts.readable = true;
  check.facts.transaction = walked->transaction;
  check.facts.written = walked->transaction > 0;
  check.finish();
  return check.facts;
}

}  // namespace queen::store
