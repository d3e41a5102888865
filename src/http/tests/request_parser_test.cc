#include "http/detail/request_parser.h"

#include <gtest/gtest.h>

namespace queen::http::detail {
namespace {

constexpr ParserLimits kLimits{.body_bytes_max = 1 << 20, .header_bytes_max = 4096};

// Offers `bytes` in pieces of `piece`, as a socket would; gives what was not taken.
std::string feed_all(RequestParser& parser, std::string_view bytes, std::size_t piece) {
  std::string buffer;
  while (!bytes.empty()) {
    const std::size_t next = std::min(piece, bytes.size());
    buffer.append(bytes.substr(0, next));
    bytes.remove_prefix(next);
    buffer.erase(0, parser.feed(buffer));
  }
  return buffer;
}

ParseFailure failure_of(std::string_view bytes, ParserLimits limits = kLimits) {
  RequestParser parser(limits);
  feed_all(parser, bytes, bytes.size());
  EXPECT_EQ(parser.state(), ParseState::failed) << bytes.substr(0, 200);
  return parser.state() == ParseState::failed ? parser.failure() : ParseFailure{0, ""};
}

TEST(RequestParser, SameRequestForEveryCut) {
  const std::string plain =
      "\r\nPOST /a%2Fb/c?x=1&y HTTP/1.1\r\nHost: q\r\nX-Queen-Tenant: t1\r\nContent-Length: 5\r\n\r\nhello";
  const std::string chunked =
      "POST /a%2Fb/c?x=1&y HTTP/1.1\r\nHost: q\r\nx-queen-tenant: t1\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2;ext=1\r\nhe\r\n3\r\nllo\r\n0\r\nX-Queen-Tenant: evil\r\n\r\n";
  for (const std::string& bytes : {plain, chunked}) {
    for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
      RequestParser parser(kLimits);
      EXPECT_EQ(feed_all(parser, bytes + "GET /next", piece), "GET /next");
      ASSERT_EQ(parser.state(), ParseState::done) << piece;
      EXPECT_TRUE(parser.keep_alive());
      const Request request = parser.take();
      EXPECT_EQ(request.method, Method::post);
      EXPECT_EQ(request.path, "/a%2Fb/c");
      EXPECT_EQ(request.query, "x=1&y");
      EXPECT_EQ(request.tenant_header, "t1");
      EXPECT_EQ(request.body, "hello");
      EXPECT_GE(request.body.capacity(), request.body.size() + kBodySpareBytes);
    }
  }
}

TEST(RequestParser, ClaimedLengthAllocatesAtMostOneMiBBeforeBytesCome) {
  RequestParser parser({.body_bytes_max = 1ULL << 40, .header_bytes_max = 4096});
  feed_all(parser, "POST / HTTP/1.1\r\nContent-Length: 1000000000000\r\n\r\n", 100);
  ASSERT_EQ(parser.state(), ParseState::body);
  EXPECT_EQ(parser.body_room().size(), kBodyUnseenBytesMax);
}

TEST(RequestParser, LargeBodyGrowsAndKeepsItsBytes) {
  RequestParser parser({.body_bytes_max = 8 << 20, .header_bytes_max = 4096});
  std::string body(5'000'000, ' ');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i % 23);
  const std::string head = "POST / HTTP/1.1\r\nContent-Length: 5000000\r\n\r\n";
  EXPECT_EQ(feed_all(parser, head + body, 70'000), "");
  ASSERT_EQ(parser.state(), ParseState::done);
  const Request request = parser.take();
  EXPECT_TRUE(request.body == body);
  EXPECT_GE(request.body.capacity(), body.size() + kBodySpareBytes);
}

TEST(RequestParser, RefusesWhatCouldBeReadTwoWays) {
  EXPECT_EQ(failure_of("POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n").status,
            400);
  EXPECT_EQ(failure_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n").status,
            400);
  EXPECT_EQ(failure_of("POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n").status, 400);
  EXPECT_EQ(failure_of("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n").status, 400);
  EXPECT_EQ(failure_of("POST / HTTP/1.1\r\nContent-Length: 1x\r\n\r\n").status, 400);
  EXPECT_EQ(failure_of("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n").status, 400);
  EXPECT_EQ(failure_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").status, 400);
  EXPECT_EQ(failure_of("POST / HTTP/1.1\r\nContent-Length : 3\r\n\r\nabc").status, 400);
}

TEST(RequestParser, RefusesCodingsThatItDoesNotHave) {
  EXPECT_EQ(failure_of("POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n").status, 501);
  EXPECT_EQ(failure_of("POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n").status, 501);
}

TEST(RequestParser, RefusesMalformedHeads) {
  EXPECT_EQ(failure_of("hello\r\n\r\n").status, 400);
  EXPECT_EQ(failure_of("GET /\r\n\r\n").status, 400);
  EXPECT_EQ(failure_of("GET / HTTP/2.0\r\n\r\n").status, 400);
  EXPECT_EQ(failure_of("GET / HTTP/1.1\nHost: q\n\n").status, 400);
  EXPECT_EQ(failure_of("GET / HTTP/1.1\r\nno colon\r\n\r\n").status, 400);
  EXPECT_EQ(failure_of(std::string_view("GET /\0 HTTP/1.1\r\n\r\n", 19)).status, 400);
  EXPECT_EQ(failure_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").status, 400);
}

TEST(RequestParser, HeadLimitCountsAllLinesHoweverTheyCome) {
  std::string head = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 100; ++i) head += "Header-" + std::to_string(i) + ": " + std::string(40, 'v') + "\r\n";
  head += "\r\n";
  ASSERT_GT(head.size(), kLimits.header_bytes_max);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{57}, head.size()}) {
    RequestParser parser(kLimits);
    feed_all(parser, head, piece);
    ASSERT_EQ(parser.state(), ParseState::failed) << piece;
    EXPECT_EQ(parser.failure().status, 431) << piece;
  }
  EXPECT_EQ(failure_of("GET /" + std::string(5000, 'a')).status, 431);
  RequestParser blank(kLimits);
  for (int i = 0; i < 3000; ++i) blank.feed("\r\n");
  EXPECT_EQ(blank.state(), ParseState::failed);
}

TEST(RequestParser, HeadOfExactlyTheLimitPasses) {
  const std::string start = "GET / HTTP/1.1\r\nA: ";
  const std::string head = start + std::string(kLimits.header_bytes_max - start.size() - 4, 'v') + "\r\n\r\n";
  ASSERT_EQ(head.size(), kLimits.header_bytes_max);
  RequestParser parser(kLimits);
  feed_all(parser, head + "POST / ", head.size() + 7);
  EXPECT_EQ(parser.state(), ParseState::done);
}

TEST(RequestParser, BodyLimitHoldsForLengthAndForChunks) {
  const ParserLimits limits{.body_bytes_max = 10, .header_bytes_max = 4096};
  EXPECT_EQ(failure_of("POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n", limits).status, 413);
  EXPECT_EQ(
      failure_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n5\r\n", limits).status,
      413);
  RequestParser parser(limits);
  feed_all(parser, "POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123456789", 7);
  EXPECT_EQ(parser.state(), ParseState::done);
}

TEST(RequestParser, EndlessChunkHeaderIsRefused) {
  RequestParser parser(kLimits);
  feed_all(parser, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(20'000, 'e'),
           1000);
  EXPECT_EQ(parser.state(), ParseState::failed);
}

TEST(RequestParser, AbsoluteFormLosesItsHost) {
  for (const auto& [target, path] : {std::pair{"http://h:1/a?b=1", "/a"}, std::pair{"http://h", "/"},
                                     std::pair{"http://h?b=1", "/"}, std::pair{"/x://y", "/x://y"}}) {
    RequestParser parser(kLimits);
    feed_all(parser, "GET " + std::string(target) + " HTTP/1.1\r\n\r\n", 1000);
    ASSERT_EQ(parser.state(), ParseState::done) << target;
    EXPECT_EQ(parser.take().path, path);
  }
}

TEST(RequestParser, KeepAliveFollowsVersionAndHeader) {
  const auto keeps = [](std::string_view head) {
    RequestParser parser(kLimits);
    feed_all(parser, head, 1000);
    return parser.state() == ParseState::done && parser.keep_alive();
  };
  EXPECT_TRUE(keeps("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.1\r\nConnection: close\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

}  // namespace
}  // namespace queen::http::detail
