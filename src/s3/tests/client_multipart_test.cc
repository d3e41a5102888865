// Multipart uploads (s3-sink.md 17.3, 17.4; HD-2, HD-4, HD-7).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client_test_support.h"

namespace queen::s3 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t kPart = 16 << 20;

// What a request is, in words: `create`, `part 1 of u1`, `complete u1`, `abort u1`, `head`, `put`.
std::string kind_of(const SeenRequest& seen) {
  const auto parameter = [&](std::string_view name) {
    const std::size_t at = seen.target.find(std::string(name) + "=");
    if (at == std::string::npos) return std::string();
    const std::size_t from = at + name.size() + 1;
    return seen.target.substr(from, seen.target.find('&', from) - from);
  };
  if (seen.target.find("uploads=") != std::string::npos) return "create";
  const std::string id = parameter("uploadId");
  if (seen.method == "POST") return "complete " + id;
  if (seen.method == "DELETE") return "abort " + id;
  if (seen.method == "HEAD") return "head";
  return id.empty() ? "put" : "part " + parameter("partNumber") + " of " + id;
}

std::string completed(std::string_view etag) {
  return "<CompleteMultipartUploadResult><ETag>" + std::string(etag) +
         "</ETag></CompleteMultipartUploadResult>";
}

// A store that does everything right, unless `fault` answers first.
class MultipartServer {
 public:
  using Fault = std::function<std::optional<ServerReply>(const std::string& kind)>;
  explicit MultipartServer(Fault fault = [](const std::string&) { return std::nullopt; })
      : fault_(std::move(fault)), server([this](const SeenRequest& seen) { return answer(seen); }) {}

  ClientSettings settings() const {
    ClientSettings settings = test_settings(server);
    settings.multipart_threshold_bytes = 1 << 20;
    return settings;
  }
  std::vector<std::string> kinds() const {
    std::vector<std::string> out;
    for (const SeenRequest& seen : server.seen()) out.push_back(kind_of(seen));
    return out;
  }

 private:
  ServerReply answer(const SeenRequest& seen) {
    const std::string kind = kind_of(seen);
    if (auto reply = fault_(kind)) return *reply;
    if (kind == "create") {
      parts_ = 0;
      return {200, {}, "<R><UploadId>u" + std::to_string(++uploads_) + "</UploadId></R>"};
    }
    if (kind.starts_with("part")) return {200, {{"ETag", "\"part<" + std::to_string(++parts_) + "\""}}, ""};
    if (kind.starts_with("complete"))
      return {200, {}, "  \n  " + completed("&#34;abc-" + std::to_string(parts_) + "&quot;")};
    return {204, {}, ""};
  }

  Fault fault_;
  int uploads_ = 0;
  int parts_ = 0;

 public:
  RecordingServer server;  // ends first: its thread answers from the members above
};

MultipartServer::Fault fault_at(std::string at, ServerReply reply, int times = 1'000) {
  return [at = std::move(at), reply = std::move(reply), times](const std::string& kind) mutable {
    if (kind != at || times == 0) return std::optional<ServerReply>();
    --times;
    return std::optional(reply);
  };
}

TEST(Multipart, CreatesSendsPartsAndCompletes) {
  MultipartServer store;
  Bytes body(kPart, 'a');
  body += Bytes(5, 'b');
  int gaps = 0;
  const auto done = TestClient(store.settings()).put("dt=1/k", body, {"text/plain", [&] {
                                                                        EXPECT_EQ(store.kinds().size(),
                                                                                  2U);  // create and part 1
                                                                        ++gaps;
                                                                      }});
  ASSERT_TRUE(done.ok()) << done.error->sentence;
  EXPECT_EQ(done.value->etag, "abc-2");
  EXPECT_EQ(gaps, 1);
  EXPECT_THAT(store.kinds(), ElementsAre("create", "part 1 of u1", "part 2 of u1", "complete u1"));
  const auto seen = store.server.seen();
  EXPECT_EQ(seen.at(0).target, "/bkt/dt%3D1/k?uploads=");
  EXPECT_EQ(seen.at(0).header("content-type"), "text/plain");
  EXPECT_EQ(seen.at(0).header("content-length"), "0");
  EXPECT_EQ(seen.at(1).target, "/bkt/dt%3D1/k?partNumber=1&uploadId=u1");
  EXPECT_EQ(seen.at(1).body.size(), kPart);
  EXPECT_EQ(seen.at(2).body, "bbbbb");
  EXPECT_EQ(seen.at(3).header("content-type"), "application/xml");
  EXPECT_EQ(seen.at(3).body,
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"part&lt;1\"</ETag></Part>"
            "<Part><PartNumber>2</PartNumber><ETag>\"part&lt;2\"</ETag></Part></CompleteMultipartUpload>");
}

TEST(Multipart, HeadersOfEachRequestAreExact) {
  MultipartServer store;
  ClientSettings settings = store.settings();
  settings.sse = Sse::aes256;
  ASSERT_TRUE(TestClient(settings).put("k", Bytes(2 << 20, 'a')).ok());
  const auto seen = store.server.seen();
  EXPECT_THAT(seen.at(0).header_names(),
              ElementsAre("authorization", "content-length", "content-type", "host", "user-agent",
                          "x-amz-content-sha256", "x-amz-date", "x-amz-server-side-encryption"));
  EXPECT_THAT(seen.at(1).header_names(), ElementsAre("authorization", "content-length", "content-md5", "host",
                                                     "user-agent", "x-amz-content-sha256", "x-amz-date"));
  EXPECT_THAT(seen.at(2).header_names(),
              ElementsAre("authorization", "content-length", "content-type", "host", "user-agent",
                          "x-amz-content-sha256", "x-amz-date"));
  EXPECT_EQ(seen.at(1).header("content-md5"), base64(md5_raw(seen.at(1).body)));
}

TEST(Multipart, AnExactMultipleEndsWithAFullPart) {
  MultipartServer store;
  ASSERT_TRUE(TestClient(store.settings()).put("k", Bytes(2 * kPart, 'a')).ok());
  EXPECT_THAT(store.kinds(), ElementsAre("create", "part 1 of u1", "part 2 of u1", "complete u1"));
  EXPECT_EQ(store.server.seen().at(2).body.size(), kPart);
}

TEST(Multipart, StartsAboveTheThresholdOnly) {
  MultipartServer store;
  TestClient client(store.settings());
  ASSERT_TRUE(client.put("k", Bytes(1 << 20, 'a')).ok());
  ASSERT_TRUE(client.put("k", Bytes((1 << 20) + 1, 'a')).ok());
  EXPECT_THAT(store.kinds(), ElementsAre("put", "create", "part 1 of u1", "complete u1"));
}

TEST(Multipart, AFailedPartAbortsOnce) {
  MultipartServer store(fault_at("part 2 of u1", {403, {}, error_xml("AccessDenied")}));
  const auto done = TestClient(store.settings()).put("k", Bytes(kPart + 1, 'a'));
  EXPECT_EQ(done.error->status, 403);
  EXPECT_THAT(store.kinds(), ElementsAre("create", "part 1 of u1", "part 2 of u1", "abort u1"));
}

TEST(Multipart, AFailedAbortIsIgnoredAndNotRepeated) {
  MultipartServer store([](const std::string& kind) {
    if (kind == "part 1 of u1") return std::optional(ServerReply{400, {}, error_xml("EntityTooSmall")});
    if (kind == "abort u1") return std::optional(ServerReply{500, {}, ""});
    return std::optional<ServerReply>();
  });
  EXPECT_EQ(TestClient(store.settings()).put("k", Bytes(2 << 20, 'a')).error->s3_code, "EntityTooSmall");
  EXPECT_THAT(store.kinds(), ElementsAre("create", "part 1 of u1", "abort u1"));
}

TEST(Multipart, APartIsTriedAgainUnderTheSameUpload) {
  MultipartServer store(fault_at("part 1 of u1", {500, {}, ""}, 2));
  EXPECT_TRUE(TestClient(store.settings()).put("k", Bytes(2 << 20, 'a')).ok());
  EXPECT_THAT(store.kinds(),
              ElementsAre("create", "part 1 of u1", "part 1 of u1", "part 1 of u1", "complete u1"));
}

TEST(Multipart, A200WithAnErrorIsTriedAgain) {
  MultipartServer store(fault_at("complete u1", {200, {}, "   \n" + error_xml("InternalError")}, 2));
  EXPECT_TRUE(TestClient(store.settings()).put("k", Bytes(2 << 20, 'a')).ok());
  EXPECT_THAT(store.kinds(),
              ElementsAre("create", "part 1 of u1", "complete u1", "complete u1", "complete u1"));
}

TEST(Multipart, A200WithAnErrorToTheEndFailsAndAborts) {
  MultipartServer store(fault_at("complete u1", {200, {}, error_xml("InternalError")}));
  const auto done = TestClient(store.settings()).put("k", Bytes(2 << 20, 'a'));
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error->status, 200);
  EXPECT_EQ(done.error->s3_code, "InternalError");
  EXPECT_TRUE(done.error->retriable);
  EXPECT_EQ(store.kinds().size(), 2U + 6U + 1U);
  EXPECT_EQ(store.kinds().back(), "abort u1");
}

TEST(Multipart, APartCountMismatchIsAnIntegrityFailureAfterAFewUploads) {
  for (const std::string etag : {"\"abc-3\"", "&quot;abc-3&quot;", "&#34;abc-3&#34;"}) {
    MultipartServer store([&](const std::string& kind) {
      return kind.starts_with("complete") ? std::optional(ServerReply{200, {}, completed(etag)})
                                          : std::nullopt;
    });
    const auto done = TestClient(store.settings()).put("k", Bytes(2 << 20, 'a'));
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error->failure, Failure::integrity);
    EXPECT_FALSE(done.error->retriable);
    EXPECT_THAT(store.kinds(),
                ElementsAre("create", "part 1 of u1", "complete u1", "create", "part 1 of u2", "complete u2",
                            "create", "part 1 of u3", "complete u3", "abort u3"));
  }
}

TEST(Multipart, AnEtagWithoutACountIsNotCompared) {
  MultipartServer store(fault_at("complete u1", {200, {}, completed("\"opaque-x\"")}));
  EXPECT_EQ(TestClient(store.settings()).put("k", Bytes(2 << 20, 'a')).value.value().etag, "opaque-x");
}

TEST(Multipart, NoSuchUploadOnAPartBeginsAgainUnderANewId) {
  MultipartServer store(fault_at("part 2 of u1", {404, {}, error_xml("NoSuchUpload")}));
  EXPECT_TRUE(TestClient(store.settings()).put("k", Bytes(kPart + 1, 'a')).ok());
  EXPECT_THAT(store.kinds(), ElementsAre("create", "part 1 of u1", "part 2 of u1", "create", "part 1 of u2",
                                         "part 2 of u2", "complete u2"));
}

TEST(Multipart, NoSuchUploadForEverIsReportedAsRetriable) {
  MultipartServer store([](const std::string& kind) {
    return kind.starts_with("part") ? std::optional(ServerReply{404, {}, error_xml("NoSuchUpload")})
                                    : std::nullopt;
  });
  const auto done = TestClient(store.settings()).put("k", Bytes(2 << 20, 'a'));
  EXPECT_TRUE(done.error->retriable);
  EXPECT_EQ(store.kinds().size(), 6U);
}

TEST(Multipart, NoSuchUploadOnCompletionLooksAndTakesTheRightSize) {
  MultipartServer store([](const std::string& kind) {
    if (kind.starts_with("complete")) return std::optional(ServerReply{404, {}, error_xml("NoSuchUpload")});
    if (kind == "head")
      return std::optional(ServerReply{200, {{"Content-Length", "2097152"}, {"ETag", "\"abc-1\""}}, ""});
    return std::optional<ServerReply>();
  });
  const auto done = TestClient(store.settings()).put("k", Bytes(2 << 20, 'a'));
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done.value->etag, "abc-1");
  EXPECT_THAT(store.kinds(), ElementsAre("create", "part 1 of u1", "complete u1", "head"));
}

TEST(Multipart, NoSuchUploadOnCompletionWithAnotherSizeBeginsAgain) {
  for (const int status : {200, 404}) {
    MultipartServer store([status](const std::string& kind) {
      if (kind == "complete u1") return std::optional(ServerReply{404, {}, error_xml("NoSuchUpload")});
      if (kind == "head") return std::optional(ServerReply{status, {{"Content-Length", "7"}}, ""});
      return std::optional<ServerReply>();
    });
    EXPECT_TRUE(TestClient(store.settings()).put("k", Bytes(2 << 20, 'a')).ok());
    EXPECT_THAT(store.kinds(), ElementsAre("create", "part 1 of u1", "complete u1", "head", "create",
                                           "part 1 of u2", "complete u2"));
  }
}

TEST(Multipart, AnAnswerWithoutAnUploadIdIsABodyFailure) {
  MultipartServer store(fault_at("create", {200, {}, "<R></R>"}));
  EXPECT_EQ(TestClient(store.settings()).put("k", Bytes(2 << 20, 'a')).error->failure, Failure::body);
}

TEST(Multipart, CancelSendsNoAbort) {
  MultipartServer store(fault_at("part 1 of u1", {200, {}, "", ServerReply::Then::hang}));
  TestClient client(store.settings());
  auto running = TestClient::future_of<PutDone>([&](auto done) {
    client.store->put("k", std::make_shared<const Bytes>(2 << 20, 'a'), {"t", nullptr}, std::move(done));
  });
  while (store.server.hanging() < 1) std::this_thread::yield();
  client.store->cancel();
  EXPECT_EQ(running.get().error->failure, Failure::cancelled);
  EXPECT_THAT(store.kinds(), ElementsAre("create", "part 1 of u1"));
}

}  // namespace
}  // namespace queen::s3
