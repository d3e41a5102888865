#include "cli/data_dump.h"

#include <fmt/format.h>

#include "cli/data_directory.h"
#include "cli/json_line.h"
#include "machine/effects.h"
#include "qlog/walk.h"
#include "store/checkpoint_file.h"
#include "store/verify.h"

namespace queen::cli {
namespace {

// The one place that decides between the two forms: a word, then one object; or one object with the word in it.
class Lines {
 public:
  Lines(bool json, const DumpLine& line) : json_(json), line_(line) {}
  void write(const char* what, const JsonObject& object) const {
    const std::string fields = object.str();
    if (!json_) return line_(fmt::format("{} {}", what, fields));
    const bool empty = fields == "{}";
    line_(fmt::format(R"({{"line":"{}"{}{})", what, empty ? "" : ",", fields.substr(1)));
  }

 private:
  bool json_;
  const DumpLine& line_;
};

class DumpRecords final : public qlog::RecordWalker {
 public:
  DumpRecords(const Lines& lines, const std::string& directory, const DumpWhat& what)
      : lines_(lines), directory_(directory), what_(what) {}

  void file(const std::string& path, const qlog::FileHeader& header,
            const std::optional<Error>& error) override {
    JsonObject out;
    out.add("path", path);
    if (error) return lines_.write("damage", out.add("position", 0).add("what", error->what));
    out.add("fileId", header.file_id);
    if (header.first_seq == qlog::kUnusedFirstSeq)
      out.add("unused", true);
    else
      out.add("firstSeq", header.first_seq);
    lines_.write("file", out);
  }

  void damaged(const qlog::RecordPlace& place, std::uint64_t bytes) override {
    lines_.write("damage", at(place).add("bytes", bytes).add("what", "no record that verifies"));
  }

  void record(const qlog::RecordPlace& place, const qlog::Record& record, std::size_t bytes) override {
    if (record.seq < what_.from_seq) return;
    JsonObject out = at(place);
    out.add("bytes", bytes).add("seq", record.seq);
    if (record.kind == qlog::RecordKind::message) return message(out, record);
    out.add("copies", record.copies()).add("term", record.term()).add("nowUs", record.created_at);
    if (record.kind == qlog::RecordKind::entry) return entry(out, record);
    const auto stub = qlog::decode_stub_body(record.body);
    if (stub) out.add("entryXxh3", fmt::format("{:016x}", stub->xxh3)).add("entryBytes", stub->length);
    lines_.write("stub", out);
  }

 private:
  JsonObject at(const qlog::RecordPlace& place) const {
    JsonObject out;
    out.add("path", qlog::record_path(directory_, place)).add("position", place.position);
    return out;
  }

  void message(JsonObject& out, const qlog::Record& record) const {
    out.add("pid", record.pid)
        .add("baseOffset", record.base_offset)
        .add("count", record.count)
        .add("createdAt", record.created_at)
        .add("compressed", record.compressed)
        .add("storedBytes", record.payload().size());
    if (const auto good = qlog::check_content(record); !good) out.add("damage", good.error().what);
    if (what_.payloads == Payloads::shown) add_messages(out, record);
    lines_.write("message", out);
  }

  static void add_messages(JsonObject& out, const qlog::Record& record) {
    BytesView payload = record.payload();
    Result<Bytes> raw;
    if (record.compressed) {
      raw = qlog::decompress_payload(payload);
      if (!raw) return;
      payload = *raw;
    }
    const auto frames = qlog::decode_frames(payload, record.count);
    if (!frames) return;
    std::string list;
    std::uint64_t offset = record.base_offset;
    for (const auto& frame : *frames) {
      JsonObject one;
      one.add("offset", offset++)
          .add("messageId", frame.message_id)
          .add("transactionId", frame.transaction_id)
          .add("encrypted", frame.encrypted)
          .add("zstd", frame.payload_zstd);
      if (frame.null_payload)
        one.raw("payload", "null");
      else
        one.add("payload", frame.payload);
      list += (list.empty() ? "" : ",") + one.str();
    }
    out.raw("messages", "[" + list + "]");
  }

  void entry(JsonObject& out, const qlog::Record& record) const {
    out.add("entryBytes", record.body.size());
    const auto entry = machine::decode_entry(record.body);
    if (!entry) {
      out.add("damage", entry.error().what);
      return lines_.write("entry", out);
    }
    out.add("digest", machine::entry_digest(*entry))
        .add("pidBase", entry->pid_base)
        .add("kvVersionBase", entry->kv_version_base)
        .add("commands", entry->commands.size())
        .add("effects", entry->effects.size());
    if (const auto valid = machine::validate_entry(*entry); !valid) out.add("damage", valid.error().what);
    lines_.write("entry", out);
  }

  const Lines& lines_;
  const std::string directory_;
  const DumpWhat& what_;
};

class DumpDamage final : public Findings {
 public:
  explicit DumpDamage(const Lines& lines) : lines_(lines) {}
  void add(Finding finding) override {
    JsonObject out;
    out.add("path", finding.path).add("position", finding.position).add("what", finding.what);
    lines_.write(finding.severity == Severity::damage ? "damage" : "note", out);
  }

 private:
  const Lines& lines_;
};

Status dump_store(const std::string& directory, const DumpWhat& what, const Lines& lines) {
  DumpDamage damage(lines);
  const auto facts = store::verify_store_file(directory, damage, [&](const store::StoredRow& row) {
    if (what.keyspace && row.keyspace != *what.keyspace) return;
    JsonObject out;
    out.add("keyspace", store::name_of(row.keyspace))
        .raw("key", key_json(row.keyspace, row.key))
        .raw("row", row_json(row.keyspace, row.value, what.payloads));
    lines.write("row", out);
  });
  if (!facts) return facts.error();
  return {};
}

}  // namespace

Status dump_directory(disk::Disk& disk, const std::string& directory, const DumpWhat& what,
                      const DumpLine& line) {
  const auto hold = hold_directory(directory);
  if (!hold) return hold.error();
  const Lines lines(what.json, line);
  if (what.logs) {
    DumpRecords records(lines, directory + "/qlog", what);
    if (auto done = qlog::walk_logs(disk, directory + "/qlog", what.only_logs, records); !done) return done;
  }
  if (!what.store) return {};
  return dump_store(directory + "/store", what, lines);
}

Result<std::vector<LogId>> logs_of_queue(disk::Disk& disk, const std::string& directory,
                                         const std::string& tenant, const std::string& queue) {
  const auto layout = qlog::layout_of(disk, directory + "/qlog");
  if (!layout) return layout.error();
  std::vector<LogId> logs;
  const LogId id = qlog::Layout::queue_id(tenant, queue);
  const std::uint32_t lanes = layout->shards > 0 ? 1 : layout->lanes;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    const LogId log = layout->of_partition(id, Pid{lane});
    if (disk.exists(fmt::format("{}/qlog/q{}", directory, log.value)).value_or(false)) logs.push_back(log);
  }
  if (logs.empty())
    return Error{Errc::not_found, fmt::format("queue {} of tenant {} has no log in {}", queue, tenant, directory)};
  return logs;
}

}  // namespace queen::cli
