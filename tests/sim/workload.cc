#include "workload.h"

#include "base/invariant.h"
#include "qlog/record.h"

namespace queen::sim {
namespace {

constexpr std::int64_t kConfigureTimeoutUs = 3 * kSecondUs;
constexpr std::size_t kCompressFrom = 512;

}  // namespace

// `retry` is also what a node says that stops, of what it had not planned.
bool changed_nothing(std::string_view code) {
  return code == "storage_full" || code == "overloaded" || code == "bad_request" || code == "retry" ||
         code == "name_too_long" || code == "encryption_required";
}

machine::Command command_of(Client& client, decltype(machine::Command::body) body) {
  return {std::string(kDefaultTenant), client.uuid(), std::move(body)};
}

Task<void> configure(Client& client, machine::ConfigureCommand command) {
  for (;;) {
    auto said = co_await submit<machine::ConfigureOutcome>(client, command, kConfigureTimeoutUs);
    if (said && said->code.empty()) co_return;
    if (said && said->code == "bad_request")
      client.story().violate("queues can be configured", "{}", command.queue);
    co_await client.sleep(client.dice().between(kMsUs, 500 * kMsUs));
  }
}

Bytes sealed_text(Client& client, Bytes text, const auth::PayloadCipher* cipher) {
  if (cipher == nullptr) return text;
  auth::SealedIv iv{};
  for (auto& byte : iv) byte = static_cast<std::uint8_t>(client.dice().next());
  auto sealed = cipher->seal_with(iv, text);
  INVARIANT(sealed.has_value(), "sealing fails");
  return std::move(*sealed);
}

machine::PushBatch batch_of(Client& client, const PartitionName& where, const std::vector<std::string>& ids,
                            const auth::PayloadCipher* cipher) {
  machine::PushBatch batch;
  batch.queue = where.queue;
  batch.partition = where.partition;
  batch.sealed = cipher != nullptr;
  for (const auto& id : ids) {
    const Bytes text = sealed_text(client, payload_of(id), cipher);
    qlog::MessageFrame frame;
    frame.encrypted = cipher != nullptr;
    frame.message_id = client.uuid();
    frame.transaction_id = id;
    frame.payload = text;
    qlog::append_frame(batch.frames, frame);
    batch.hashes += xxh3_128(id).view();
    batch.frame_ends.push_back(static_cast<std::uint32_t>(batch.frames.size()));
  }
  auto stored = std::make_shared<machine::StoredPayload>();
  stored->raw_bytes = static_cast<std::uint32_t>(batch.frames.size());
  static thread_local qlog::PayloadCompressor compressor;  // dear to make
  auto small = batch.frames.size() >= kCompressFrom ? compressor.compress(batch.frames, 1) : std::nullopt;
  stored->compressed = small.has_value();
  stored->bytes = small ? std::move(*small) : batch.frames;
  batch.stored = std::move(stored);
  return batch;
}

}  // namespace queen::sim
