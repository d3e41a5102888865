#include "sink/broker_adapter.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <utility>

namespace queen::sink {
namespace {

struct CodeStatus {
  std::string_view code;
  int status;
};
// Codes that a repeat may get past, or that have a status of their own; every other code is 400.
constexpr std::array<CodeStatus, 10> kStatuses = {{{"retry", 503},
                                                   {"no_leader", 503},
                                                   {"timeout", 503},
                                                   {"outcome_unknown", 503},
                                                   {"standby", 503},
                                                   {"raft_phase1_unsupported", 503},
                                                   {"overloaded", 429},
                                                   {"internal", 500},
                                                   {"storage_full", 507},
                                                   {"name_too_long", 413}}};
constexpr std::size_t kBodyCharactersMax = 2000;

using Buffer = std::shared_ptr<const Bytes>;

// Finds the buffers that views point into. Messages come in the order of their buffers, so the search goes on
// where the last one ended: from the front each time it would cost the square of the answer.
class BufferFinder {
 public:
  explicit BufferFinder(const std::vector<Buffer>& buffers) : buffers_(buffers) {}

  const Buffer* find(std::string_view view) {
    for (std::size_t step = 0; step < buffers_.size(); ++step) {
      const std::size_t at = (last_ + step) % buffers_.size();
      if (!holds(buffers_[at], view)) continue;
      last_ = at;
      return &buffers_[at];
    }
    return nullptr;
  }

 private:
  static bool holds(const Buffer& buffer, std::string_view view) {
    const std::less_equal<> not_above;
    if (!buffer) return false;
    const char* const begin = buffer->data();
    return not_above(begin, view.data()) && not_above(view.data() + view.size(), begin + buffer->size());
  }

  const std::vector<Buffer>& buffers_;
  std::size_t last_ = 0;
};

// Copies both texts, for a message whose views no buffer of the answer holds.
void own_texts(FetchedRecord& record) {
  auto copy = std::make_shared<std::string>(record.transaction_id);
  const std::size_t id_size = copy->size();
  copy->append(record.payload);
  record.transaction_id = std::string_view(*copy).substr(0, id_size);
  record.payload = std::string_view(*copy).substr(id_size);
  record.owner = std::shared_ptr<const void>(std::move(copy));
}

FetchedRecord record_of(const broker::Message& message, BufferFinder& ids, BufferFinder& payloads) {
  FetchedRecord out;
  out.offset = message.offset;
  out.ts = message.ts_us;
  out.transaction_id = message.transaction_id;
  if (message.null_payload) {
    out.payload_kind = lake::Payload::null;
  } else {
    out.payload = message.payload;
    out.payload_kind = message.encrypted ? lake::Payload::raw_bytes : lake::Payload::json;
  }
  const Buffer* id = ids.find(out.transaction_id);
  const Buffer* payload = out.payload.empty() ? id : payloads.find(out.payload);
  if (id == nullptr || payload == nullptr) {
    own_texts(out);
  } else if (*id == *payload) {
    out.owner = *id;
  } else {
    out.owner = std::make_shared<const std::pair<Buffer, Buffer>>(*id, *payload);
  }
  return out;
}

// What a call needs on the broker's thread. Shared with the calls, because the port may go before the last of
// them runs.
class Caller {
 public:
  Caller(broker::Broker& broker, std::string tenant) : broker_(broker), tenant_(std::move(tenant)) {}

  CallOutcome<FetchAnswer> fetch_now(const std::string& queue, const std::vector<FetchRequest>& requests) {
    std::vector<broker::FetchEntry> entries;
    for (const FetchRequest& request : requests)
      entries.push_back({.queue = queue,
                         .partition = request.partition,
                         .offset = request.offset,
                         .bytes_max = request.bytes_max});
    auto answer = broker_.fetch(tenant_, entries);
    if (!answer) return tl::unexpected(call_error_of(answer.error()));
    FetchAnswer out;
    for (const broker::FetchEntryAnswer& entry : *answer)
      out.entries.push_back({.error = entry.error,
                             .records = whole_appends(records_of(entry.messages), entry.high_watermark),
                             .high_watermark = entry.high_watermark,
                             .log_start = entry.log_start});
    return out;
  }

  CallOutcome<ChangedPage> changed_now(const std::string& queue, const ChangedRequest& request) {
    const std::array<broker::ChangedEntry, 1> entries = {
        {{.queue = queue, .since_us = request.since_us, .after = request.after, .limit = request.limit}}};
    broker::ChangedAnswer answer = broker_.changed(tenant_, entries);
    if (answer.entries.size() != 1)
      return tl::unexpected(make_call_error(CallClass::body, 0, "an answer without its entry"));
    broker::ChangedEntryAnswer& entry = answer.entries[0];
    ChangedPage page;
    page.error = std::move(entry.error);
    page.safe_time = answer.safe_time_us;
    page.next = std::move(entry.next);
    for (broker::ChangedPartition& partition : entry.partitions)
      page.partitions.push_back({.name = std::move(partition.name),
                                 .id = partition.id,
                                 .last_offset = partition.last_offset,
                                 .log_start = partition.log_start,
                                 .last_write_at = partition.last_write_at});
    return page;
  }

  void kv(machine::Command command, CallDone<machine::KvOutcome> done) {
    auto answered = [done = std::move(done)](broker::Answer<machine::Outcome> answer) mutable {
      done(kv_outcome(std::move(answer)));
    };
    broker_.submit(std::move(command), std::move(answered));
  }

  std::vector<std::string> queues() {
    std::vector<std::string> names;
    for (const auto& queue : broker_.queues(tenant_, broker::QueueDetail::names).queues) {
      if (!queue.name.empty()) names.push_back(queue.name);
    }
    return names;
  }

  broker::Broker& broker() { return broker_; }
  const std::string& tenant() const { return tenant_; }

 private:
  static CallOutcome<machine::KvOutcome> kv_outcome(broker::Answer<machine::Outcome> answer) {
    if (!answer) return tl::unexpected(call_error_of(answer.error()));
    if (!answer->code.empty())
      return tl::unexpected(call_error_of({.code = answer->code, .error = answer->error}));
    auto* outcome = std::get_if<machine::KvOutcome>(&answer->body);
    if (outcome == nullptr)
      return tl::unexpected(make_call_error(CallClass::body, 0, "an answer of another kind"));
    return std::move(*outcome);
  }

  broker::Broker& broker_;
  std::string tenant_;
};

class BrokerAdapter final : public BrokerPort {
 public:
  BrokerAdapter(broker::Broker& broker, std::string tenant, Clock& clock, Random& random)
      : caller_(std::make_shared<Caller>(broker, std::move(tenant))), clock_(clock), random_(random) {}

  void fetch(std::string queue, std::vector<FetchRequest> requests, CallDone<FetchAnswer> done) override {
    auto work = [caller = caller_, queue = std::move(queue), requests = std::move(requests),
                 done = std::move(done)]() mutable { done(caller->fetch_now(queue, requests)); };
    caller_->broker().run(std::move(work));
  }

  void changed(std::string queue, ChangedRequest request, CallDone<ChangedPage> done) override {
    auto work = [caller = caller_, queue = std::move(queue), request = std::move(request),
                 done = std::move(done)]() mutable { done(caller->changed_now(queue, request)); };
    caller_->broker().run(std::move(work));
  }

  void kv(std::vector<machine::KvOp> ops, CallDone<machine::KvOutcome> done) override {
    machine::Command command;
    command.tenant = caller_->tenant();
    command.request_id = make_uuid_v7(clock_.wall_us(), random_);
    command.body = machine::KvCommand{.ops = std::move(ops)};
    auto work = [caller = caller_, command = std::move(command), done = std::move(done)]() mutable {
      caller->kv(std::move(command), std::move(done));
    };
    caller_->broker().run(std::move(work));
  }

  void list_queues(CallDone<std::vector<std::string>> done) override {
    auto work = [caller = caller_, done = std::move(done)]() mutable { done(caller->queues()); };
    caller_->broker().run(std::move(work));
  }

 private:
  std::shared_ptr<Caller> caller_;
  Clock& clock_;
  Random& random_;
};

}  // namespace

CallError call_error_of(const broker::Refusal& refusal) {
  const auto* known = std::find_if(kStatuses.begin(), kStatuses.end(),
                                   [&](const CodeStatus& one) { return one.code == refusal.code; });
  const int status = known == kStatuses.end() ? 400 : known->status;
  std::string text = refusal.code + ": " + refusal.error;
  if (text.size() > kBodyCharactersMax) text.resize(kBodyCharactersMax);
  return make_call_error(CallClass::status, status, std::move(text));
}

std::vector<FetchedRecord> records_of(const broker::Messages& messages) {
  std::vector<FetchedRecord> out;
  out.reserve(messages.messages.size());
  // Two, because an inflated or opened payload lies in another buffer than its id.
  BufferFinder ids(messages.buffers);
  BufferFinder payloads(messages.buffers);
  for (const broker::Message& message : messages.messages) out.push_back(record_of(message, ids, payloads));
  return out;
}

std::vector<FetchedRecord> whole_appends(std::vector<FetchedRecord> records, std::uint64_t high_watermark) {
  if (records.empty() || records.back().offset + 1 >= high_watermark) return records;
  const std::int64_t last = records.back().ts;
  if (records.front().ts == last) return records;
  while (records.back().ts == last) records.pop_back();
  return records;
}

std::unique_ptr<BrokerPort> make_broker_port(broker::Broker& broker, std::string tenant, Clock& clock,
                                             Random& random) {
  return std::make_unique<BrokerAdapter>(broker, std::move(tenant), clock, random);
}

}  // namespace queen::sink
