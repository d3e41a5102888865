// Timers (api-state.md 3).
#include <array>

#include "api/openapi/route_doc.h"

namespace queen::api {
namespace {

using http::Method;

constexpr std::array kGrowing = {429, 507};
constexpr std::string_view kRefusal = R"({"$ref":"#/components/schemas/TimerRefusal"})";
constexpr AnswerDoc kBad{400, "Refused, with its reason.", kRefusal};
constexpr AnswerDoc kUnavailable{503, "Not completed; a write may still take effect.", kRefusal};

constexpr std::array kTimersAnswers = {
    AnswerDoc{200, "One result for each operation.", R"({"$ref":"#/components/schemas/TimersAnswer"})"}, kBad,
    AnswerDoc{413, "A payload or a name is too large.", kRefusal}, kUnavailable};
constexpr std::array kCancelAnswers = {AnswerDoc{200, "Whether a pending timer was cancelled.",
                                                 R"({"$ref":"#/components/schemas/TimerResult"})"},
                                       kBad, kUnavailable};
constexpr std::array kPeekAnswers = {
    AnswerDoc{200, "The timer, or that none is pending.", R"({"$ref":"#/components/schemas/PendingTimer"})"},
    kBad, kUnavailable};
constexpr std::array kListAnswers = {
    AnswerDoc{200, "A page in the order of the keys, or the count that was asked for.",
              R"({"$ref":"#/components/schemas/TimerPage"})"},
    kBad, kUnavailable};

constexpr std::array kCancelQuery = {
    QueryDoc{"txn", R"({"type":"string"})", "Told in the answer when nothing is pending."}};
constexpr std::array kListQuery = {
    QueryDoc{"after", R"({"type":"string"})", "Key behind which the page begins."},
    QueryDoc{"limit", R"({"type":"string"})", "Timers of a page, 1 to 1000; 100 when it is no number."},
    QueryDoc{"mode", R"({"type":"string","enum":["count"]})", "count: only how many there are."},
    QueryDoc{"prefix", R"({"type":"string","minLength":1,"maxLength":128})",
             "Of the keys that are counted."}};

constexpr std::array kDocs = {
    RouteDoc{Method::post,
             "/api/v1/timers",
             "timers",
             "state",
             "Schedule, reschedule and cancel timers, all or nothing",
             {},
             R"({"$ref":"#/components/schemas/TimersRequest"})",
             true,
             kTimersAnswers,
             kGrowing},
    RouteDoc{Method::get,
             "/api/v1/timers/:queue",
             "listTimers",
             "state",
             "List or count the pending timers of a queue",
             kListQuery,
             {},
             false,
             kListAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/timers/:queue/*timerKey",
             "peekTimer",
             "state",
             "Look at a pending timer",
             {},
             {},
             false,
             kPeekAnswers,
             {}},
    RouteDoc{Method::del,
             "/api/v1/timers/:queue/*timerKey",
             "cancelTimer",
             "state",
             "Cancel a timer",
             kCancelQuery,
             {},
             false,
             kCancelAnswers,
             {}},
};

}  // namespace

std::span<const RouteDoc> timer_docs() {
  return kDocs;
}

}  // namespace queen::api
