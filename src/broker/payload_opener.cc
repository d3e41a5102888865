#include "broker/payload_opener.h"

#include <simdjson.h>

#include "auth/payload_cipher.h"

namespace queen::broker {
namespace {

// What a node sealed was JSON. What a client pushed as an envelope may hold anything that the same key ever
// sealed, and answers quote payloads as they are.
bool is_json(BytesView text) {
  simdjson::dom::parser parser;
  return parser.parse(text.data(), text.size()).error() == simdjson::SUCCESS;
}

struct Opened {
  std::size_t message = 0, begin = 0, size = 0;
};

}  // namespace

std::optional<Bytes> PayloadOpener::open_text(BytesView stored) const {
  if (cipher_ == nullptr) return std::nullopt;
  auto text = cipher_->open(stored);
  if (!text || !is_json(*text)) return std::nullopt;
  return text;
}

void PayloadOpener::open(Messages& messages, std::size_t first) const {
  if (cipher_ == nullptr) return;
  Bytes texts;  // of all of them: readers look for a view's buffer among the buffers
  std::vector<Opened> opened;
  for (std::size_t i = first; i < messages.messages.size(); ++i) {
    const Message& message = messages.messages[i];
    if (message.null_payload) continue;
    const auto text = message.encrypted ? cipher_->open(message.payload) : open_text(message.payload);
    if (!text) continue;
    opened.push_back({i, texts.size(), text->size()});
    texts += *text;
  }
  if (opened.empty()) return;
  const auto buffer = std::make_shared<const Bytes>(std::move(texts));
  for (const Opened& one : opened) {
    Message& message = messages.messages[one.message];
    message.encrypted = false;
    message.payload = BytesView(*buffer).substr(one.begin, one.size);
    message.null_payload = message.payload == "null";
    if (message.null_payload) message.payload = {};
  }
  messages.buffers.push_back(buffer);
}

}  // namespace queen::broker
