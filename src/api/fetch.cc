// Fetch: body to entries (parse), records to the answer (render), and the wait in between.
#include "api/detail/fetch.h"

#include <algorithm>

#include "api/detail/json_check.h"
#include "api/detail/message_json.h"
#include "api/detail/names.h"
#include "api/detail/read_entries.h"
#include "api/json_writer.h"

namespace queen::api {
namespace {

constexpr std::int64_t kEntryBytesMax = 8 << 20;
constexpr std::int64_t kEntryBytesDefault = 1 << 20;
constexpr std::int64_t kWaitMsMax = 30'000;

// An integer field with a default; nothing when it holds something else.
std::optional<std::int64_t> integer_or(const JsonFields& fields, std::string_view name,
                                       std::int64_t fallback) {
  const JsonValue* value = fields.find_set(name);
  return value == nullptr ? fallback : integer_of(*value);
}

std::optional<broker::Refusal> read_entry(const JsonFields& fields, broker::FetchEntry& entry) {
  auto partition = partition_of(fields);
  if (!partition) return bad_body("partition must be a string or a number");
  entry.partition = *std::move(partition);
  const JsonValue* offset = fields.find("offset");
  const auto from = offset != nullptr ? integer_of(*offset) : std::nullopt;
  if (!from) return bad_body("offset must be an integer");
  if (*from < 0) return bad_body("offset must be non-negative");
  entry.offset = static_cast<std::uint64_t>(*from);
  const auto bytes = integer_or(fields, "maxBytes", kEntryBytesDefault);
  if (!bytes) return bad_body("maxBytes must be an integer");
  entry.bytes_max = static_cast<std::uint64_t>(std::clamp<std::int64_t>(*bytes, 1, kEntryBytesMax));
  return std::nullopt;
}

std::uint64_t payload_bytes(const broker::FetchEntryAnswer& answer) {
  std::uint64_t bytes = 0;
  for (const broker::Message& message : answer.messages.messages)
    bytes += std::max<std::size_t>(message.payload.size(), 1);
  return bytes;
}

void write_entry(std::string& text, JsonWriter& out, const broker::FetchEntry& entry,
                 const broker::FetchEntryAnswer& answer) {
  out.open('{').name("queue").text(entry.queue).name("partition").text(entry.partition);
  if (!answer.error.empty()) out.name("error").text(answer.error);
  out.name("records").open('[');
  for (const broker::Message& message : answer.messages.messages) {
    out.open('{').name("offset").number(message.offset).name("transactionId").text(message.transaction_id);
    out.name("payload").raw("");
    append_copied_payload(text, message);
    out.name("ts").instant(message.ts_us).close('}');
  }
  out.close(']').name("highWatermark").number(answer.high_watermark);
  out.name("logStartOffset").number(answer.log_start).close('}');
}

// A fetch on its way: read, and if that is not enough, wait for an append and read again. `wake` comes on an
// engine thread and the deadline on the timers' thread; both only ask for a read on one of the broker's own
// threads.
class FetchJob : public std::enable_shared_from_this<FetchJob> {
 public:
  FetchJob(SharedContext context, Inbound inbound, FetchRequest request)
      : context_(std::move(context)),
        tenant_(std::move(inbound.tenant)),
        request_(std::move(request)),
        pending_(context_->deadlines, std::move(inbound.reply)) {}

  void start() {
    if (request_.wait_ms == 0 || request_.bytes_min == 0) return read(Last::yes);
    pending_.on_disconnect([self = shared_from_this()] { self->give_up(); });
    pending_.set_deadline(
        context_->deadlines.now_us() + request_.wait_ms * 1000,
        [self = shared_from_this()] { self->context_->broker.run([self] { self->read(Last::yes); }); });
    read(Last::no);
  }

 private:
  enum class Last : bool { no, yes };

  void read(Last last) {
    // The wait begins before the read: an append between the two must not be missed.
    if (last == Last::no) begin_wait();
    auto answers = read_entries(context_->broker, tenant_, request_, context_->settings.fetch_bytes_max);
    // Asked after the wait began: whoever releases either sees the wait or is seen here.
    const bool waits = last == Last::no && !context_->broker.released_parked();
    if (answers && waits && !fetch_satisfied(request_, *answers)) return;
    if (!pending_.claim()) return;
    end_wait();
    pending_.send(answers ? json_response(200, render_fetch(request_, *answers))
                          : refusal_response(answers.error()));
  }

  void begin_wait() {
    std::vector<std::string> queues;
    for (const broker::FetchEntry& entry : request_.entries) queues.push_back(entry.queue);
    std::sort(queues.begin(), queues.end());
    queues.erase(std::unique(queues.begin(), queues.end()), queues.end());
    // Under the mutex, so that a wake-up that comes at once finds this wait stored before it begins the next
    // one.
    const std::lock_guard lock(mutex_);
    if (over_) return;
    wait_ = context_->broker.on_append(tenant_, std::move(queues), [self = shared_from_this()] {
      self->context_->broker.run([self] { self->read_again(); });
    });
  }

  void read_again() {
    {
      const std::lock_guard lock(mutex_);
      if (over_) return;
    }
    read(Last::no);
  }

  void end_wait() {
    std::optional<broker::Broker::WaitId> wait;
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      wait = std::exchange(wait_, std::nullopt);
    }
    if (wait) context_->broker.cancel_wait(*wait);
  }

  void give_up() {
    if (!pending_.claim()) return;
    end_wait();
    pending_.send(
        json_response(200, R"({"entries":[]})"));  // to nobody: frees the deadline and the connection
  }

  SharedContext context_;
  std::string tenant_;
  FetchRequest request_;
  Pending pending_;
  std::mutex mutex_;  // guards what follows
  std::optional<broker::Broker::WaitId> wait_;
  bool over_ = false;
};

}  // namespace

std::optional<std::string> partition_of(const JsonFields& fields) {
  const JsonValue* value = fields.find_set("partition");
  if (value == nullptr) return std::string(kDefaultPartition);
  if (value->kind == JsonKind::number) return std::string(value->text);
  auto name = string_of(*value);
  if (name && name->empty()) name = kDefaultPartition;
  return name;
}

broker::Answer<FetchRequest> parse_fetch(std::string_view body) {
  const auto top = body_fields(body);
  if (!top) return tl::unexpected(top.error());
  FetchRequest out;
  const auto wait = integer_or(*top, "maxWaitMs", 0);
  if (!wait) return tl::unexpected(bad_body("maxWaitMs must be an integer"));
  out.wait_ms = std::clamp<std::int64_t>(*wait, 0, kWaitMsMax);
  const auto bytes = integer_or(*top, "minBytes", 1);
  if (!bytes) return tl::unexpected(bad_body("minBytes must be an integer"));
  out.bytes_min = std::max<std::int64_t>(*bytes, 0);
  auto entries = read_entries_of<broker::FetchEntry>(*top, read_entry);
  if (!entries) return tl::unexpected(entries.error());
  out.entries = *std::move(entries);
  return out;
}

bool fetch_satisfied(const FetchRequest& request, const std::vector<broker::FetchEntryAnswer>& answers) {
  std::uint64_t bytes = 0;
  for (const broker::FetchEntryAnswer& answer : answers) {
    if (!answer.error.empty()) return true;
    bytes += payload_bytes(answer);
  }
  return bytes >= static_cast<std::uint64_t>(request.bytes_min);
}

std::string render_fetch(const FetchRequest& request, const std::vector<broker::FetchEntryAnswer>& answers) {
  std::string text;
  std::size_t bytes = 64;
  for (const broker::FetchEntryAnswer& answer : answers)
    bytes += payload_bytes(answer) + 160 + 140 * answer.messages.messages.size();
  text.reserve(bytes);
  JsonWriter out(text);
  out.open('{').name("entries").open('[');
  for (std::size_t i = 0; i < answers.size(); ++i) write_entry(text, out, request.entries[i], answers[i]);
  out.close(']').close('}');
  return text;
}

broker::Answer<std::vector<broker::FetchEntryAnswer>> read_entries(broker::Broker& broker,
                                                                   const std::string& tenant,
                                                                   const FetchRequest& request,
                                                                   std::uint64_t bytes_max) {
  std::uint64_t asked = 0;
  for (const broker::FetchEntry& entry : request.entries) asked += entry.bytes_max;
  if (asked <= bytes_max) return broker.fetch(tenant, request.entries);

  // Entries may ask for 8 GiB together. They are read one by one against one budget; past it each answers its
  // first record, as an entry with a small `maxBytes` does.
  std::vector<broker::FetchEntryAnswer> out;
  std::uint64_t left = bytes_max;
  for (broker::FetchEntry entry : request.entries) {
    entry.bytes_max = std::clamp<std::uint64_t>(left, 1, entry.bytes_max);
    auto answer = broker.fetch(tenant, std::span(&entry, 1));
    if (!answer) return answer;
    left -= std::min(left, payload_bytes(answer->front()));
    out.push_back(std::move(answer->front()));
  }
  return out;
}

void handle_fetch(const SharedContext& context, Inbound inbound) {
  auto parsed = parse_fetch(inbound.request.body);
  if (!parsed) return inbound.reply->send(refusal_response(parsed.error()));
  if (parsed->entries.empty()) return inbound.reply->send(json_response(200, R"({"entries":[]})"));
  std::make_shared<FetchJob>(context, std::move(inbound), *std::move(parsed))->start();
}

}  // namespace queen::api
