// Switches, grants and limits: what an operator sets (operations.md 8).
#include <array>

#include "api/openapi/route_doc.h"

namespace queen::api {
namespace {

using http::Method;

constexpr std::string_view kQuotaBody = R"({"$ref":"#/components/schemas/QuotaRequest"})";
constexpr std::array kKvTimersAnswers = {
    AnswerDoc{200, "The switches, and how fresh the counts of limited tenants are.",
              R"({"$ref":"#/components/schemas/KvTimersAnswer"})"}};
constexpr std::array kEphemeralAnswers = {
    AnswerDoc{200, "The switch.", R"({"$ref":"#/components/schemas/EphemeralSwitchAnswer"})"}};
constexpr std::array kQuotaAnswers = {
    AnswerDoc{200, "The grant and the limits as stored.", R"({"$ref":"#/components/schemas/QuotaAnswer"})"}};

constexpr std::array kDocs = {
    RouteDoc{Method::get,
             "/api/v1/system/kv-timers",
             "getKvTimersSwitches",
             "system",
             "Show the switches of KV and timers",
             {},
             "",
             false,
             kKvTimersAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/system/kv-timers",
             "setKvTimersSwitches",
             "system",
             "Pause or resume KV and timers",
             {},
             R"({"$ref":"#/components/schemas/KvTimersSwitches"})",
             true,
             kKvTimersAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/system/ephemeral",
             "getEphemeralSwitch",
             "system",
             "Show the switch of in-memory queues",
             {},
             "",
             false,
             kEphemeralAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/system/ephemeral",
             "setEphemeralSwitch",
             "system",
             "Pause or resume in-memory queues",
             {},
             R"({"$ref":"#/components/schemas/EphemeralSwitch"})",
             true,
             kEphemeralAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/system/quota",
             "setQuota",
             "system",
             "Set a grant and limits of a tenant",
             {},
             kQuotaBody,
             true,
             kQuotaAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/system/quotas",
             "setQuotas",
             "system",
             "Set a grant and limits of a tenant",
             {},
             kQuotaBody,
             true,
             kQuotaAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/resources/quota",
             "setResourceQuota",
             "system",
             "Set a grant and limits of a tenant",
             {},
             kQuotaBody,
             true,
             kQuotaAnswers,
             {}},
};

}  // namespace

std::span<const RouteDoc> operator_docs() {
  return kDocs;
}

}  // namespace queen::api
