#include "broker/payload_opener.h"

#include <gtest/gtest.h>

#include "auth/payload_cipher.h"

namespace queen::broker {
namespace {

struct OpenerTest : ::testing::Test {
  std::unique_ptr<auth::PayloadCipher> cipher =
      std::move(*auth::PayloadCipher::from_hex(std::string(64, '5')));
  std::unique_ptr<auth::PayloadCipher> other =
      std::move(*auth::PayloadCipher::from_hex(std::string(64, '6')));
  Messages messages;
  void add(const Bytes& stored, bool encrypted) {
    messages.buffers.push_back(std::make_shared<const Bytes>(stored));
    Message message;
    message.payload = *messages.buffers.back();
    message.encrypted = message.sealed = encrypted;
    messages.messages.push_back(message);
  }
  std::string shown(std::size_t i) const {
    const Message& message = messages.messages.at(i);
    return std::string(message.encrypted ? "closed " : "") +
           (message.null_payload ? "-" : Bytes(message.payload));
  }
};

TEST_F(OpenerTest, OpensByShapeIntoOneBuffer) {
  const Bytes foreign = *other->seal("1");
  add(*cipher->seal("{\"a\":1}"), true);
  add("{\"plain\":true}", false);
  add(*cipher->seal("null"), true);
  add(foreign, true);
  add(*cipher->seal("[2]"), false);
  const Bytes no_json = *cipher->seal("a secret of another kind");
  add(no_json, false);
  PayloadOpener(cipher.get()).open(messages, 0);
  EXPECT_EQ(shown(0), "{\"a\":1}");
  EXPECT_EQ(shown(1), "{\"plain\":true}");
  EXPECT_EQ(shown(2), "-");
  EXPECT_EQ(shown(3), "closed " + foreign);
  EXPECT_EQ(shown(4), "[2]");
  EXPECT_EQ(shown(5), no_json);
  EXPECT_EQ(messages.buffers.size(), 7U);
  EXPECT_TRUE(messages.messages[0].sealed && messages.messages[3].sealed && !messages.messages[4].sealed);
}

TEST_F(OpenerTest, LeavesWhatIsBeforeAndEverythingWithoutAKey) {
  const Bytes sealed = *cipher->seal("1");
  add(sealed, true);
  add(sealed, true);
  PayloadOpener(nullptr).open(messages, 0);
  EXPECT_EQ(shown(1), "closed " + sealed);
  EXPECT_FALSE(PayloadOpener(nullptr).open_text(sealed));
  PayloadOpener(cipher.get()).open(messages, 1);
  EXPECT_EQ(shown(0), "closed " + sealed);
  EXPECT_EQ(shown(1), "1");
}

}  // namespace
}  // namespace queen::broker
