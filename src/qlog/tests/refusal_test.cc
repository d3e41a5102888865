// Damage that stops the boot (storage.md 14): one file is damaged, the text names what it must, and the
// directory is as it was.
#include "support.h"

namespace queen::qlog {
namespace {

constexpr const char* kRepair = "restore a backup";

// Two sealed files and an active one in log 3; entries 1..5, one message each.
class Refusal : public testing::Test {
 protected:
  void SetUp() override {
    node_.options.segment_bytes = 250;
    node_.options.precreate = false;
    node_.must_open();
    for (std::uint64_t i = 0; i < 5; ++i) node_.must_write({push(i + 1, 3, 1, i, {"t" + std::to_string(i)})});
    ASSERT_EQ(node_.logs->files().at({3}), (std::vector<std::uint32_t>{1, 2, 3}));
  }
  void checkpoint(std::uint64_t at) {
    node_.durable = {.durable_index = at,
                     .qlog_durable_index = at,
                     .tails = {{{3}, at}},
                     .files = {{{3}, node_.logs->files().at({3})}}};
    node_.logs.reset();
  }
  Node node_;
};

TEST_F(Refusal, BR1_ADamagedRecordInASealedFile) {
  node_.logs.reset();
  node_.flip(node_.file(3, 1), 60);
  node_.must_refuse({"log q3", node_.file(3, 1), "byte 32", "sealed", kRepair});
}

TEST_F(Refusal, BR1_AlsoAtOrBelowTheDurableIndexWhenTheIndexIsGone) {
  checkpoint(5);
  node_.flip(node_.file(3, 1), 60);
  node_.must_open();
  node_.logs.reset();
  ASSERT_TRUE(node_.disk.remove_file("/data/qlog/q3/r00000001.qidx"));
  node_.must_refuse({"log q3", node_.file(3, 1), "byte 32", "sealed", kRepair});
}

TEST_F(Refusal, BR1_ZerosInsideASealedFile) {
  node_.logs.reset();
  node_.put(node_.file(3, 1), node_.bytes_of(node_.file(3, 1)) + Bytes(100, '\0'));
  node_.must_refuse({"log q3", node_.file(3, 1), "sealed"});
}

TEST_F(Refusal, BR2_AGoodRecordAtOrBelowTheDurableIndexBehindABadOne) {
  Node node;
  node.must_open();
  for (std::uint64_t i = 0; i < 3; ++i) node.must_write({push(i + 1, 3, 1, i, {"t"})});
  node.durable = {.durable_index = 2, .qlog_durable_index = 2, .tails = {{{3}, 2}}, .files = {{{3}, {1}}}};
  node.flip(node.file(3, 1), 70);
  // The first record is 91 bytes; behind it stands the entry record of seq 1.
  node.must_refuse({"log q3", node.file(3, 1), "byte 32", "unreadable", "byte 123", "seq 1",
                    "refusing to cut acknowledged data", kRepair});
}

TEST_F(Refusal, BR2_SeqsThatRunBackwards) {
  Node node;
  node.must_open();
  node.must_write({push(1, 3, 1, 0, {"t"})});
  const Bytes first = node.bytes_of(node.file(3, 1));
  node.must_write({push(2, 3, 1, 1, {"t"})});
  node.put(node.file(3, 1), node.bytes_of(node.file(3, 1)) + first.substr(kFileHeaderBytes));
  node.must_refuse(
      {"log q3", node.file(3, 1), "backwards", "seq 1", "seq 2", "byte", "refusing to cut", kRepair});
}

TEST_F(Refusal, BR2_ASecondPartOfOneEntryInOneLog) {
  Node node;
  node.must_open();
  node.must_write({{.index = 1, .messages = {}, .touched = {{3}}, .note = "n"}});
  const Bytes bytes = node.bytes_of(node.file(3, 1));
  node.put(node.file(3, 1), bytes + bytes.substr(kFileHeaderBytes));
  node.must_refuse({"log q3", "backwards", "seq 1"});
}

TEST_F(Refusal, BR2_ACutThatWouldReachIntoASealedFile) {
  node_.must_write({{.index = 6, .messages = {}, .touched = {{9}}, .note = "n"}});
  for (std::uint64_t i = 6; i < 12; ++i) node_.must_write({push(i + 1, 3, 1, i, {"t"})});
  node_.logs.reset();
  node_.put(node_.file(9, 1), node_.bytes_of(node_.file(9, 1)).substr(0, kFileHeaderBytes));
  node_.must_refuse({"log q3", "entry 6", "sealed", "refusing to cut acknowledged data", kRepair});
}

TEST_F(Refusal, BR3_AnActiveFileCutBelowTheDurableIndex) {
  checkpoint(5);
  node_.put(node_.file(3, 3), node_.bytes_of(node_.file(3, 3)).substr(0, kFileHeaderBytes + 10));
  node_.must_refuse({"log q3", "ends at seq 4", "expected 5", kRepair});
}

TEST_F(Refusal, BR3_AllLogsTogetherTooShort) {
  checkpoint(5);
  node_.durable.tails.clear();
  node_.durable.qlog_durable_index = 9;
  node_.must_refuse({"q3", "end at seq 5", "expected 9", kRepair});
}

TEST_F(Refusal, BR3_ALogWithATailRowAndNoDirectory) {
  checkpoint(5);
  node_.durable.tails[{44}] = 2;
  node_.must_refuse({"log q44", "ends at seq 0", "expected 2"});
}

TEST_F(Refusal, BR10_AListedFileIsMissing) {
  for (const std::uint32_t id : {1U, 2U, 3U}) {
    node_.must_open();
    checkpoint(5);
    const Bytes bytes = node_.bytes_of(node_.file(3, id));
    ASSERT_TRUE(node_.disk.remove_file(node_.file(3, id)));
    node_.must_refuse({"log q3", "file id " + std::to_string(id), "missing", kRepair});
    node_.put(node_.file(3, id), bytes);
  }
}

TEST_F(Refusal, BR10_AWholeLogIsMissing) {
  checkpoint(5);
  node_.durable.files[{0}] = {1, 2};
  node_.must_refuse({"log q0", "/data/qlog/q0", "missing", "file id 1, 2", kRepair});
}

TEST_F(Refusal, BR11_ADamagedFileHeader) {
  for (const auto& [at, field] : std::map<std::size_t, std::string>{
           {0, "magic"}, {8, "file id"}, {15, "file id"}, {24, "reserved"}, {31, "reserved"}}) {
    for (const std::uint32_t id : {1U, 3U}) {
      node_.logs.reset();
      const Bytes good = node_.bytes_of(node_.file(3, id));
      node_.flip(node_.file(3, id), at);
      node_.must_refuse({node_.file(3, id), "header", field, kRepair});
      node_.put(node_.file(3, id), good);
    }
  }
}

TEST_F(Refusal, BR11_AListedNewestFileWithoutItsHeader) {
  for (const Bytes& state : {Bytes(), Bytes(32, '\0')}) {
    node_.must_open();
    checkpoint(4);
    const Bytes good = node_.bytes_of(node_.file(3, 3));
    node_.put(node_.file(3, 3), state);
    node_.must_refuse({node_.file(3, 3), "header", "magic", kRepair});
    node_.put(node_.file(3, 3), good);
  }
}

TEST_F(Refusal, BR11_AZeroedHeaderWithRecordsBehindIt) {
  node_.logs.reset();
  Bytes bytes = node_.bytes_of(node_.file(3, 3));
  bytes.replace(0, kFileHeaderBytes, kFileHeaderBytes, '\0');
  node_.put(node_.file(3, 3), bytes);
  node_.must_refuse({node_.file(3, 3), "header", "magic", kRepair});
}

TEST_F(Refusal, HD29_NoCheckpointAndTheFirstFilesAreFreed) {
  node_.logs.reset();
  for (const char* name : {"r00000001.qlog", "r00000001.qidx", "r00000002.qlog", "r00000002.qidx"})
    ASSERT_TRUE(node_.disk.remove_file(std::string("/data/qlog/q3/") + name));
  node_.must_refuse({"log q3", "no checkpoint", "index 1", kRepair});
}

// Parts of one entry in logs 3, 5 and 9, one of them replaced.
class Contradiction : public testing::Test {
 protected:
  void SetUp() override {
    node_.must_open();
    node_.must_write({{.index = 1, .messages = {}, .touched = {{3}, {5}, {9}}, .note = "n"}});
    node_.logs.reset();
  }
  Record part(RecordKind kind, std::uint64_t copies) {
    return {.kind = kind,
            .compressed = false,
            .seq = 1,
            .pid = copies,
            .base_offset = 0,
            .count = 0,
            .created_at = 1'000'001,
            .body = {}};
  }
  void replace(std::uint64_t log, const Record& record, BytesView body) {
    Bytes bytes = encode_file_header({.file_id = 1, .first_seq = 1});
    append_record(bytes, record, body);
    ASSERT_TRUE(node_.disk.make_dirs("/data/qlog/q" + std::to_string(log)));
    node_.put(node_.file(log, 1), bytes);
  }
  const Bytes entry_ = Bytes(4, '\0') + "n";
  const Bytes stub_ = encode_stub_body(entry_);
  Node node_;
};

TEST_F(Contradiction, BR4_Copies) {
  replace(9, part(RecordKind::entry_stub, 2), stub_);
  node_.must_refuse({"entry 1", "q3, q5, q9", "copies", "3 parts found", "3 expected", kRepair});
}

TEST_F(Contradiction, BR4_TermAndClock) {
  auto other = part(RecordKind::entry_stub, 3);
  other.base_offset = 8;
  replace(9, other, stub_);
  node_.must_refuse({"entry 1", "q9", "term", "8"});
  other = part(RecordKind::entry_stub, 3);
  other.created_at = 5;
  replace(9, other, stub_);
  node_.must_refuse({"entry 1", "q9", "now_us", "5"});
}

TEST_F(Contradiction, BR4_StubDigestAndLength) {
  replace(9, part(RecordKind::entry_stub, 3), encode_stub_body(entry_ + "x"));
  node_.must_refuse({"entry 1", "q9", "length"});
  replace(9, part(RecordKind::entry_stub, 3), encode_stub_body(Bytes(4, '\0') + "m"));
  node_.must_refuse({"entry 1", "q9", "xxh3"});
}

TEST_F(Contradiction, BR4_WholeRecordsThatDiffer) {
  replace(9, part(RecordKind::entry, 3), Bytes(4, '\0') + "m");
  node_.must_refuse({"entry 1", "q9", "xxh3"});
}

TEST_F(Contradiction, BR4_NoWholeRecord) {
  replace(3, part(RecordKind::entry_stub, 3), stub_);
  node_.must_refuse({"entry 1", "q3, q5, q9", "stubs", "3 expected", kRepair});
}

TEST_F(Contradiction, BR4_OnePartTooMany) {
  replace(11, part(RecordKind::entry_stub, 3), stub_);
  node_.must_refuse({"entry 1", "q3, q5, q9, q11", "4 found", "3 expected", kRepair});
}

TEST_F(Contradiction, AnEntryThatCannotBeReadIsRefused) {
  for (const std::uint64_t log : {5, 9}) replace(log, part(RecordKind::entry_stub, 3), encode_stub_body("x"));
  replace(3, part(RecordKind::entry, 3), "x");
  node_.must_refuse({"entry 1", "q3", "cannot be read"});
}

}  // namespace
}  // namespace queen::qlog
