#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "base/text.h"
#include "http/server.h"

namespace queen::http {
namespace {

// Handlers are told apart by the status that they would answer; this one only needs to exist.
Handler named(std::string name, std::string& last) {
  return [name = std::move(name), &last](Request, Responder) { last = name; };
}

class RoutesTest : public ::testing::Test {
 protected:
  std::string found(Method method, std::string_view path) {
    last_ = "";
    const Handler* handler = routes_.find(method, path, params_);
    if (handler == nullptr) return "none";
    (*handler)(Request{}, Responder(nullptr));
    return last_;
  }
  void add(Method method, std::string_view pattern) {
    routes_.add(method, pattern, named(std::string(pattern), last_));
  }

  Routes routes_;
  std::string last_;
  std::vector<std::string> params_;
};

TEST_F(RoutesTest, MostLiteralPatternWins) {
  add(Method::get, "/q/:name");
  add(Method::get, "/q/list");
  add(Method::get, "/q/:name/p/:part");
  add(Method::get, "/q/list/p/Default");
  EXPECT_EQ(found(Method::get, "/q/list"), "/q/list");
  EXPECT_EQ(found(Method::get, "/q/lists"), "/q/:name");
  EXPECT_EQ(found(Method::get, "/q/list/p/Default"), "/q/list/p/Default");
  EXPECT_EQ(found(Method::get, "/q/list/p/other"), "/q/:name/p/:part");
  EXPECT_EQ(params_, (std::vector<std::string>{"list", "other"}));
}

TEST_F(RoutesTest, StepsBackWhenLiteralBranchLacksTheMethod) {
  add(Method::post, "/q/list");
  add(Method::get, "/q/:name");
  EXPECT_EQ(found(Method::get, "/q/list"), "/q/:name");
  EXPECT_EQ(params_, (std::vector<std::string>{"list"}));
}

TEST_F(RoutesTest, ParamsAreDecodedAfterTheSplit) {
  add(Method::get, "/q/:name");
  EXPECT_EQ(found(Method::get, "/q/a%2Fb"), "/q/:name");
  EXPECT_EQ(params_.at(0), "a/b");
  found(Method::get, "/q/100%");
  EXPECT_EQ(params_.at(0), "100%");
  found(Method::get, "/q/%zz%4");
  EXPECT_EQ(params_.at(0), "%zz%4");
  found(Method::get, "/q/a+b");
  EXPECT_EQ(params_.at(0), "a+b");
}

TEST_F(RoutesTest, EmptySegmentsCount) {
  add(Method::get, "/q/:name");
  add(Method::get, "/q");
  EXPECT_EQ(found(Method::get, "/q"), "/q");
  EXPECT_EQ(found(Method::get, "/q/"), "/q/:name");
  EXPECT_EQ(params_.at(0), "");
  EXPECT_EQ(found(Method::get, "//q"), "none");
  EXPECT_EQ(found(Method::get, "/q/a/"), "none");
}

TEST_F(RoutesTest, FallbackTakesWhatNothingMatchesAndHasNoParams) {
  add(Method::get, "/q/:name/x");
  routes_.fallback(named("fallback", last_));
  EXPECT_EQ(found(Method::get, "/q/a/y"), "fallback");
  EXPECT_TRUE(params_.empty());
  EXPECT_EQ(found(Method::other, "/q/a/x"), "fallback");
  EXPECT_EQ(found(Method::get, "*"), "fallback");
}

TEST_F(RoutesTest, CatchAllTakesTheRestOfThePathDecodedAsAWhole) {
  add(Method::get, "/t/:queue/*key");
  EXPECT_EQ(found(Method::get, "/t/q/a"), "/t/:queue/*key");
  EXPECT_EQ(params_, (std::vector<std::string>{"q", "a"}));
  found(Method::get, "/t/q/a/b/c");
  EXPECT_EQ(params_, (std::vector<std::string>{"q", "a/b/c"}));
  found(Method::get, "/t/a%2Fb/in%2Fv/%3A+//x%");
  EXPECT_EQ(params_, (std::vector<std::string>{"a/b", "in/v/:+//x%"}));
  found(Method::get, "/t/q/a/");
  EXPECT_EQ(params_.at(1), "a/");
  // The handler judges an empty name, but without its slash there is none.
  found(Method::get, "/t/q/");
  EXPECT_EQ(params_.at(1), "");
  EXPECT_EQ(found(Method::get, "/t/q"), "none");
  EXPECT_EQ(found(Method::del, "/t/q/a"), "none");
}

TEST_F(RoutesTest, CatchAllComesAfterLiteralsAndNames) {
  add(Method::get, "/t/:queue/*key");
  add(Method::get, "/t/:queue");
  add(Method::get, "/t/:queue/count");
  add(Method::del, "/t/:queue/:key/x");
  EXPECT_EQ(found(Method::get, "/t/q"), "/t/:queue");
  EXPECT_EQ(found(Method::get, "/t/q/count"), "/t/:queue/count");
  EXPECT_EQ(found(Method::get, "/t/q/count/x"), "/t/:queue/*key");
  EXPECT_EQ(params_, (std::vector<std::string>{"q", "count/x"}));
  EXPECT_EQ(found(Method::del, "/t/q/a/x"), "/t/:queue/:key/x");
  EXPECT_EQ(found(Method::get, "/t/q/a/x"), "/t/:queue/*key");
  EXPECT_EQ(params_, (std::vector<std::string>{"q", "a/x"}));
}

TEST(Query, FirstValueWinsDecoded) {
  Request request;
  request.query = "a=1&b=x+y%2B&a=2&flag&empty=&%63=enc&&bad=%4";
  EXPECT_EQ(request.query_value("a"), "1");
  EXPECT_EQ(request.query_value("b"), "x y+");
  EXPECT_EQ(request.query_value("flag"), "");
  EXPECT_EQ(request.query_value("empty"), "");
  EXPECT_EQ(request.query_value("c"), "enc");
  EXPECT_EQ(request.query_value("bad"), "%4");
  EXPECT_EQ(request.query_value("none"), std::nullopt);
  EXPECT_EQ(request.query_value(""), std::nullopt);
}

RC_GTEST_PROP(Query, EncodedValuesComeBack, (const std::string& first, const std::string& second)) {
  Request request;
  request.query = "first=" + percent_encode_name(first) + "&second=" + percent_encode_name(second);
  RC_ASSERT(request.query_value("first") == first);
  RC_ASSERT(request.query_value("second") == second);
}

RC_GTEST_FIXTURE_PROP(RoutesTest, EncodedSegmentsComeBack, (const std::string& name)) {
  Routes routes;
  std::string last;
  std::vector<std::string> params;
  routes.add(Method::get, "/q/:name/end", named("hit", last));
  RC_ASSERT(routes.find(Method::get, "/q/" + percent_encode_name(name) + "/end", params) != nullptr);
  RC_ASSERT(params == std::vector<std::string>{name});
}

RC_GTEST_FIXTURE_PROP(RoutesTest, EncodedCatchAllsComeBack,
                      (const std::string& name, const std::string& left, const std::string& right)) {
  Routes routes;
  std::string last;
  std::vector<std::string> params;
  routes.add(Method::get, "/q/:name/*key", named("hit", last));
  const std::string path =
      "/q/" + percent_encode_name(name) + "/" + percent_encode_name(left) + "/" + percent_encode_name(right);
  RC_ASSERT(routes.find(Method::get, path, params) != nullptr);
  RC_ASSERT((params == std::vector<std::string>{name, left + "/" + right}));
}

}  // namespace
}  // namespace queen::http
