// Which commands the gates of storage.md 24 are for.
#include "broker/growth.h"

#include <gtest/gtest.h>

namespace queen::broker {
namespace {

machine::Command of(machine::TransactionCommand body) {
  return {std::string(kDefaultTenant), {}, std::move(body)};
}
machine::TransactionCommand with_kv(machine::KvKind kind) {
  machine::TransactionCommand body;
  body.kv.ops.emplace_back().kind = kind;
  return body;
}

// BP-1: a full node can be drained by transactions, too.
TEST(Growth, ATransactionGrowsByItsPushesAndKvPutsAlone) {
  machine::TransactionCommand drains;
  drains.acks.emplace_back();
  drains.positions.emplace_back();
  EXPECT_FALSE(grows(of(drains)));
  EXPECT_FALSE(grows(of(with_kv(machine::KvKind::del))));
  EXPECT_FALSE(grows(of(with_kv(machine::KvKind::get))));
  EXPECT_TRUE(grows(of(with_kv(machine::KvKind::put))));
  EXPECT_TRUE(grows(of(with_kv(machine::KvKind::put_if_absent))));
  drains.push.batches.emplace_back();
  EXPECT_TRUE(grows(of(drains)));
}

TEST(Growth, AStreamsCycleGrowsByWhatItStores) {
  const auto command = [](machine::StreamsCycleCommand body) {
    return machine::Command{std::string(kDefaultTenant), {}, std::move(body)};
  };
  machine::StreamsCycleCommand drains;
  drains.ack.emplace();
  drains.state.push_back({"k", std::nullopt});
  EXPECT_FALSE(grows(command(drains)));
  machine::StreamsCycleCommand puts = drains;
  puts.state.push_back({"k", "1"});
  EXPECT_TRUE(grows(command(puts)));
  machine::StreamsCycleCommand pushes = drains;
  pushes.push.batches.emplace_back();
  EXPECT_TRUE(grows(command(pushes)));
}

}  // namespace
}  // namespace queen::broker
