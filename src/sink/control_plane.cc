#include "sink/control_plane.h"

#include "sink/detail/json_fields.h"

namespace queen::sink {
namespace {

constexpr std::string_view kKeyPrefix = "#";  // of a cluster id
constexpr std::uint32_t kPage = 1000;

class KvControlPlane final : public ControlPlanePort {
 public:
  KvControlPlane(BrokerPort& proxy, Executor& executor, StandingOf standing)
      : calls_(proxy, executor), standing_(std::move(standing)) {}

  Task<CallOutcome<SinkRowPage>> page(std::string after) override {
    machine::KvOp op;
    op.kind = machine::KvKind::get_prefix;
    op.ns = kSinkRowNamespace;
    op.prefix = kKeyPrefix;
    op.after = std::move(after);
    op.limit = kPage;
    std::vector<machine::KvOp> ops{std::move(op)};
    auto answer = co_await calls_.kv(std::move(ops));
    if (!answer) co_return tl::unexpected(answer.error());
    if (answer->ops.empty())
      co_return tl::unexpected(make_call_error(CallClass::body, 0, "a page without rows"));
    machine::KvOpOutcome& found = answer->ops[0];
    SinkRowPage out;
    for (machine::KvFound& row : found.rows) {
      const std::string cluster_id = row.key.substr(kKeyPrefix.size());
      out.rows.push_back({.key = row.key, .value = std::move(row.value), .standing = standing_(cluster_id)});
    }
    if (found.truncated) out.next = found.next_after;
    co_return out;
  }

 private:
  BrokerCalls calls_;
  StandingOf standing_;
};

}  // namespace

Result<StoredSink> parse_sink_row(std::string_view json) {
  simdjson::dom::parser parser;
  auto document = detail::parse_json(parser, json, "the row of a sink");
  if (!document) return std::move(document).error();
  detail::JsonFields fields("the row of a sink", *document);
  StoredSink out;
  out.cluster_id = fields.text("cluster_id");
  out.tenant = fields.text("broker_tenant");
  if (const auto enabled = fields.raw("enabled"); !enabled || enabled->get(out.enabled) != simdjson::SUCCESS)
    fields.fail("has no field enabled that is a boolean");
  if (const auto config = fields.raw("config"); config && config->is_object()) {
    out.config = simdjson::minify(*config);
  } else {
    fields.fail("has no field config that is an object");
  }
  out.secret_key_sealed = fields.text("secret_key_sealed");
  out.updated_at_us = fields.integer("updated_at_us");
  if (out.tenant.empty() || out.cluster_id.empty()) fields.fail("names no cluster or no tenant");
  if (auto status = fields.status(); !status) return std::move(status).error();
  return out;
}

std::unique_ptr<ControlPlanePort> make_kv_control_plane(BrokerPort& proxy, Executor& executor,
                                                        StandingOf standing) {
  return std::make_unique<KvControlPlane>(proxy, executor, std::move(standing));
}

}  // namespace queen::sink
