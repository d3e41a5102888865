// The report of `queenctl data verify` as text and as JSON.
#include "cli/data_verify.h"
#include "cli/json_line.h"
#include "store/checkpoint_file.h"

namespace queen::cli {
namespace {

std::uint64_t total_rows(const store::StoreFacts& facts) {
  std::uint64_t rows = 0;
  for (const auto of_table : facts.rows) rows += of_table;
  return rows;
}

std::string text_of(const Finding& finding) {
  std::string line = finding.severity == Severity::damage ? "damage" : "note  ";
  line += fmt::format(" {:<5} ", finding.rule);
  std::string where = finding.path;
  if (finding.position) where += fmt::format("{}byte {}", where.empty() ? "" : " ", *finding.position);
  if (!finding.keyspace.empty())
    where += fmt::format("{}keyspace {}", where.empty() ? "" : " ", finding.keyspace);
  if (!finding.key.empty()) where += fmt::format(" key {}", store::describe_key(finding.key));
  if (!where.empty()) line += where + ": ";
  line += finding.what;
  if (finding.boot == Boot::refused) line += " [a node refuses to boot]";
  return line;
}

std::string json_of(const Finding& finding) {
  JsonObject out;
  out.add("severity", finding.severity == Severity::damage ? "damage" : "note");
  out.add("rule", finding.rule);
  out.add("refusesBoot", finding.boot == Boot::refused);
  out.add("what", finding.what);
  out.raw("path", finding.path.empty() ? "null" : json_bytes(finding.path));
  out.add("position", finding.position);
  if (!finding.keyspace.empty()) out.add("keyspace", finding.keyspace);
  if (!finding.key.empty()) out.add("keyHex", hex_lower(finding.key));
  return out.str();
}

}  // namespace

std::string VerifyReport::as_text() const {
  std::string out;
  for (const auto& finding : findings) out += text_of(finding) + "\n";
  if (left_out > 0) out += fmt::format("… and {} more\n", left_out);
  out += fmt::format("{}: store of {} rows at transaction {}; {} logs, {} files, {} bytes, {} message records, "
                     "{} entries; a boot goes on behind entry {} after {} to replay\n",
                     directory, total_rows(store), store.transaction, logs.logs, logs.files, logs.bytes,
                     logs.message_records, logs.entries, logs.last_index, logs.entries_to_replay);
  out += damaged ? fmt::format("DAMAGED; a node {}\n", would_boot ? "would still boot" : "refuses to boot")
                 : "healthy\n";
  return out;
}

std::string VerifyReport::as_json() const {
  std::string list;
  for (const auto& finding : findings) list += (list.empty() ? "" : ",\n  ") + json_of(finding);
  JsonObject store_facts, log_facts, out;
  store_facts.add("there", store.there)
      .add("bytes", store.bytes)
      .add("rows", total_rows(store))
      .add("transaction", store.transaction);
  log_facts.add("logs", logs.logs)
      .add("files", logs.files)
      .add("bytes", logs.bytes)
      .add("messageRecords", logs.message_records)
      .add("entries", logs.entries)
      .add("lastIndex", logs.last_index)
      .add("entriesToReplay", logs.entries_to_replay)
      .add("entriesCut", logs.entries_cut);
  out.add("directory", directory)
      .add("healthy", !damaged)
      .add("wouldBoot", would_boot)
      .raw("findings", "[" + list + "]")
      .add("findingsLeftOut", left_out)
      .raw("store", store_facts.str())
      .raw("logs", log_facts.str());
  return out.str() + "\n";
}

}  // namespace queen::cli
