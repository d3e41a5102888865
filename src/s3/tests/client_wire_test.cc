// What goes over the wire: addresses, headers, signatures (s3-sink.md 17.1 to 17.3, HD-1, HD-2, HD-11).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client_test_support.h"

namespace queen::s3 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kEmptySha[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// The signature of a request as it arrived, computed from what arrived.
std::string resigned(const SeenRequest& seen) {
  const std::string authorization = seen.header("authorization");
  const std::size_t from = authorization.find("SignedHeaders=") + 14;
  std::string names = authorization.substr(from, authorization.find(',', from) - from) + ";";
  UnsignedRequest request{seen.method, seen.target, "", {}, sha256_hex(seen.body)};
  if (const std::size_t mark = seen.target.find('?'); mark != std::string::npos) {
    request.path = seen.target.substr(0, mark);
    request.query = seen.target.substr(mark + 1);
  }
  for (std::size_t at = 0, end; (end = names.find(';', at)) != std::string::npos; at = end + 1)
    request.headers.push_back({names.substr(at, end - at), seen.header(names.substr(at, end - at))});
  const std::string date = seen.header("x-amz-date");
  const auto instant =
      parse_iso_micros_strict(date.substr(0, 4) + "-" + date.substr(4, 2) + "-" + date.substr(6, 5) + ":" +
                              date.substr(11, 2) + ":" + date.substr(13, 2) + "Z");
  return sign(request, {"AK", "hush-hush", "eu-test-1"}, instant.value_or(0)).authorization;
}

TEST(ClientWire, PathStylePutHasExactlyTheHeadersOfTheSpec) {
  RecordingServer server(etag_reply);
  TestClient client(test_settings(server));
  ASSERT_TRUE(client.put("q/dt=2026-01-01/a%2Fb c", "hello").ok());
  const SeenRequest seen = server.seen().at(0);
  EXPECT_EQ(seen.method, "PUT");
  EXPECT_EQ(seen.target, "/bkt/q/dt%3D2026-01-01/a%252Fb%20c");
  EXPECT_EQ(seen.version, "HTTP/1.1");
  EXPECT_THAT(seen.header_names(),
              ElementsAre("authorization", "content-length", "content-md5", "content-type", "host",
                          "user-agent", "x-amz-content-sha256", "x-amz-date"));
  EXPECT_EQ(seen.header("host"), server.host());
  EXPECT_EQ(seen.header("content-length"), "5");
  EXPECT_EQ(seen.header("content-type"), "text/plain");
  EXPECT_EQ(seen.header("content-md5"), "XUFAKrxLKna5cZ2REBfFkg==");
  EXPECT_EQ(seen.header("x-amz-content-sha256"), sha256_hex("hello"));
  EXPECT_THAT(
      seen.header("authorization"),
      HasSubstr("Credential=AK/" + seen.header("x-amz-date").substr(0, 8) + "/eu-test-1/s3/aws4_request, "));
  EXPECT_THAT(seen.header("authorization"),
              HasSubstr("SignedHeaders=content-md5;content-type;host;x-amz-content-sha256;x-amz-date,"));
  EXPECT_EQ(seen.header("authorization"), resigned(seen));
  EXPECT_EQ(seen.body, "hello");
}

TEST(ClientWire, ALargePutExpectsNothingAndIsNotChunked) {
  RecordingServer server(etag_reply);
  TestClient client(test_settings(server));
  const Bytes body(3 << 20, 'x');
  ASSERT_TRUE(client.put("k", body).ok());
  EXPECT_THAT(server.seen().at(0).header_names(),
              ElementsAre("authorization", "content-length", "content-md5", "content-type", "host",
                          "user-agent", "x-amz-content-sha256", "x-amz-date"));
  EXPECT_EQ(server.seen().at(0).body, body);
}

TEST(ClientWire, AnEmptyPutHasALength) {
  RecordingServer server(etag_reply);
  TestClient client(test_settings(server));
  ASSERT_TRUE(client.put("k", "").ok());
  EXPECT_EQ(server.seen().at(0).header("content-length"), "0");
  EXPECT_EQ(server.seen().at(0).header("x-amz-content-sha256"), kEmptySha);
}

TEST(ClientWire, ReadsCarryNothingButTheSignature) {
  RecordingServer server([](const SeenRequest&) { return ServerReply{200, {}, "12345"}; });
  TestClient client(test_settings(server));
  ASSERT_TRUE(client.get("a").ok());
  ASSERT_TRUE(client.head("a").ok());
  for (const SeenRequest& seen : server.seen()) {
    EXPECT_THAT(seen.header_names(),
                ElementsAre("authorization", "host", "user-agent", "x-amz-content-sha256", "x-amz-date"));
    EXPECT_EQ(seen.header("authorization"), resigned(seen));
  }
}

TEST(ClientWire, KeysTravelWithoutNormalisation) {
  RecordingServer server([](const SeenRequest&) { return ServerReply{404, {}, ""}; });
  TestClient client(test_settings(server));
  ASSERT_TRUE(client.get("a/../b//./c/..").ok());
  EXPECT_EQ(server.seen().at(0).target, "/bkt/a/../b//./c/..");
}

TEST(ClientWire, SseHeadersAreExactAndSigned) {
  RecordingServer server(etag_reply);
  ClientSettings settings = test_settings(server);
  settings.sse = Sse::aes256;
  ASSERT_TRUE(TestClient(settings).put("k", "a").ok());
  settings.sse = Sse::aws_kms;
  ASSERT_TRUE(TestClient(settings).put("k", "a").ok());
  settings.sse_kms_key_id = "arn:k1";
  ASSERT_TRUE(TestClient(settings).put("k", "a").ok());
  const auto seen = server.seen();
  EXPECT_EQ(seen.at(0).header("x-amz-server-side-encryption"), "AES256");
  EXPECT_THAT(seen.at(0).header("authorization"), HasSubstr(";x-amz-date;x-amz-server-side-encryption,"));
  EXPECT_EQ(seen.at(1).header("x-amz-server-side-encryption"), "aws:kms");
  EXPECT_EQ(seen.at(1).header("x-amz-server-side-encryption-aws-kms-key-id"), "");
  EXPECT_EQ(seen.at(2).header("x-amz-server-side-encryption-aws-kms-key-id"), "arn:k1");
  EXPECT_THAT(seen.at(2).header("authorization"),
              HasSubstr(";x-amz-server-side-encryption;x-amz-server-side-encryption-aws-kms-key-id,"));
  for (const SeenRequest& one : seen) EXPECT_EQ(one.header("authorization"), resigned(one));
}

// `localhost` names answer to any label in front, so the virtual host resolves to the test server.
TEST(ClientWire, VirtualHostPutsTheBucketIntoTheHost) {
  RecordingServer server([](const SeenRequest& seen) {
    if (seen.method == "GET") return ServerReply{200, {}, "<ListBucketResult></ListBucketResult>"};
    return etag_reply(seen);
  });
  ClientSettings settings = test_settings(server);
  settings.path_style = false;
  settings.endpoint = "http://localhost:" + std::to_string(server.port()) + "/";
  TestClient client(settings);
  ASSERT_TRUE(client.put("a=b/c", "x").ok());
  ASSERT_TRUE(client.list("p/").ok());
  const auto seen = server.seen();
  EXPECT_EQ(seen.at(0).target, "/a%3Db/c");
  EXPECT_EQ(seen.at(0).header("host"), "bkt.localhost:" + std::to_string(server.port()));
  EXPECT_EQ(seen.at(1).target, "/?list-type=2&max-keys=1000&prefix=p%2F");
}

TEST(ClientWire, ListAsksByStartAfterAndDecodesKeys) {
  RecordingServer server([](const SeenRequest&) {
    return ServerReply{200,
                       {},
                       "<ListBucketResult "
                       "xmlns=\"x\"><IsTruncated>true</IsTruncated><Contents><Key>p/a&amp;b</Key></Contents>"
                       "<Contents><Key>p/&#34;c&quot;</Key></Contents></ListBucketResult>"};
  });
  TestClient client(test_settings(server));
  const auto listed = client.list("p/", "p/\x01", 7);
  ASSERT_TRUE(listed.ok()) << listed.error->sentence;
  EXPECT_THAT(listed.value->keys, ElementsAre("p/\"c\"", "p/a&b"));
  EXPECT_TRUE(listed.value->truncated);
  EXPECT_EQ(server.seen().at(0).target, "/bkt?list-type=2&max-keys=7&prefix=p%2F&start-after=p%2F%01");
}

TEST(ClientWire, AListPageThatDoesNotAdvanceEndsTheListing) {
  RecordingServer server([](const SeenRequest&) {
    return ServerReply{200,
                       {},
                       "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>p/a</Key></"
                       "Contents></ListBucketResult>"};
  });
  TestClient client(test_settings(server));
  const auto listed = client.list("p/", "p/a");
  ASSERT_TRUE(listed.ok());
  EXPECT_TRUE(listed.value->keys.empty());
  EXPECT_FALSE(listed.value->truncated);
  EXPECT_TRUE(listed.value->stuck);
}

TEST(ClientWire, MissingHeadAndGetAreAnswers) {
  RecordingServer server([](const SeenRequest&) { return ServerReply{404, {}, error_xml("NoSuchKey")}; });
  TestClient client(test_settings(server));
  const auto got = client.get("k");
  ASSERT_TRUE(got.ok());
  EXPECT_FALSE(got.value->has_value());
  const auto head = client.head("k");
  ASSERT_TRUE(head.ok());
  EXPECT_FALSE(head.value->has_value());
  EXPECT_EQ(server.seen().size(), 2U);
}

TEST(ClientWire, ReadsGiveContentAndSize) {
  RecordingServer server([](const SeenRequest&) { return ServerReply{200, {}, Bytes("\0\xFF!", 3)}; });
  TestClient client(test_settings(server));
  EXPECT_EQ(client.get("k").value.value(), Bytes("\0\xFF!", 3));
  EXPECT_EQ(client.head("k").value.value(), 3U);
}

TEST(ClientWire, CountsEveryAttemptByOperationAndStatus) {
  int requests = 0;
  RecordingServer server(
      [&](const SeenRequest&) { return ServerReply{++requests == 1 ? 503 : 404, {}, ""}; });
  std::mutex mutex;
  std::vector<std::string> attempts;
  ClientSettings settings = test_settings(server);
  settings.on_attempt = [&](const Attempt& attempt) {
    const std::lock_guard lock(mutex);
    attempts.push_back(std::string(attempt.op) + " " + std::to_string(attempt.status));
  };
  ASSERT_TRUE(TestClient(settings).head("k").ok());
  settings.endpoint = "http://127.0.0.1:1";
  EXPECT_FALSE(TestClient(settings).list("").ok());
  EXPECT_THAT(attempts, ElementsAre("head 503", "head 404", "list 0", "list 0", "list 0", "list 0", "list 0",
                                    "list 0"));
}

}  // namespace
}  // namespace queen::s3
