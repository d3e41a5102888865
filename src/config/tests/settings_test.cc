#include "config/settings.h"

#include <gtest/gtest.h>

namespace queen::config {
namespace {

Result<Values> read(std::map<std::string, std::string> environment) {
  return Values::read(engine_rows(), [environment](std::string_view name) -> std::optional<std::string> {
    const auto found = environment.find(std::string(name));
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Settings, DefaultsAreThoseOfTheContract) {
  const auto values = read({});
  ASSERT_TRUE(values);
  EXPECT_EQ(values->integer("PORT"), 6632);
  EXPECT_EQ(values->text("QUEEN_BIND_ADDR"), "0.0.0.0");
  EXPECT_EQ(values->integer("QUEEN_MAX_BODY_BYTES"), 67'108'864);
  EXPECT_EQ(values->percent("QUEEN_RAFT_DISK_HIGH_PCT"), 85);
  EXPECT_TRUE(values->flag("QUEEN_QLOG_PRECREATE"));
  EXPECT_TRUE(values->warnings().empty());
}

TEST(Settings, StrictBooleanStopsTheBootAndNamesVariableAndValue) {
  const auto values = read({{"QUEEN_LOG_JSON", "maybe"}});
  ASSERT_FALSE(values);
  EXPECT_NE(values.error().what.find("QUEEN_LOG_JSON=maybe"), std::string::npos);
  EXPECT_TRUE(read({{"QUEEN_LOG_JSON", " "}}));
  EXPECT_TRUE(read({{"QUEEN_LOG_JSON", "YES"}})->flag("QUEEN_LOG_JSON"));
}

TEST(Settings, BadNumbersFallBackWithAWarning) {
  for (const char* bad : {"0", "x", "-3"}) {
    const auto values = read({{"QUEEN_RAFT_PIPELINE", bad}});
    ASSERT_TRUE(values);
    EXPECT_EQ(values->integer("QUEEN_RAFT_PIPELINE"), 8) << bad;
    ASSERT_EQ(values->warnings().size(), 1U);
    EXPECT_EQ(values->warnings()[0].name, "QUEEN_RAFT_PIPELINE");
    EXPECT_EQ(values->warnings()[0].value, bad);
  }
}

TEST(Settings, PercentTakesFractionsAndRefusesOutside) {
  EXPECT_EQ(read({{"QUEEN_RAFT_DISK_HIGH_PCT", "0"}})->percent("QUEEN_RAFT_DISK_HIGH_PCT"), 85);
  EXPECT_EQ(read({{"QUEEN_RAFT_DISK_HIGH_PCT", "101"}})->percent("QUEEN_RAFT_DISK_HIGH_PCT"), 85);
  EXPECT_EQ(read({{"QUEEN_RAFT_DISK_HIGH_PCT", "99.9"}})->percent("QUEEN_RAFT_DISK_HIGH_PCT"), 99.9);
}

TEST(Settings, NumbersAreClampedWithAWarning) {
  const auto values = read({{"QUEEN_QLOG_LANES", "100"}});
  EXPECT_EQ(values->integer("QUEEN_QLOG_LANES"), 64);
  EXPECT_EQ(values->warnings().size(), 1U);
}

TEST(Settings, UnknownNamesAreToldWithTheNearest) {
  const std::vector<std::string> environment = {"QUEEN_RAFT_DIRR", "HOME", "QUEEN_RAFT_DIR"};
  const std::vector<std::string> known = {"QUEEN_RAFT_DIR", "QUEEN_LOG_JSON"};
  const auto warnings = unknown_names(environment, known);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].name, "QUEEN_RAFT_DIRR");
  EXPECT_NE(warnings[0].text.find("QUEEN_RAFT_DIR"), std::string::npos);
}

TEST(Settings, SecretsAreMasked) {
  Row row{"X", Kind::text, ""};
  row.secret = true;
  EXPECT_EQ(masked(row, ""), "<unset>");
  EXPECT_EQ(masked(row, "abc"), "<set:3 chars>");
}

TEST(Settings, EveryRowHasAHelpSentenceAndASection) {
  for (const Row& row : engine_rows()) {
    EXPECT_TRUE(std::string_view(row.help).ends_with(".")) << row.name;
    EXPECT_NE(*row.section, 0) << row.name;
  }
}

}  // namespace
}  // namespace queen::config
