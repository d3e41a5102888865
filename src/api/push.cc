// Push: body to items (parse), items to frames by partition (prepare), outcomes to the answer (render).
#include "api/detail/push.h"

#include <algorithm>
#include <unordered_map>

#include "api/detail/json_check.h"
#include "api/detail/names.h"
#include "api/json_writer.h"
#include "base/hash.h"
#include "qlog/record.h"

namespace queen::api {
namespace {

// Frames add up to some 60 bytes to an item of 25, and the ends of frames are 32-bit numbers.
constexpr std::size_t kPushBodyBytesMax = std::size_t{1} << 30;
constexpr std::size_t kFrameExtraBytes = 128;  // ids and lengths of a frame, generously
constexpr std::size_t kEnvelopeBytes = 96;     // of a sealed payload, beside a third on top of it

class PushParser {
 public:
  // Room for items of some hundred bytes each; a body of smaller ones grows it a few times.
  explicit PushParser(std::string_view body) : scanner_(body) {
    out_.items.reserve(std::min<std::size_t>(body.size() / 256 + 1, 1024));
  }

  broker::Answer<PushBody> run() {
    bool items_seen = false;
    scanner_.enter_object();
    for (JsonValue key; scanner_.next_field(key);) {
      if (!is_named(key, "items")) {
        scanner_.value(scratch_);
        continue;
      }
      // A repeated field replaces the one before, as everywhere in this room.
      out_.items.clear();
      items_seen = true;
      read_items();
      if (refusal_) return tl::unexpected(*std::move(refusal_));
    }
    if (!scanner_.done()) return tl::unexpected(bad_body("the body is not the JSON of a push"));
    if (!items_seen) return tl::unexpected(bad_body("items is missing"));
    return std::move(out_);
  }

 private:
  void read_items() {
    if (!scanner_.enter_array()) return;
    while (!refusal_ && scanner_.next_element()) read_item();
  }

  void read_item() {
    PushItem item;
    queue_seen_ = payload_seen_ = false;
    if (!scanner_.enter_object()) return;
    for (JsonValue key; !refusal_ && scanner_.next_field(key);) {
      if (scanner_.value(scratch_)) read_field(key, item);
    }
    if (refusal_ || !scanner_.ok()) return;
    if (!queue_seen_) return refuse(bad_body("an item has no queue"));
    if (!payload_seen_) return refuse(bad_body("an item has no payload"));
    if (item.queue.empty()) return refuse(bad_request("queue must not be empty"));
    if (item.partition.empty()) item.partition = kDefaultPartition;
    out_.items.push_back(item);
  }

  void read_field(const JsonValue& key, PushItem& item) {
    if (is_named(key, "payload")) {
      payload_seen_ = true;
      item.null_payload = scratch_.is_null();
      item.payload = item.null_payload ? std::string_view{} : scratch_.text;
    } else if (is_named(key, "queue")) {
      queue_seen_ = true;
      if (const auto text = text_of("queue")) item.queue = *text;
    } else if (is_named(key, "partition")) {
      item.partition = optional_text("partition").value_or(std::string_view{});
    } else if (is_named(key, "transactionId")) {
      item.transaction_id = optional_text("transactionId");
      if (item.transaction_id && item.transaction_id->size() > kTransactionIdBytesMax)
        refuse(bad_body("transactionId is longer than 65535 bytes"));
    } else if (is_named(key, "traceId")) {
      // Whatever is no UUID is ignored, of whatever type it is.
      const auto text = view_of(scratch_, out_.arena);
      item.trace_id = text ? Uuid::parse(*text) : std::nullopt;
    }
  }

  std::optional<std::string_view> text_of(std::string_view field) {
    const auto text = view_of(scratch_, out_.arena);
    if (!text) refuse(bad_body(fmt::format("{} must be a string", field)));
    return text;
  }
  std::optional<std::string_view> optional_text(std::string_view field) {
    if (scratch_.is_null()) return std::nullopt;
    return text_of(field);
  }

  bool is_named(const JsonValue& key, std::string_view name) {
    if (!key.escaped) return key.bare() == name;
    return string_of(key, LoneSurrogate::replace) == name;
  }

  void refuse(broker::Refusal refusal) {
    if (!refusal_) refusal_ = std::move(refusal);
  }

  JsonScanner scanner_;
  JsonValue scratch_;
  PushBody out_;
  std::optional<broker::Refusal> refusal_;
  bool queue_seen_ = false, payload_seen_ = false;
};

// Finds the batch of a (queue, partition). Items of one partition mostly stand together, so the last one is
// tried before the table.
class BatchIndex {
 public:
  explicit BatchIndex(std::vector<machine::PushBatch>& batches) : batches_(batches) {}

  std::uint32_t of(const PushItem& item) {
    if (last_ && last_->queue == item.queue && last_->partition == item.partition) return at_;
    last_ = &item;
    const Key key{item.queue, item.partition};
    const auto [found, fresh] = by_name_.try_emplace(key, static_cast<std::uint32_t>(batches_.size()));
    if (fresh) {
      machine::PushBatch& batch = batches_.emplace_back();
      batch.queue = item.queue;
      batch.partition = item.partition;
    }
    at_ = found->second;
    return at_;
  }

 private:
  struct Key {
    std::string_view queue, partition;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const { return xxh3_64(key.partition, xxh3_64(key.queue)); }
  };
  std::vector<machine::PushBatch>& batches_;
  std::unordered_map<Key, std::uint32_t, KeyHash> by_name_;
  const PushItem* last_ = nullptr;
  std::uint32_t at_ = 0;
};

// Frames are appended straight from the body; their room is reserved beforehand, so that no copy is made
// again.
void reserve_frames(const PushBody& body, PreparedPush& out) {
  std::vector<std::size_t> bytes(out.command.batches.size());
  std::vector<std::size_t> counts(out.command.batches.size());
  for (std::size_t i = 0; i < body.items.size(); ++i) {
    const PushItem& item = body.items[i];
    std::size_t payload = item.payload.size();
    if (out.command.batches[out.places[i].batch].sealed) payload += payload / 2 + kEnvelopeBytes;
    bytes[out.places[i].batch] +=
        payload + kFrameExtraBytes + item.transaction_id.value_or(std::string_view{}).size();
    ++counts[out.places[i].batch];
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    machine::PushBatch& batch = out.command.batches[i];
    batch.frames.reserve(bytes[i]);
    batch.hashes.reserve(counts[i] * sizeof(Hash128));
    batch.frame_ends.reserve(counts[i]);
  }
}

// What appending an item needs beside it, kept from one to the next.
struct ItemScratch {
  const Sealer* sealer = nullptr;
  std::string id_text;
  Bytes sealed;
};

// A null is sealed as its text: that a message is empty is nobody's to see. A batch of which one payload
// could not be sealed is not `sealed`, and the planner refuses it where its queue wants it so.
void seal_payload(machine::PushBatch& batch, const Sealer& sealer, qlog::MessageFrame& frame, Bytes& held) {
  auto sealed = sealer.seal(frame.null_payload ? std::string_view("null") : frame.payload);
  batch.sealed = sealed.has_value();
  if (!sealed) return;
  held = *std::move(sealed);
  frame.payload = held;
  frame.null_payload = false;
  frame.encrypted = true;
}

void append_item(machine::PushBatch& batch, const PushItem& item, const Uuid& id, ItemScratch& scratch) {
  qlog::MessageFrame frame;
  frame.message_id = id;
  frame.null_payload = item.null_payload;
  frame.payload = item.payload;
  frame.trace_id = item.trace_id;
  if (item.transaction_id) {
    frame.transaction_id = *item.transaction_id;
  } else {
    scratch.id_text.clear();
    id.append_to(scratch.id_text);
    frame.transaction_id = scratch.id_text;
  }
  if (batch.sealed) seal_payload(batch, *scratch.sealer, frame, scratch.sealed);
  qlog::append_frame(batch.frames, frame);
  batch.hashes.append(xxh3_128(frame.transaction_id).view());
  batch.frame_ends.push_back(static_cast<std::uint32_t>(batch.frames.size()));
}

void store_batch(machine::PushBatch& batch, const PushMint& mint) {
  auto stored = std::make_shared<machine::StoredPayload>();
  stored->raw_bytes = static_cast<std::uint32_t>(batch.frames.size());
  stored->settled = true;
  auto compressed = mint.compressors.compress(batch.frames, mint.zstd_level);
  stored->compressed = compressed.has_value();
  stored->bytes = compressed ? *std::move(compressed) : batch.frames;
  batch.stored = std::move(stored);
}

// Ids of one push, ascending, and above those of every push that was answered before it: readers sort
// messages of one millisecond by their ids, and count places in that order. So the bits behind the
// milliseconds are the fraction (RFC 9562, 6.2, method 3), and from one item to the next the random bits grow
// (method 2).
class MessageIds {
 public:
  MessageIds(std::int64_t wall_us, Random& random) : random_(random), next_(make_uuid_v7(wall_us, random)) {
    const std::int64_t fraction = (wall_us % 1000 + 1000) % 1000 * 4096 / 1000;  // of a millisecond, 12 bits
    next_.bytes[6] = static_cast<std::uint8_t>(0x70 | fraction >> 8);
    next_.bytes[7] = static_cast<std::uint8_t>(fraction & 0xFF);
    next_.bytes[8] &= 0x9F;  // leaves room to grow
  }
  Uuid mint() {
    const Uuid id = next_;
    std::uint64_t step = (random_.next() & 0xFFFFFFFF) + 1;
    for (std::size_t at = 15; at >= 8 && step > 0; --at) {
      step += next_.bytes[at];
      next_.bytes[at] = static_cast<std::uint8_t>(step & 0xFF);
      step >>= 8;
    }
    return id;
  }

 private:
  Random& random_;
  Uuid next_;
};

std::string_view name_of(broker::PushItemAnswer::Status status) {
  using Status = broker::PushItemAnswer::Status;
  if (status == Status::queued) return "queued";
  return status == Status::duplicate ? "duplicate" : "error";
}

// In few large pieces: this runs once per pushed message.
void render_item(std::string& text, const PushItem& item, std::size_t position, const Uuid& minted,
                 const broker::PushItemAnswer& answer) {
  using Status = broker::PushItemAnswer::Status;
  text += position == 0 ? R"({"index":)" : R"(,{"index":)";
  JsonWriter(text).number(position);
  if (!answer.message_id && answer.status == Status::duplicate) {
    text += R"(,"message_id":null,"transaction_id":)";  // the original's frame is gone
  } else {
    text += R"(,"message_id":")";
    answer.message_id.value_or(minted).append_to(text);
    text += R"(","transaction_id":)";
  }
  if (item.transaction_id) {
    append_json_text(text, *item.transaction_id);
  } else {
    JsonWriter(text).uuid(minted);
  }
  text += R"(,"queueName":)";
  append_json_text(text, item.queue);
  text += R"(,"status":")";
  text += name_of(answer.status);
  if (answer.status == Status::error) {
    text += "\"}";
    return;
  }
  text += R"(","offset":)";
  JsonWriter(text).number(answer.offset);
  text += '}';
}

// What a push keeps from the request until its answer.
struct PushJob {
  PushJob(Deadlines& deadlines, std::unique_ptr<Reply> reply) : pending(deadlines, std::move(reply)) {}
  Pending pending;
  std::string body;  // the items' views point into it
  PushBody push;
  std::vector<PushPlace> places;
};

machine::Command push_command(Context& context, PushJob& job, const std::string& tenant,
                              std::int64_t deadline) {
  const Sealer sealer(context, tenant);
  const PushMint mint{
      context.clock.wall_us(),          context.random, context.compressors, context.broker.zstd_level(),
      context.broker.entry_bytes_max(), &sealer};
  PreparedPush prepared = prepare_push(job.push, mint);
  job.places = std::move(prepared.places);
  return {tenant, make_uuid_v7(mint.wall_us, mint.random), std::move(prepared.command), deadline};
}

}  // namespace

broker::Answer<PushBody> parse_push(std::string_view body) {
  if (body.size() > kPushBodyBytesMax) return tl::unexpected(bad_body("the body is larger than 1 GiB"));
  if (!is_utf8_fast(body)) return tl::unexpected(bad_body("the body is not UTF-8"));
  return PushParser(body).run();
}

std::optional<broker::Refusal> check_push_names(const PushBody& body, std::string_view tenant) {
  for (const PushItem& item : body.items)
    if (!names_fit(tenant, item.queue, item.partition)) return name_too_long();
  return std::nullopt;
}

PreparedPush prepare_push(const PushBody& body, const PushMint& mint) {
  PreparedPush out;
  out.command.batch_bytes_max = mint.batch_bytes_max;
  out.places.resize(body.items.size());
  BatchIndex index(out.command.batches);
  for (std::size_t i = 0; i < body.items.size(); ++i) out.places[i].batch = index.of(body.items[i]);
  for (machine::PushBatch& batch : out.command.batches)
    batch.sealed = mint.sealer != nullptr && mint.sealer->wants(batch.queue);
  reserve_frames(body, out);
  ItemScratch scratch{mint.sealer, {}, {}};
  MessageIds ids(mint.wall_us, mint.random);
  for (std::size_t i = 0; i < body.items.size(); ++i) {
    PushPlace& place = out.places[i];
    machine::PushBatch& batch = out.command.batches[place.batch];
    place.index = static_cast<std::uint32_t>(batch.items());
    place.id = body.items[i].message_id ? *body.items[i].message_id : ids.mint();
    append_item(batch, body.items[i], place.id, scratch);
  }
  for (machine::PushBatch& batch : out.command.batches) store_batch(batch, mint);
  return out;
}

std::string render_push(const PushBody& body, const std::vector<PushPlace>& places,
                        const broker::PushAnswer& answer) {
  constexpr std::size_t kItemBytes = 256;
  std::string text;
  text.reserve(2 + kItemBytes * body.items.size());
  text += '[';
  for (std::size_t i = 0; i < body.items.size(); ++i) {
    const PushPlace& place = places[i];
    render_item(text, body.items[i], i, place.id, answer.batches[place.batch][place.index]);
  }
  text += ']';
  return text;
}

void handle_push(const SharedContext& context, Inbound inbound) {
  auto job = std::make_shared<PushJob>(context->deadlines, std::move(inbound.reply));
  job->body = std::move(inbound.request.body);
  auto parsed = parse_push(job->body);
  if (!parsed) return void(job->pending.answer(refusal_response(parsed.error())));
  job->push = *std::move(parsed);
  if (job->push.items.empty()) return void(job->pending.answer(json_response(201, "[]")));
  if (auto refusal = check_push_names(job->push, inbound.tenant))
    return void(job->pending.answer(refusal_response(*refusal)));

  const std::int64_t deadline = context->deadline_us(context->settings.default_timeout_ms);
  job->pending.set_deadline(deadline, [job] { job->pending.answer(timeout_response()); });
  const auto prepare = [context, job, tenant = inbound.tenant, deadline] {
    return push_command(*context, *job, tenant, deadline);
  };
  auto done = [context, job](broker::Answer<broker::PushAnswer> answer) {
    if (!job->pending.claim()) return;
    job->pending.send(answer ? json_response(201, render_push(job->push, job->places, *answer))
                             : refusal_response(answer.error()));
  };
  submit_sealing<broker::PushAnswer>(
      context, prepare(),
      [&broker = context->broker,
       permit = std::static_pointer_cast<broker::WritePermit>(std::move(inbound.request.pass))](
          machine::Command command, auto then) { broker.push(std::move(command), std::move(then), permit); },
      prepare, std::move(done));
}

}  // namespace queen::api
