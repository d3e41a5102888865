#include "sink/checkpoint.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "base/invariant.h"
#include "base/text.h"
#include "sink/detail/json_fields.h"

namespace queen::sink {
namespace {

constexpr int kLevel = 3;

struct FreeDctx {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

Error damaged(std::string_view why) {
  return Error{Errc::corrupt, fmt::format("the checkpoint {}", why)};
}

// Exactly one frame. The size in the frame's head is not believed: the text grows as it comes, up to the
// bound.
Result<Bytes> inflate(BytesView object, std::uint64_t bytes_max) {
  const std::unique_ptr<ZSTD_DCtx, FreeDctx> context(ZSTD_createDCtx());
  Bytes text;
  Bytes piece(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer in{object.data(), object.size(), 0};
  std::size_t left = 1;
  while (left != 0) {
    ZSTD_outBuffer out{piece.data(), piece.size(), 0};
    const std::size_t before = in.pos;
    left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left) != 0) return damaged("is no zstd frame");
    if (text.size() + out.pos > bytes_max) return damaged(fmt::format("inflates past {} bytes", bytes_max));
    text.append(piece.data(), out.pos);
    if (left != 0 && out.pos == 0 && in.pos == before) return damaged("is cut short");
  }
  if (in.pos != in.size) return damaged("has bytes after its zstd frame");
  return text;
}

Result<CheckpointPosition> parse_position(simdjson::dom::element element) {
  simdjson::dom::array list;
  if (element.get(list) != simdjson::SUCCESS) return damaged("has a position that is no list");
  std::string_view name;
  CheckpointPosition position;
  if (list.at(0).get(name) != simdjson::SUCCESS || list.at(1).get(position.offset) != simdjson::SUCCESS)
    return damaged("has a position without name and offset");
  position.partition = std::string(name);
  const auto third = list.at(2);
  if (third.error() == simdjson::INDEX_OUT_OF_BOUNDS) return position;
  std::string_view id;
  if (third.get(id) != simdjson::SUCCESS) return damaged("has a partition id that is no text");
  position.id = Uuid::parse(id);
  if (!position.id) return damaged("has a partition id that is no UUID");
  return position;
}

}  // namespace

Bytes encode_checkpoint(Checkpoint checkpoint) {
  std::sort(checkpoint.positions.begin(), checkpoint.positions.end(),
            [](const auto& a, const auto& b) { return a.partition < b.partition; });
  Bytes text = fmt::format(R"({{"k":{},"tEnd":{},"positions":[)", checkpoint.k, checkpoint.t_end);
  bool first = true;
  for (const CheckpointPosition& position : checkpoint.positions) {
    if (!first) text += ',';
    first = false;
    text += '[';
    append_json_string(text, position.partition);
    fmt::format_to(std::back_inserter(text), ",{}", position.offset);
    if (position.id) fmt::format_to(std::back_inserter(text), R"(,"{}")", position.id->str());
    text += ']';
  }
  text += "]}";
  Bytes object(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(object.data(), object.size(), text.data(), text.size(), kLevel);
  INVARIANT(ZSTD_isError(size) == 0, "zstd refused a checkpoint of {} bytes: {}", text.size(),
            ZSTD_getErrorName(size));
  object.resize(size);
  return object;
}

Result<Checkpoint> decode_checkpoint(BytesView object, std::uint64_t bytes_max) {
  auto text = inflate(object, bytes_max);
  if (!text) return std::move(text).error();
  simdjson::dom::parser parser;
  auto document = detail::parse_json(parser, *text, "the checkpoint");
  if (!document) return std::move(document).error();
  detail::JsonFields fields("the checkpoint", *document);
  Checkpoint checkpoint;
  checkpoint.k = fields.count("k");
  checkpoint.t_end = fields.integer("tEnd");
  const auto positions = fields.array("positions");
  if (auto status = fields.status(); !status) return std::move(status).error();
  for (const simdjson::dom::element element : *positions) {
    auto position = parse_position(element);
    if (!position) return std::move(position).error();
    checkpoint.positions.push_back(*std::move(position));
  }
  return checkpoint;
}

}  // namespace queen::sink
