#include "s3/sigv4.h"

#include <gtest/gtest.h>

#include "s3/digests.h"

namespace queen::s3 {
namespace {

const SigningKey kKey{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1"};
constexpr std::int64_t kInstant = 1'369'353'600'000'000;  // 20130524T000000Z
constexpr char kEmptySha[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kHost[] = "examplebucket.s3.amazonaws.com";

std::string signature(const SignedText& text) {
  return text.authorization.substr(text.authorization.find("Signature=") + 10);
}

// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
TEST(SigV4, SignsTheGetExampleOfAws) {
  const SignedText text = sign({"GET",
                                "/test.txt",
                                "",
                                {{"Host", kHost},
                                 {"Range", "bytes=0-9"},
                                 {"x-amz-content-sha256", kEmptySha},
                                 {"x-amz-date", "20130524T000000Z"}},
                                kEmptySha},
                               kKey, kInstant);
  EXPECT_EQ(signature(text), "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(text.authorization.substr(0, text.authorization.find(", Signature")),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date");
}

TEST(SigV4, SignsThePutExampleOfAws) {
  const std::string sha = sha256_hex("Welcome to Amazon S3.");
  const std::string path = encode_path("/test$file.text");
  EXPECT_EQ(path, "/test%24file.text");
  const SignedText text = sign({"PUT",
                                path,
                                "",
                                {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                                 {"Host", kHost},
                                 {"x-amz-date", "20130524T000000Z"},
                                 {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
                                 {"x-amz-content-sha256", sha}},
                                sha},
                               kKey, kInstant);
  EXPECT_EQ(signature(text), "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

// Two more vectors of the same page, with a query.
TEST(SigV4, SignsTheQueryExamplesOfAws) {
  const std::vector<NamedValue> headers = {
      {"Host", kHost}, {"x-amz-content-sha256", kEmptySha}, {"x-amz-date", "20130524T000000Z"}};
  EXPECT_EQ(
      signature(sign({"GET", "/", canonical_query({{"lifecycle", ""}}), headers, kEmptySha}, kKey, kInstant)),
      "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(
      signature(sign({"GET", "/", canonical_query({{"max-keys", "2"}, {"prefix", "J"}}), headers, kEmptySha},
                     kKey, kInstant)),
      "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(SigV4, CanonicalHeadersAreLowerSortedTrimmedCollapsedJoined) {
  const SignedText text =
      sign({"GET", "/", "", {{"X-B", "  a \t  b  "}, {"Host", "h"}, {"x-b", "c"}, {"X-A", ""}}, "hash"}, kKey,
           kInstant);
  EXPECT_EQ(text.canonical_request, "GET\n/\n\nhost:h\nx-a:\nx-b:a b,c\n\nhost;x-a;x-b\nhash");
  EXPECT_EQ(text.string_to_sign, "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n" +
                                     sha256_hex(text.canonical_request));
}

TEST(EncodePath, EncodesOnceAndNormalisesNothing) {
  EXPECT_EQ(encode_path("/queen/queue=a/w-1"), "/queen/queue%3Da/w-1");
  EXPECT_EQ(encode_path("/a%2Fb"), "/a%252Fb");
  EXPECT_EQ(encode_path("//a/../b/./~_-.0Zz"), "//a/../b/./~_-.0Zz");
  EXPECT_EQ(encode_path("/caff\xC3\xA8 +&?#"), "/caff%C3%A8%20%2B%26%3F%23");
}

TEST(CanonicalQuery, SortsEncodedNamesThenValuesAndEncodesSlashes) {
  EXPECT_EQ(canonical_query({{"uploads", ""}}), "uploads=");
  EXPECT_EQ(canonical_query({{"prefix", "a/b c"}, {"list-type", "2"}, {"b", "2"}, {"b", "1"}}),
            "b=1&b=2&list-type=2&prefix=a%2Fb%20c");
  EXPECT_EQ(canonical_query({}), "");
}

TEST(Digests, MatchPublishedVectors) {
  EXPECT_EQ(sha256_hex(""), kEmptySha);
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(md5_raw("").size(), 16U);
  EXPECT_EQ(hmac_sha256("key", "The quick brown fox jumps over the lazy dog").substr(0, 4),
            "\xf7\xbc\x83\xf4");
}

}  // namespace
}  // namespace queen::s3
