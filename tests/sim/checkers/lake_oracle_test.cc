// A lake written by hand is right, and each damage to it is named for its own reason.
#include "lake_oracle.h"

#include <gtest/gtest.h>

#include <functional>

#include "lake/record_writer.h"
#include "s3/digests.h"
#include "sink/manifest.h"

namespace queen::sim {
namespace {

constexpr std::int64_t kHour = 1'794'042'000'000'000;  // 2026-11-07T09:00:00Z
const std::string kRoot = "queen/tenant=t/queue=rides/dt=2026-11-07/hour=09/";
const std::string kFirst = kRoot + "w-0000000001-1794042000000000-1794042000000100.jsonl";
const std::string kSecond = kRoot + "w-0000000002-1794042000000100-1794042000000200.jsonl";
const std::string kWindows = "queen/_queen/tenant=t/queue=rides/windows/";

const std::string kCar0 =
    R"({"partition":"car","offset":0,"transactionId":"a","ts":"2026-11-07T09:00:00.000010Z","payload":{"n":1}})";
const std::string kCar1 =
    R"({"partition":"car","offset":1,"transactionId":"b","ts":"2026-11-07T09:00:00.000020Z","payload":null})";
const std::string kBike0 =
    R"({"partition":"bike","offset":0,"transactionId":"c","ts":"2026-11-07T09:00:00.000030Z","payload":[1,  2]})";
const std::string kCar2 =
    R"({"partition":"car","offset":2,"transactionId":"d","ts":"2026-11-07T09:00:00.000150Z","payload":"x"})";

// Two windows of three records and one, and one record more in the log that is not due yet.
struct Lake {
  LakeQuestion question;
  sink::Manifest first, second;

  Lake() {
    question.path = {"queen", "t", "rides"};
    question.sink = "default";
    question.log = {
        {"car",
         {{0, kHour + 10, "a", R"({"n":1})", Fate::kept},
          {1, kHour + 20, "b", std::nullopt, Fate::kept},
          {2, kHour + 150, "d", R"("x")", Fate::kept},
          {3, kHour + 250, "e", "5", Fate::kept}}},
        {"bike", {{0, kHour + 30, "c", "[1,\r\n2]", Fate::kept}}},
    };
    first = manifest(1, kHour, kHour + 100, 2, kHour + 10, kHour + 30);
    second = manifest(2, kHour + 100, kHour + 200, 1, kHour + 150, kHour + 150);
    write_objects(kBike0 + "\n" + kCar0 + "\n" + kCar1 + "\n", kCar2 + "\n");
  }

  static sink::Manifest manifest(std::uint64_t k, std::int64_t start, std::int64_t end,
                                 std::uint64_t partitions, std::int64_t min_ts, std::int64_t max_ts) {
    sink::Manifest out;
    out.sink = "default";
    out.tenant = "t";
    out.queue = "rides";
    out.bounds = {k, start, end};
    out.format = "jsonl";
    out.compression = "none";
    out.layout = "merged";
    out.partitions = partitions;
    out.min_ts = min_ts;
    out.max_ts = max_ts;
    out.writer = "queen-s3/1.0.0 jsonl/1";
    return out;
  }

  void put_object(sink::Manifest& of, const std::string& key, const Bytes& bytes, std::uint64_t records) {
    question.objects[key] = bytes;
    of.objects.push_back({key, bytes.size(), records, s3::sha256_hex(bytes), std::nullopt});
    of.records += records;
    of.bytes += bytes.size();
  }

  void write_objects(const std::string& one, const std::string& two) {
    for (sink::Manifest* of : {&first, &second}) {
      of->objects.clear();
      of->records = of->bytes = 0;
    }
    const auto lines = [](const std::string& text) {
      return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
    };
    put_object(first, kFirst, one, lines(one));
    put_object(second, kSecond, two, lines(two));
    seal();
  }

  void seal() {
    question.objects[kWindows + "0000000001.json"] = sink::encode(first);
    question.objects[kWindows + "0000000002.json"] = sink::encode(second);
    question.pointer = sink::Committed{
        2, second.bounds.t_end, kWindows + "0000000002.json", second.records, second.bytes, 0};
  }

  LakeRecord& car(std::size_t offset) { return question.log[0].records[offset]; }
};

std::vector<std::string> reasons(const LakeQuestion& question) {
  std::vector<std::string> out;
  for (const std::string& one : check_lake(question).complaints) out.push_back(one.substr(0, one.find(':')));
  return out;
}
using Reasons = std::vector<std::string>;

TEST(LakeOracle, AcceptsALakeThatIsRight) {
  const LakeAnswer answer = check_lake(Lake().question);
  EXPECT_TRUE(answer.right()) << answer.text();
  EXPECT_EQ(answer.windows, 2u);
  EXPECT_EQ(answer.records, 4u);
  EXPECT_EQ(answer.lost, 0u);
}

TEST(LakeOracle, AcceptsAnEmptyBucketWhereNothingIsCommitted) {
  Lake lake;
  lake.question.objects.clear();
  lake.question.pointer.reset();
  EXPECT_EQ(reasons(lake.question), Reasons{});
}

TEST(LakeOracle, NamesARecordThatIsNotThere) {
  Lake lake;
  lake.write_objects(kBike0 + "\n" + kCar0 + "\n", kCar2 + "\n");
  lake.first.max_ts = kHour + 30;
  lake.seal();
  EXPECT_EQ(reasons(lake.question), Reasons{"missing"});
}

TEST(LakeOracle, NamesARecordThatIsThereTwice) {
  Lake lake;
  lake.write_objects(kBike0 + "\n" + kCar0 + "\n" + kCar1 + "\n", kCar1 + "\n" + kCar2 + "\n");
  lake.second.min_ts = kHour + 20;
  lake.seal();
  EXPECT_EQ(reasons(lake.question), (Reasons{"ts", "duplicate"}));
}

TEST(LakeOracle, NamesARecordThatWasNeverCommitted) {
  Lake lake;
  lake.question.log[1].records.clear();
  EXPECT_EQ(reasons(lake.question), Reasons{"foreign"});
}

TEST(LakeOracle, NamesAPayloadOrATransactionThatIsAnother) {
  Lake lake;
  lake.car(0).payload = R"({"n":2})";
  lake.car(2).transaction_id = "z";
  EXPECT_EQ(reasons(lake.question), (Reasons{"payload", "payload"}));
}

TEST(LakeOracle, NamesLinesOutOfOrder) {
  Lake lake;
  lake.write_objects(kBike0 + "\n" + kCar1 + "\n" + kCar0 + "\n", kCar2 + "\n");
  EXPECT_EQ(reasons(lake.question), Reasons{"order"});
}

TEST(LakeOracle, NamesAnObjectThatIsGoneOrAnother) {
  Lake lake;
  lake.question.objects.erase(kSecond);
  EXPECT_EQ(reasons(lake.question), (Reasons{"object", "summary", "missing"}));
  Lake other;
  other.question.objects[kSecond] += "\n";
  EXPECT_EQ(reasons(other.question), (Reasons{"bytes", "summary", "missing"}));
}

TEST(LakeOracle, NamesSumsAndSummariesThatDoNotAgree) {
  Lake lake;
  ++lake.first.records;
  lake.second.min_ts = kHour + 140;
  lake.seal();
  EXPECT_EQ(reasons(lake.question), (Reasons{"sums", "summary"}));
}

TEST(LakeOracle, NamesAManifestOfAnotherQueueOrWindow) {
  Lake lake;
  lake.first.queue = "trips";
  lake.seal();
  EXPECT_EQ(reasons(lake.question), Reasons{"names"});
}

TEST(LakeOracle, NamesWindowsThatDoNotMeet) {
  Lake lake;
  lake.first.bounds.t_end = kHour + 110;
  lake.first.objects[0].key = kRoot + "w-0000000001-1794042000000000-1794042000000110.jsonl";
  lake.question.objects[lake.first.objects[0].key] = lake.question.objects[kFirst];
  lake.question.objects.erase(kFirst);
  lake.seal();
  EXPECT_EQ(reasons(lake.question), Reasons{"tiling"});
}

TEST(LakeOracle, LetsAWindowBeginAtALaterBoundary) {
  Lake lake;
  constexpr std::int64_t kNext = kHour + 3'600'000'000;
  const std::string key =
      "queen/tenant=t/queue=rides/dt=2026-11-07/hour=10/w-0000000002-1794045600000000-1794045600000200.jsonl";
  lake.question.objects.erase(kSecond);
  std::string line = kCar2;
  line.replace(line.find("T09"), 3, "T10");
  lake.second = Lake::manifest(2, kNext, kNext + 200, 1, kNext + 150, kNext + 150);
  lake.put_object(lake.second, key, line + "\n", 1);
  lake.seal();
  lake.car(2).ts = kNext + 150;
  lake.car(3).ts = kNext + 250;
  EXPECT_EQ(reasons(lake.question), Reasons{});
  lake.car(3).ts = kHour + 250;  // in the stretch that was stepped over
  EXPECT_EQ(reasons(lake.question), Reasons{"missing"});
}

TEST(LakeOracle, NamesAKeyOfAnotherForm) {
  Lake lake;
  const std::string key = kRoot + "w-2-1794042000000100-1794042000000200.jsonl";
  lake.question.objects[key] = lake.question.objects[kSecond];
  lake.question.objects.erase(kSecond);
  lake.second.objects[0].key = key;
  lake.seal();
  EXPECT_EQ(reasons(lake.question), Reasons{"key"});
}

TEST(LakeOracle, NamesAWindowThatIsNotThere) {
  Lake lake;
  lake.question.objects.erase(kWindows + "0000000001.json");
  EXPECT_EQ(reasons(lake.question), (Reasons{"numbering", "missing", "missing", "missing", "orphan"}));
}

TEST(LakeOracle, NamesAManifestThatIsNotCompact) {
  Lake lake;
  lake.question.objects[kWindows + "0000000001.json"] += " ";
  EXPECT_EQ(reasons(lake.question), Reasons{"manifest"});
}

TEST(LakeOracle, NamesAPointerOfAnotherWindow) {
  Lake lake;
  lake.question.pointer->t_end = kHour + 201;
  EXPECT_EQ(reasons(lake.question), Reasons{"pointer"});
}

TEST(LakeOracle, NamesObjectsOfNoWindow) {
  Lake lake;
  const std::string key = kRoot + "w-0000000001-1794042000000000-1794042000000090.jsonl";
  lake.question.objects[key] = "";
  EXPECT_EQ(reasons(lake.question), Reasons{"orphan"});
}

TEST(LakeOracle, AllowsTheNextWindowAloneToBeUnderWay) {
  Lake lake;
  lake.question.objects[kRoot + "w-0000000003-1794042000000200-1794042000000300.jsonl"] = "";
  lake.question.objects[kWindows + "0000000003.json"] = "";
  EXPECT_EQ(reasons(lake.question), (Reasons{"numbering", "orphan"}));
  lake.question.in_flight = LakeQuestion::InFlight::allowed;
  EXPECT_EQ(reasons(lake.question), Reasons{});
  lake.question.objects[kWindows + "0000000004.json"] = "";
  EXPECT_EQ(reasons(lake.question), Reasons{"numbering"});
}

TEST(LakeOracle, WantsEachLostRecordNamedAndNoOther) {
  Lake lake;
  lake.write_objects(kBike0 + "\n" + kCar1 + "\n", kCar2 + "\n");
  lake.first.min_ts = kHour + 20;
  lake.car(0).fate = Fate::lost_unread;
  lake.seal();
  EXPECT_EQ(reasons(lake.question), Reasons{"missing"});
  lake.second.lost = {{"car", 0, 0}};
  lake.seal();
  EXPECT_EQ(reasons(lake.question), Reasons{});
  EXPECT_EQ(check_lake(lake.question).lost, 1u);
  lake.car(0).fate = Fate::lost_maybe;
  EXPECT_EQ(reasons(lake.question), Reasons{});
  lake.car(0).fate = Fate::kept;
  EXPECT_EQ(reasons(lake.question), (Reasons{"lost_kept", "missing"}));
  lake.car(0).fate = Fate::lost_unread;
  lake.second.lost = {{"car", 0, 1}};
  lake.seal();
  EXPECT_EQ(reasons(lake.question), Reasons{"lost_shipped"});
  lake.question.names_shipped = LakeQuestion::NamesShipped::allowed;
  EXPECT_EQ(reasons(lake.question), Reasons{});
  lake.second.lost = {{"car", 0, 0}, {"car", 4, 4}};
  lake.seal();
  EXPECT_EQ(reasons(lake.question), Reasons{"lost_unknown"});
}

TEST(LakeOracle, NamesARecordThatIsThereAndCannotBe) {
  Lake lake;
  lake.car(0).fate = Fate::lost_unread;
  EXPECT_EQ(reasons(lake.question), Reasons{"shipped_lost"});
}

TEST(LakeOracle, AsksNothingOfWhatWasDeletedUnread) {
  Lake lake;
  lake.write_objects(kBike0 + "\n" + kCar1 + "\n", kCar2 + "\n");
  lake.first.min_ts = kHour + 20;
  lake.car(0).fate = Fate::deleted;
  lake.seal();
  EXPECT_EQ(reasons(lake.question), Reasons{});
}

// A partition that the sink met behind the loss was read from what was left.
TEST(LakeOracle, WantsNoNameForWhatWentBeforeThePartitionWasSeen) {
  Lake lake;
  lake.write_objects(kBike0 + "\n" + kCar1 + "\n", kCar2 + "\n");
  lake.first.min_ts = kHour + 20;
  lake.car(0).fate = Fate::lost_maybe;
  lake.seal();
  EXPECT_EQ(reasons(lake.question), Reasons{});
}

TEST(LakeOracle, WantsANameForWhatWentBehindAShippedRecord) {
  Lake lake;
  lake.write_objects(kBike0 + "\n" + kCar0 + "\n", kCar2 + "\n");
  lake.car(1).fate = Fate::lost_maybe;
  lake.seal();
  EXPECT_EQ(reasons(lake.question), Reasons{"missing"});
  lake.second.lost = {{"car", 1, 1}};
  lake.seal();
  EXPECT_EQ(reasons(lake.question), Reasons{});
}

TEST(LakeOracle, TellsTheLivesOfAPartitionApart) {
  Lake lake;
  const std::string again =
      R"({"partition":"car","offset":0,"transactionId":"f","ts":"2026-11-07T09:00:00.000160Z","payload":1})";
  lake.question.log.push_back({"car", {{0, kHour + 160, "f", "1", Fate::kept}}});
  EXPECT_EQ(reasons(lake.question), Reasons{"missing"});
  lake.write_objects(kBike0 + "\n" + kCar0 + "\n" + kCar1 + "\n", kCar2 + "\n" + again + "\n");
  lake.second.max_ts = kHour + 160;
  lake.seal();
  EXPECT_EQ(reasons(lake.question), Reasons{});
}

TEST(LakeOracle, LeavesOutWhatWasThereBeforeTheSinkStarted) {
  Lake lake;
  lake.write_objects(kBike0 + "\n" + kCar1 + "\n", kCar2 + "\n");
  lake.first.min_ts = kHour + 20;
  lake.seal();
  lake.question.ships_from = kHour + 15;
  EXPECT_EQ(reasons(lake.question), Reasons{});
  EXPECT_EQ(reasons([] {
              Lake whole;
              whole.question.ships_from = kHour + 15;
              return whole.question;
            }()),
            Reasons{"foreign"});
}

TEST(LakeOracle, NamesADataObjectThatWasWrittenWithTwoContents) {
  Lake lake;
  lake.question.puts = {{kFirst, "aa"},
                        {kFirst, "aa"},
                        {kWindows + "0000000001.json", "bb"},
                        {kWindows + "0000000001.json", "cc"}};
  EXPECT_EQ(reasons(lake.question), Reasons{});
  lake.question.puts.emplace_back(kFirst, "ab");
  EXPECT_EQ(reasons(lake.question), Reasons{"rewritten"});
}

// The lines of the second window in the codec, and what the oracle says of that object cut short by a byte.
void expect_codec(lake::Codec codec) {
  Lake lake;
  const lake::Kind kind{lake::Format::jsonl, codec};
  const auto writer = lake::make_writer(kind, {});
  ASSERT_TRUE(writer->push({"car", 2, "d", kHour + 150, lake::Payload::json, R"("x")"}));
  const Bytes bytes = *writer->finish();
  const std::string key = kSecond.substr(0, kSecond.size() - 5) + std::string(lake::extension(kind));
  const auto with = [&](const Bytes& object) {
    lake.question.objects.erase(kSecond);
    lake.second.objects.clear();
    lake.second.records = lake.second.bytes = 0;
    lake.second.compression = std::string(lake::name_of(codec));
    lake.put_object(lake.second, key, object, 1);
    lake.seal();
    return reasons(lake.question);
  };
  EXPECT_EQ(with(bytes), Reasons{});
  EXPECT_EQ(with(bytes.substr(0, bytes.size() - 1)), (Reasons{"line", "summary", "missing"}));
  EXPECT_EQ(with(bytes + "x"), (Reasons{"line", "summary", "missing"}));
}

TEST(LakeOracle, ReadsEveryCodecAndRefusesWhatIsCutShort) {
  for (const auto codec : {lake::Codec::zstd, lake::Codec::gzip, lake::Codec::none}) {
    SCOPED_TRACE(lake::name_of(codec));
    expect_codec(codec);
  }
}

TEST(LakeOracle, NamesACodecThatIsNotTheKeys) {
  Lake lake;
  lake.second.compression = "gzip";
  lake.seal();
  EXPECT_EQ(reasons(lake.question), Reasons{"format"});
}

}  // namespace
}  // namespace queen::sim
