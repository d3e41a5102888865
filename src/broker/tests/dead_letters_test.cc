// Lists and look-ups of dead letters over a store in RAM.
#include "broker/dead_letters.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "broker/store_steps.h"
#include "machine/effects.h"
#include "machine/planner.h"
#include "store/keys.h"

namespace queen::broker {
namespace {

const std::string kOwner{kDefaultTenant};
const std::string kStranger = "018f2b3c-0000-7000-8000-0000000000aa";

Uuid numbered(std::uint64_t number) {
  Uuid id;
  for (int i = 0; i < 8; ++i) id.bytes[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
  return id;
}

class DeadLettersTest : public ::testing::Test {
 protected:
  void partition(std::uint64_t pid, const std::string& queue, const std::string& name,
                 const std::string& tenant = kOwner) {
    run(machine::PartitionCreate{Pid{pid}, numbered(1'000 + pid), tenant, queue, name, 1});
  }
  void letter(std::uint64_t id, std::uint64_t pid, const std::string& queue, const std::string& group,
              std::int64_t failed_at, const std::string& transaction_id = "t",
              const std::string& tenant = kOwner) {
    store::DeadLetterRow row;
    row.pid = Pid{pid};
    row.group = group;
    row.offset = static_cast<std::int64_t>(id);
    row.transaction_id = transaction_id;
    row.payload = "{\"n\":42.00}";
    row.error = "no";
    row.failed_at = failed_at;
    run(machine::DlqInsert{numbered(id), tenant, queue, row});
  }
  void run(const machine::Effect& effect) {
    const auto gate = store_.write_gate();
    const auto status = machine::run_effect(store_, effect, EntryIndex{1}, 0, 1);
    ASSERT_TRUE(status) << status.error().what;
  }
  static std::vector<std::uint64_t> numbers(const std::vector<Uuid>& ids) {
    std::vector<std::uint64_t> out;
    for (const Uuid& id : ids) out.push_back(id.bytes[15] + 256U * id.bytes[14]);
    return out;
  }
  std::vector<std::uint64_t> page(const DeadLetterFilter& filter, const PageRange& range = {},
                                  std::uint64_t* total = nullptr) {
    const auto page = letters_.page(kOwner, filter, range);
    if (total != nullptr) *total = page.total;
    std::vector<Uuid> ids;
    for (const auto& one : page.letters) ids.push_back(one.id);
    return numbers(ids);
  }
  using Numbers = std::vector<std::uint64_t>;

  store::Store store_;
  DeadLetters letters_{store_};
};

// 12: newest first, whatever the order of ids and queues, with the exact total.
TEST_F(DeadLettersTest, AreListedNewestFirstOverAllQueues) {
  partition(1, "a", "p");
  partition(2, "b", "p");
  letter(1, 1, "a", "g", 300);
  letter(2, 1, "a", "h", 100);
  letter(3, 2, "b", "g", 200);
  letter(4, 2, "b", "g", 200);
  std::uint64_t total = 0;
  EXPECT_EQ(page({}, {}, &total), (Numbers{1, 4, 3, 2}));
  EXPECT_EQ(total, 4U);
  EXPECT_EQ(page({"a", std::nullopt}), (Numbers{1, 2}));
  EXPECT_EQ(page({std::nullopt, "g"}), (Numbers{1, 4, 3}));
  EXPECT_EQ(page({"a", "h"}, {}, &total), Numbers{2});
  EXPECT_EQ(total, 1U);
  EXPECT_EQ(page({"none", std::nullopt}, {}, &total), Numbers{});
  EXPECT_EQ(total, 0U);
}

TEST_F(DeadLettersTest, ArePagedWithTheTotalOfAll) {
  partition(1, "a", "p");
  for (std::uint64_t i = 1; i <= 5; ++i) letter(i, 1, "a", "g", static_cast<std::int64_t>(i));
  std::uint64_t total = 0;
  EXPECT_EQ(page({}, {2, 0}, &total), (Numbers{5, 4}));
  EXPECT_EQ(page({}, {2, 2}), (Numbers{3, 2}));
  EXPECT_EQ(page({}, {2, 4}), Numbers{1});
  EXPECT_EQ(page({}, {2, 5}, &total), Numbers{});
  EXPECT_EQ(total, 5U);
}

// More than one step of the scan.
TEST_F(DeadLettersTest, AreAllCountedHoweverManyThereAre) {
  partition(1, "a", "p");
  const std::uint64_t count = 3 * kRowsPerStep + 1;
  for (std::uint64_t i = 1; i <= count; ++i) letter(i, 1, "a", "g", static_cast<std::int64_t>(i));
  std::uint64_t total = 0;
  EXPECT_EQ(page({}, {1, 0}, &total), Numbers{count});
  EXPECT_EQ(total, count);
  EXPECT_EQ(letters_.of_queue(kOwner, "a", std::nullopt).size(), count);
}

TEST_F(DeadLettersTest, SayWhereTheyComeFrom) {
  partition(7, "a", "unit");
  letter(1, 7, "a", "g", 5);
  letter(2, 99, "a", "__timer__", 4);  // of a timer whose partition never was
  const auto all = letters_.page(kOwner, {}, {}).letters;
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].queue, "a");
  EXPECT_EQ(all[0].partition, "unit");
  EXPECT_EQ(all[0].row.payload, "{\"n\":42.00}");
  EXPECT_EQ(all[1].partition, std::nullopt);
}

// 1.2: another tenant's are not there.
TEST_F(DeadLettersTest, OfAnotherTenantAreNotThere) {
  partition(1, "a", "p", kStranger);
  letter(1, 1, "a", "g", 1, "t", kStranger);
  EXPECT_EQ(page({}), Numbers{});
  EXPECT_FALSE(letters_.by_id(kOwner, numbered(1)));
  EXPECT_FALSE(letters_.of_message(kOwner, "1", "t"));
  EXPECT_FALSE(letters_.of_message(kOwner, numbered(1'001).str(), "t"));
  EXPECT_TRUE(letters_.of_queue(kOwner, "a", std::nullopt).empty());
  EXPECT_TRUE(letters_.by_id(kStranger, numbered(1)));
}

TEST_F(DeadLettersTest, AreFoundByTheirIdInWhateverQueue) {
  const std::string zero("a\0b", 3);
  partition(1, "a", "p");
  partition(2, zero, "p");
  partition(3, "b", "p");
  letter(5, 1, "a", "g", 1);
  letter(6, 2, zero, "g", 1);
  letter(7, 3, "b", "g", 1);
  EXPECT_EQ(letters_.by_id(kOwner, numbered(5))->queue, "a");
  EXPECT_EQ(letters_.by_id(kOwner, numbered(6))->queue, zero);
  EXPECT_EQ(letters_.by_id(kOwner, numbered(7))->queue, "b");
  EXPECT_FALSE(letters_.by_id(kOwner, numbered(8)));
}

TEST_F(DeadLettersTest, OfAQueueCanBeOfOneGroup) {
  partition(1, "a", "p");
  letter(1, 1, "a", "g", 1);
  letter(2, 1, "a", "h", 1);
  EXPECT_EQ(numbers(letters_.of_queue(kOwner, "a", std::nullopt)), (Numbers{1, 2}));
  EXPECT_EQ(numbers(letters_.of_queue(kOwner, "a", "h")), Numbers{2});
}

// M-2, D-4, 1.5: by the number or the UUID of the partition, of all groups.
TEST_F(DeadLettersTest, OfAMessageAreThoseOfEveryGroup) {
  partition(1, "a", "p");
  partition(2, "a", "r");
  letter(4, 1, "a", "g", 1, "x");
  letter(3, 1, "a", "h", 2, "x");
  letter(5, 1, "a", "g", 3, "y");
  letter(6, 2, "a", "g", 4, "x");
  for (const std::string& name : {std::string("1"), numbered(1'001).str()}) {
    const auto found = letters_.of_message(kOwner, name, "x");
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->queue, "a");
    EXPECT_EQ(numbers(found->ids), (Numbers{3, 4}));
  }
  EXPECT_TRUE(letters_.of_message(kOwner, "1", "z")->ids.empty());
  for (const char* none : {"", "9", "-1", "1x", "0x1", "99999999999999999999", "p"})
    EXPECT_FALSE(letters_.of_message(kOwner, none, "x")) << none;
}

// A command of any size goes in steps, and the answer counts them all.
TEST(DeleteDeadLetters, GoesInStepsUntilItsEndOrTheFirstRefusal) {
  SystemClock clock;
  SeededRandom random(1);
  std::vector<std::size_t> steps;
  std::size_t refuse_from = 99;
  const Submit submit = [&](machine::Command command, UniqueFunction<void(Answer<machine::Outcome>)> done) {
    const auto& body = std::get<machine::DeadLetterDeleteCommand>(command.body);
    EXPECT_EQ(body.queue, "q");
    if (steps.size() >= refuse_from) return done(tl::unexpected(Refusal{"retry", "no"}));
    steps.push_back(body.ids.size());
    done(machine::Outcome{{}, {}, machine::DeadLetterDeleteOutcome{body.ids.size()}});
  };
  const auto run = [&](std::size_t count) {
    steps.clear();
    std::optional<Answer<machine::Outcome>> answer;
    machine::Command command{kOwner, numbered(1),
                             machine::DeadLetterDeleteCommand{"q", std::vector<Uuid>(count)}};
    delete_dead_letters(submit, std::move(command), clock, random,
                        [&](Answer<machine::Outcome> given) { answer.emplace(std::move(given)); });
    return std::move(answer).value();
  };
  const auto all = run(2'500);
  EXPECT_EQ(std::get<machine::DeadLetterDeleteOutcome>(all->body).removed, 2'500U);
  EXPECT_EQ(steps, (std::vector<std::size_t>{1'000, 1'000, 500}));
  refuse_from = 1;
  EXPECT_EQ(run(2'500).error().code, "retry");
}

}  // namespace
}  // namespace queen::broker
