#include "machine/effects.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/hash.h"
#include "base/text.h"
#include "machine/tests/samples.h"
#include "source_dir.h"

namespace queen::machine {
namespace {

using namespace testing;

std::string golden(const std::string& name) {
  std::ifstream file(source_dir() + "/tests/golden/entry/" + name);
  std::stringstream text;
  text << file.rdbuf();
  std::string out;
  for (const char c : text.str())
    if (c != '\n') out.push_back(c);
  return out;
}

// Puts a right checksum in front of a body that was changed.
Bytes framed(BytesView body) {
  Bytes out;
  append_le(out, static_cast<std::uint32_t>(body.size()));
  append_le(out, xxh3_64(body));
  out.append(body);
  return out;
}
Bytes body_of(const Entry& entry) {
  return encode_entry(entry).substr(12);
}

// B1
TEST(EntryCodec, EncodesEveryEffectExactlyAsGolden) {
  EXPECT_EQ(hex_lower(encode_entry(sample_entry())), golden("catalogue_4.hex"));
  EXPECT_EQ(hex_lower(encode_entry(sample_entry_of_catalogue_3())), golden("catalogue_3.hex"));
  EXPECT_EQ(hex_lower(encode_entry(sample_entry_of_catalogue_2())), golden("catalogue_2.hex"));
  EXPECT_EQ(hex_lower(encode_entry(sample_entry_of_catalogue_1())), golden("catalogue_1.hex"));
  EXPECT_EQ(hex_lower(encode_entry(sample_entry_of_rows_3())), golden("rows_3.hex"));
  EXPECT_EQ(hex_lower(encode_entry(Entry{})), golden("empty.hex"));
}

TEST(EntryCodec, DecodesTheGoldenToTheSameEntry) {
  for (const char* name : {"catalogue_1.hex", "catalogue_2.hex", "catalogue_3.hex", "catalogue_4.hex",
                           "rows_3.hex", "empty.hex"}) {
    const auto bytes = hex_decode(golden(name));
    ASSERT_TRUE(bytes);
    const auto entry = decode_entry(*bytes);
    ASSERT_TRUE(entry) << entry.error().what;
    EXPECT_EQ(encode_entry(*entry), *bytes);
    EXPECT_TRUE(validate_entry(*entry)) << name;
  }
}

TEST(EntryCodec, RejectsEveryTruncation) {
  const Bytes bytes = encode_entry(sample_entry());
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(decode_entry(BytesView(bytes).substr(0, n))) << n;
  const Bytes body = body_of(sample_entry());
  for (std::size_t n = 0; n < body.size(); ++n) {
    EXPECT_FALSE(decode_entry(framed(body.substr(0, n)))) << n;
    EXPECT_FALSE(appends_of(framed(body.substr(0, n)))) << n;
  }
}

TEST(EntryCodec, RejectsLeftOverBytesAndEveryFlippedBit) {
  EXPECT_FALSE(decode_entry(framed(body_of(sample_entry()) + '\0')));
  Bytes bytes = encode_entry(sample_entry());
  for (std::size_t bit = 0; bit < bytes.size() * 8; bit += 7) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(decode_entry(bytes)) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  }
}

TEST(EntryCodec, NamesWhatThisBuildDoesNotKnow) {
  Entry noop;
  noop.commands.push_back({numbered_uuid(1), 0, 1});
  noop.effects.emplace_back(Noop{});
  const Bytes body = body_of(noop);
  const auto changed = [&](std::size_t at, std::uint16_t value) {
    Bytes copy = body;
    store_le(copy.data() + at, value);
    return decode_entry(framed(copy));
  };
  const std::size_t outcome_at = 34 + 16 + 8;
  const std::size_t effect_at = 34 + 32 + 4;
  ASSERT_TRUE(decode_entry(framed(body)));
  EXPECT_EQ(changed(0, 2).error().code, Errc::invalid);               // format
  EXPECT_EQ(changed(2, 99).error().code, Errc::invalid);              // catalogue above ours
  EXPECT_EQ(changed(2, 0).error().code, Errc::corrupt);               // catalogue below its effects
  EXPECT_EQ(changed(outcome_at, 7).error().code, Errc::invalid);      // outcome tag
  EXPECT_EQ(changed(outcome_at + 2, 1).error().code, Errc::corrupt);  // version of no outcome
  EXPECT_EQ(changed(effect_at, 31).error().code, Errc::invalid);      // effect kind
  EXPECT_EQ(changed(effect_at + 2, 2).error().code, Errc::invalid);   // effect version
}

// EN-8
TEST(EntryCodec, NamesTheLowestCatalogueThatHasItsEffectsAndRefusesALowerOne) {
  const auto catalogue = [](const Bytes& body) { return load_le<std::uint32_t>(body.data() + 2); };
  EXPECT_EQ(catalogue(body_of(sample_entry_of_catalogue_1())), 1U);
  EXPECT_EQ(catalogue(body_of(sample_entry_of_rows_3())), 3U);
  EXPECT_EQ(catalogue(body_of(sample_entry_of_catalogue_2())), 2U);
  Bytes body = body_of(sample_entry());
  EXPECT_EQ(catalogue(body), 4U);
  EXPECT_EQ(catalogue(body_of(sample_entry_of_catalogue_3())), 3U);
  store_le(body.data() + 2, std::uint32_t{3});
  EXPECT_EQ(decode_entry(framed(body)).error().code, Errc::corrupt);
  EXPECT_EQ(appends_of(framed(body)).error().code, Errc::corrupt);
  // A higher one than needed is no lie: the build that wrote it knew more.
  Bytes old = body_of(sample_entry_of_catalogue_1());
  store_le(old.data() + 2, std::uint32_t{2});
  EXPECT_TRUE(decode_entry(framed(old)));
}

TEST(EntryCodec, HostileCountsAreRefusedBeforeTheyAreAllocated) {
  Bytes body = body_of(Entry{});
  store_le(body.data() + 30, std::uint32_t{0xFFFFFFFF});
  EXPECT_FALSE(decode_entry(framed(body)));
  body = body_of(Entry{});
  store_le(body.data() + 34, std::uint32_t{0xFFFFFFFF});
  EXPECT_FALSE(decode_entry(framed(body)));
}

TEST(EntryDigest, DoesNotDependOnHowPayloadsAreStored) {
  Entry entry = sample_entry();
  const std::string digest = entry_digest(entry);
  EXPECT_EQ(digest.size(), 16U);
  for (Effect& effect : entry.effects)
    if (auto* append = std::get_if<Append>(&effect)) append->payload_bytes += 1;
  EXPECT_EQ(entry_digest(entry), digest);
  entry.now_us += 1;
  EXPECT_NE(entry_digest(entry), digest);
}

TEST(EntryCodec, AppendsOfGivesWhereMessagesWent) {
  const auto appends = appends_of(encode_entry(sample_entry()));
  ASSERT_TRUE(appends);
  ASSERT_EQ(appends->size(), 1U);
  EXPECT_EQ(appends->at(0).pid, Pid{41});
  EXPECT_EQ(appends->at(0).base_offset, 7U);
}

struct Broken {
  std::string name;
  void (*change)(Entry&);
};
const std::vector<Broken> kBroken = {
    {"gap_between_spans", [](Entry& e) { e.commands[1].first_effect += 1; }},
    {"overlapping_spans", [](Entry& e) { e.commands[0].effect_count += 1; }},
    {"effects_without_command", [](Entry& e) { e.commands.pop_back(); }},
    {"empty_command", [](Entry& e) { e.commands.push_back({numbered_uuid(9), 0, 0}); }},
    {"span_over_the_end", [](Entry& e) { e.commands[1].effect_count += 1; }},
    {"same_request_id", [](Entry& e) { e.commands[1].request_id = e.commands[0].request_id; }},
    {"pid_not_next", [](Entry& e) { e.pid_base += 1; }},
    {"kv_version_not_next", [](Entry& e) { e.kv_version_base += 1; }},
    {"append_of_nothing",
     [](Entry& e) {
       for (Effect& effect : e.effects)
         if (auto* append = std::get_if<Append>(&effect)) append->count = 0, append->hashes.clear();
     }},
    {"bucket_out_of_range",
     [](Entry& e) {
       for (Effect& effect : e.effects)
         if (auto* append = std::get_if<Append>(&effect)) append->bucket = 256;
     }},
    {"watermark_of_hash_lists_above_the_log",
     [](Entry& e) {
       for (Effect& effect : e.effects)
         if (auto* mark = std::get_if<Watermark>(&effect)) mark->txns_start = mark->log_start + 1;
     }},
    {"watermark_of_hash_lists_above_the_rows",
     [](Entry& e) {
       for (Effect& effect : e.effects)
         if (auto* mark = std::get_if<Watermark>(&effect)) mark->rows_start = mark->txns_start - 1;
     }},
    {"chunk_of_too_many_rows",
     [](Entry& e) {
       for (Effect& effect : e.effects)
         if (auto* chunk = std::get_if<DeleteChunk>(&effect)) chunk->limit = kDeleteChunkRowsMax + 1;
     }},
    {"garbage_of_nothing",
     [](Entry& e) {
       for (Effect& effect : e.effects)
         if (auto* garbage = std::get_if<GarbageAdd>(&effect)) garbage->pids.clear();
     }},
    {"trace_with_an_empty_name",
     [](Entry& e) {
       for (Effect& effect : e.effects)
         if (auto* trace = std::get_if<TraceAppend>(&effect)) trace->row.names.emplace_back();
     }},
    {"expiry_of_no_traces",
     [](Entry& e) {
       for (Effect& effect : e.effects)
         if (auto* expire = std::get_if<TraceExpire>(&effect)) expire->limit = 0;
     }},
    {"lease_without_end",
     [](Entry& e) {
       for (Effect& effect : e.effects)
         if (auto* cursor = std::get_if<CursorSet>(&effect)) cursor->row.lease_expires.reset();
     }},
};
class EntryValidity : public ::testing::TestWithParam<Broken> {};
TEST_P(EntryValidity, Refuses) {
  Entry entry = sample_entry();
  ASSERT_TRUE(validate_entry(entry));
  GetParam().change(entry);
  EXPECT_FALSE(validate_entry(entry));
}
INSTANTIATE_TEST_SUITE_P(Rules, EntryValidity, ::testing::ValuesIn(kBroken),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace queen::machine
