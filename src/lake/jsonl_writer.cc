// One record, one line of JSON (docs/formats/lake.md). The line is built in the open piece of the text, which
// goes through the codec when it is full: a record costs no allocation of its own, its text stands nowhere
// else, and what neighbours share (partition, stamp) is rendered once.
#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <limits>
#include <utility>

#include "base/text.h"
#include "lake/detail/record_rules.h"
#include "lake/detail/text_codec.h"
#include "lake/detail/writers.h"

namespace queen::lake {
namespace {

// Raw line ends stand between JSON tokens only (inside a string they must be escaped), so a blank keeps the
// value and the record stays on one line.
void append_json_on_one_line(Bytes& out, BytesView json) {
  const std::size_t start = out.size();
  out.append(json);
  char* const at = out.data() + start;
  for (const char line_end : {'\n', '\r'}) {
    std::size_t from = 0;
    while (from < json.size()) {
      void* const found = std::memchr(at + from, line_end, json.size() - from);
      if (found == nullptr) break;
      *static_cast<char*>(found) = ' ';
      from = static_cast<std::size_t>(static_cast<char*>(found) - at) + 1;
    }
  }
}

void append_payload(Bytes& out, const Record& record) {
  if (is_null(record)) {
    out += "null";
  } else if (record.payload_kind == Payload::json) {
    append_json_on_one_line(out, record.payload);
  } else {
    append_text_of_raw(out, record.payload);
  }
}

void append_decimal(Bytes& out, std::uint64_t value) {
  char digits[std::numeric_limits<std::uint64_t>::digits10 + 1];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

class JsonlWriter final : public RecordWriter {
 public:
  explicit JsonlWriter(Codec codec) : encoder_(make_text_encoder(codec)) {}

  Status push(const Record& record) override {
    if (finished_) return refused(record, "was pushed into a finished object");
    if (auto ordered = order_.check(record); !ordered) return ordered;
    if (auto room = close_full_piece(); !room) return room;
    render_shared(record);
    append_line(record);
    order_.advance(record);
    ++records_;
    return {};
  }

  Result<Bytes> finish() override {
    if (finished_) return Error{Errc::invalid, "the object is finished already"};
    finished_ = true;
    return encoder_->finish(std::move(text_));
  }

  std::uint64_t records() const override { return records_; }

 private:
  // A full piece waits for the record after it, because the codec is told which piece is the last.
  Status close_full_piece() {
    constexpr std::size_t kReserveBytes = kPieceBytes + (64 << 10);
    if (text_.size() < kPieceBytes) return {};
    if (auto added = encoder_->add(text_); !added) return added;
    text_.reserve(kReserveBytes);
    return {};
  }

  // What neighbours share is rendered when it changes.
  void render_shared(const Record& record) {
    if (!order_.same_partition(record)) {
      line_head_ = R"({"partition":)";
      append_json_string(line_head_, record.partition);
      line_head_ += R"(,"offset":)";
    }
    if (!order_.same_stamp(record)) {
      stamp_.clear();
      append_iso_micros(stamp_, record.ts);
    }
  }

  void append_line(const Record& record) {
    text_ += line_head_;
    append_decimal(text_, record.offset);
    text_ += R"(,"transactionId":)";
    append_json_string(text_, record.transaction_id);
    text_ += R"(,"ts":")";
    text_ += stamp_;
    text_ += R"(","payload":)";
    append_payload(text_, record);
    text_ += "}\n";
  }

  const std::unique_ptr<TextEncoder> encoder_;
  Bytes text_;  // the open piece
  bool finished_ = false;
  std::uint64_t records_ = 0;
  RecordOrder order_;
  std::string line_head_;
  std::string stamp_;
};

}  // namespace

std::unique_ptr<RecordWriter> make_jsonl_writer(Codec codec) {
  return std::make_unique<JsonlWriter>(codec);
}

}  // namespace queen::lake
