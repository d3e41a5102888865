// What is sealed before it reaches the broker, and what is sealed after the planner asked for it (EN-4).
#include "api/detail/seal.h"

#include <gtest/gtest.h>

#include "api/detail/dlq.h"
#include "api/detail/push.h"
#include "api/detail/transaction.h"
#include "api/tests/fake_broker.h"
#include "auth/payload_cipher.h"
#include "machine/planner.h"
#include "qlog/record.h"

namespace queen::api {
namespace {

constexpr const char* kPush =
    R"({"items":[{"queue":"vault","payload":{"a":1}},{"queue":"vault","payload":null},
                                           {"queue":"open","payload":{"b":2}}]})";

struct SealRig : Rig {
  SealRig() { context->settings.cipher = cipher.get(); }
  void flag(bool on) {
    store::QueueRow row;
    row.encryption_enabled = on;
    const auto gate = broker.store.write_gate();
    ASSERT_TRUE(machine::run_effect(
        broker.store, machine::QueueUpsert{std::string(kDefaultTenant), "vault", row}, EntryIndex{1}, 0, 1));
  }
  std::unique_ptr<auth::PayloadCipher> cipher =
      std::move(*auth::PayloadCipher::from_hex(std::string(64, '5')));
};

// `flag payload` of each frame; sealed ones opened.
std::string frames_of(const machine::PushBatch& batch, const auth::PayloadCipher& cipher) {
  std::string out;
  const auto frames = qlog::decode_frames(batch.frames, static_cast<std::uint32_t>(batch.items()));
  for (const auto& frame : *frames) {
    const Bytes text = frame.encrypted ? cipher.open(frame.payload).value_or("?") : Bytes(frame.payload);
    out += (frame.encrypted ? "sealed " : "plain ") + (frame.null_payload ? Bytes("-") : text) + "; ";
  }
  return out;
}

const machine::PushCommand& pushed(const machine::Command& command) {
  return std::get<machine::PushCommand>(command.body);
}

TEST(Sealing, SealsForTheQueuesThatAskForIt) {
  SealRig rig;
  rig.flag(true);
  rig.post(handle_push, kPush);
  const auto& batches = pushed(rig.broker.commands.at(0)).batches;
  EXPECT_EQ(frames_of(batches.at(0), *rig.cipher), "sealed {\"a\":1}; sealed null; ");
  EXPECT_EQ(frames_of(batches.at(1), *rig.cipher), "plain {\"b\":2}; ");
  EXPECT_TRUE(batches[0].sealed);
  EXPECT_FALSE(batches[1].sealed);
}

TEST(Sealing, WithoutAKeyLeavesItToThePlanner) {
  SealRig rig;
  rig.context->settings.cipher = nullptr;
  rig.flag(true);
  const auto sent = rig.post(handle_push, kPush);
  EXPECT_FALSE(pushed(rig.broker.commands.at(0)).batches.at(0).sealed);
  rig.broker.pushes.at(0)(tl::unexpected(broker::Refusal{"encryption_required", "no key"}));
  EXPECT_EQ(answer_of(sent).substr(0, 4), "400 ");
  EXPECT_EQ(rig.broker.commands.size(), 1U);
}

// The queue was flagged between the preparation and the planner.
TEST(Sealing, PushIsSealedAndSubmittedOnceMore) {
  SealRig rig;
  const auto sent = rig.post(handle_push, kPush);
  EXPECT_FALSE(pushed(rig.broker.commands.at(0)).batches.at(0).sealed);
  rig.flag(true);
  rig.broker.pushes.at(0)(tl::unexpected(broker::Refusal{"encryption_required", "sealed ones"}));
  EXPECT_TRUE(sent->responses.empty());
  ASSERT_EQ(rig.broker.commands.size(), 2U);
  EXPECT_EQ(frames_of(pushed(rig.broker.commands[1]).batches.at(0), *rig.cipher),
            "sealed {\"a\":1}; sealed null; ");
  EXPECT_EQ(rig.broker.commands[1].deadline_mono_us, rig.broker.commands[0].deadline_mono_us);
  rig.broker.pushes.at(1)(tl::unexpected(broker::Refusal{"encryption_required", "still"}));
  EXPECT_EQ(answer_of(sent).substr(0, 4), "400 ");
  EXPECT_EQ(rig.broker.commands.size(), 2U);
}

TEST(Sealing, TransactionIsSealedAndSubmittedOnceMore) {
  SealRig rig;
  const auto sent = rig.post(handle_transaction,
                             R"({"operations":[{"type":"push","items":[{"queue":"vault","payload":7}]}]})");
  rig.flag(true);
  machine::TransactionOutcome refused;
  refused.reason = "encryption_required";
  rig.broker.outcomes.at(0)(machine::Outcome{{}, {}, refused});
  EXPECT_TRUE(sent->responses.empty());
  ASSERT_EQ(rig.broker.commands.size(), 2U);
  const auto& again = std::get<machine::TransactionCommand>(rig.broker.commands[1].body);
  EXPECT_EQ(frames_of(again.push.batches.at(0), *rig.cipher), "sealed 7; ");
  EXPECT_EQ(rig.broker.commands[1].deadline_mono_us, rig.broker.commands[0].deadline_mono_us);
  rig.broker.outcomes.at(1)(machine::Outcome{{}, {}, refused});
  EXPECT_NE(answer_of(sent).find(R"("success":false,"reason":"encryption_required")"), std::string::npos);
}

TEST(Sealing, OnePayloadForItsQueue) {
  SealRig rig;
  rig.flag(true);
  const Sealer sealer(*rig.context, kDefaultTenant);
  const SealedPayload vault = sealer.sealed_for("vault", "[1]");
  EXPECT_TRUE(vault.encrypted);
  EXPECT_EQ(rig.cipher->open(vault.bytes), "[1]");
  const SealedPayload open = sealer.sealed_for("open", "[1]");
  EXPECT_FALSE(open.encrypted);
  EXPECT_EQ(open.bytes, "[1]");
}

}  // namespace
}  // namespace queen::api
