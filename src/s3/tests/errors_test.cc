// Classes, sentences and waits (s3-sink.md 3.3, 17.5; HD-4, HD-6, HD-8).
#include "s3/detail/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "s3/detail/retry.h"

namespace queen::s3 {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const ClientSettings& settings() {
  static const ClientSettings made = [] {
    ClientSettings s;
    s.endpoint = "https://s3.example";
    s.region = "eu-1";
    s.bucket = "bkt";
    return s;
  }();
  return made;
}

S3Error error_for(int status, std::string_view code, std::string_view more = "",
                  Operation operation = Operation::put,
                  std::vector<NamedValue> headers = {{"x-amz-request-id", "REQ7"}}) {
  HttpAnswer answer;
  answer.status = status;
  answer.headers = std::move(headers);
  if (!code.empty())
    answer.body = "<Error><Code>" + std::string(code) + "</Code><Message>said\n&lt;so&gt;</Message>" +
                  std::string(more) + "</Error>";
  return error_of({settings(), operation, operation == Operation::list ? "" : "a/k", 1'794'042'290'000'000},
                  answer);
}

TEST(Errors, CodesThatAreRetriableWhateverTheStatus) {
  for (const char* code :
       {"RequestTimeout", "InternalError", "SlowDown", "ServiceUnavailable", "OperationAborted", "BadDigest",
        "IncompleteBody", "XAmzContentSHA256Mismatch", "RequestTimeTooSkewed"})
    EXPECT_TRUE(error_for(400, code).retriable) << code;
}

TEST(Errors, OtherwiseTheStatusDecides) {
  for (const int status : {408, 429, 500, 503, 599}) EXPECT_TRUE(error_for(status, "").retriable) << status;
  for (const int status : {301, 307, 400, 401, 403, 404, 405, 409, 412, 499})
    EXPECT_FALSE(error_for(status, "").retriable) << status;
}

// HD-6
TEST(Errors, AStoreThatAsksToSlowDownIsThrottled) {
  for (const S3Error& error :
       {error_for(503, "SlowDown"), error_for(503, ""), error_for(429, ""), error_for(400, "SlowDown")}) {
    EXPECT_TRUE(error.throttled);
    EXPECT_TRUE(error.retriable);
    EXPECT_THAT(error.sentence, HasSubstr("throttled"));
  }
  EXPECT_FALSE(error_for(500, "InternalError").throttled);
}

TEST(Errors, ASentenceNamesOperationStatusCodeMessageAndRequest) {
  EXPECT_EQ(error_for(500, "InternalError").sentence,
            "put of a/k in bucket bkt at https://s3.example: status 500 InternalError (said <so>), request "
            "id REQ7");
}

TEST(Errors, AdviceNamesWhatToChange) {
  EXPECT_THAT(error_for(403, "AccessDenied").sentence, HasSubstr("s3:PutObject"));
  EXPECT_THAT(error_for(403, "AccessDenied", "", Operation::list).sentence, HasSubstr("s3:ListBucket"));
  EXPECT_THAT(error_for(403, "", "", Operation::head).sentence,
              AllOf(HasSubstr("s3:GetObject"), HasSubstr("its secret or the clock")));
  EXPECT_THAT(error_for(403, "InvalidAccessKeyId").sentence, HasSubstr("QUEEN_S3_ACCESS_KEY"));
  EXPECT_THAT(error_for(403, "SignatureDoesNotMatch").sentence, HasSubstr("QUEEN_S3_SECRET_KEY"));
  EXPECT_THAT(error_for(400, "ExpiredToken").sentence, HasSubstr("expired"));
  EXPECT_THAT(error_for(404, "NoSuchBucket").sentence,
              AllOf(HasSubstr("QUEEN_S3_BUCKET=bkt"), HasSubstr("QUEEN_S3_PATH_STYLE=false")));
  EXPECT_THAT(error_for(400, "AuthorizationHeaderMalformed", "<Region>eu-9</Region>").sentence,
              AllOf(HasSubstr("QUEEN_S3_REGION=eu-1"), HasSubstr("eu-9")));
  EXPECT_THAT(error_for(301, "PermanentRedirect", "<Endpoint>b.other</Endpoint>").sentence,
              HasSubstr("b.other"));
  EXPECT_THAT(error_for(405, "MethodNotAllowed").sentence, HasSubstr("QUEEN_S3_PATH_STYLE"));
  EXPECT_THAT(error_for(400, "KMS.NotFoundException").sentence, HasSubstr("QUEEN_S3_SSE_KMS_KEY_ID"));
  EXPECT_THAT(error_for(503, "SlowDown").sentence, HasSubstr("slow down"));
}

TEST(Errors, ASkewedClockNamesBothTimes) {
  EXPECT_THAT(
      error_for(403, "RequestTimeTooSkewed", "<ServerTime>2026-11-07T12:00:00Z</ServerTime>").sentence,
      AllOf(HasSubstr("2026-11-07T09:04:50.000000Z"), HasSubstr("2026-11-07T12:00:00Z")));
  EXPECT_THAT(
      error_for(403, "RequestTimeTooSkewed", "", Operation::put, {{"date", "Sat, 07 Nov 2026 12:00:00 GMT"}})
          .sentence,
      HasSubstr("Sat, 07 Nov 2026 12:00:00 GMT"));
}

TEST(Errors, TransportFailuresNameTheirKind) {
  const auto sentence = [](Breakage breakage) {
    HttpAnswer answer;
    answer.breakage = breakage;
    answer.breakage_text = "why";
    const S3Error error = error_of({settings(), Operation::get, "k", 0}, answer);
    EXPECT_EQ(error.failure, Failure::transport);
    EXPECT_TRUE(error.retriable);
    return error.sentence;
  };
  EXPECT_THAT(sentence(Breakage::tls), AllOf(HasSubstr("TLS failure: why"), HasSubstr("SSL_CERT_FILE")));
  EXPECT_THAT(sentence(Breakage::resolve), HasSubstr("QUEEN_S3_PATH_STYLE=false"));
  EXPECT_THAT(sentence(Breakage::connect), HasSubstr("HTTPS_PROXY"));
  EXPECT_THAT(sentence(Breakage::stalled), HasSubstr("no byte passed"));
}

TEST(Errors, AHostileMessageIsOneShortLine) {
  const S3Error error = error_for(400, "X", "");
  HttpAnswer answer;
  answer.status = 400;
  answer.body = "<Code>\x01\xFF" + std::string(10'000, 'y') + "</Code><Message>a&#10;b\r\n\x7F</Message>";
  const std::string sentence = error_of({settings(), Operation::get, "k", 0}, answer).sentence;
  EXPECT_LT(sentence.size(), 1'000U);
  EXPECT_EQ(sentence.find_first_of("\r\n\x01\x7F"), std::string::npos);
}

TEST(RetryAfter, OnlyWholeSecondsCount) {
  EXPECT_EQ(parse_retry_after_us("7"), 7'000'000);
  EXPECT_EQ(parse_retry_after_us("0"), 0);
  EXPECT_EQ(parse_retry_after_us("999999999"), 86'400'000'000);
  for (const char* bad :
       {"", "-1", "1.5", "7s", " 7", "Wed, 21 Oct 2026 07:28:00 GMT", "99999999999999999999999"})
    EXPECT_EQ(parse_retry_after_us(bad), std::nullopt) << bad;
}

constexpr std::int64_t kSecond = 1'000'000;

RC_GTEST_PROP(RetryWait, StaysBetweenOneSecondAndItsStep, (std::uint64_t seed)) {
  SeededRandom random(seed);
  for (int attempt = 1; attempt <= 70; ++attempt) {
    const std::int64_t step =
        attempt > 6 ? 60 * kSecond : std::min<std::int64_t>(kSecond << (attempt - 1), 60 * kSecond);
    const std::int64_t wait = retry_wait_us(attempt, kSecond, std::nullopt, random);
    RC_ASSERT(wait >= std::max(step / 10, kSecond));
    RC_ASSERT(wait <= step);
  }
}

TEST(RetryWait, SpreadsOverItsRange) {
  SeededRandom random(1);
  std::int64_t low = 60 * kSecond;
  std::int64_t high = 0;
  for (int i = 0; i < 1'000; ++i) {
    const std::int64_t wait = retry_wait_us(5, kSecond, std::nullopt, random);
    low = std::min(low, wait);
    high = std::max(high, wait);
  }
  EXPECT_LT(low, 2 * kSecond);
  EXPECT_GT(high, 15 * kSecond);
}

TEST(RetryWait, RetryAfterIsAFloorAndCapped) {
  SeededRandom random(1);
  EXPECT_EQ(retry_wait_us(1, kSecond, 30 * kSecond, random), 30 * kSecond);
  EXPECT_EQ(retry_wait_us(1, kSecond, 3'600 * kSecond, random), 60 * kSecond);
  EXPECT_EQ(retry_wait_us(1, kSecond, 0, random), kSecond);
}

}  // namespace
}  // namespace queen::s3
