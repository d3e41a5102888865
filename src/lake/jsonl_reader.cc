// Reads JSONL objects line by line. What stands in memory is the block that is read and the line that is
// open.
#include <fmt/format.h>

#include <utility>

#include "lake/detail/json_line.h"
#include "lake/detail/parquet_meta.h"
#include "lake/detail/readers.h"
#include "lake/detail/text_source.h"

namespace queen::lake {
namespace {

class JsonlReader final : public RecordReader {
 public:
  explicit JsonlReader(std::unique_ptr<TextSource> source) : source_(std::move(source)) {}

  Result<std::optional<ReadRecord>> next() override {
    if (failed_) return *failed_;
    auto record = read();
    if (!record) failed_ = record.error();
    return record;
  }

 private:
  Result<std::optional<ReadRecord>> read() {
    auto line = next_line();
    if (!line) return std::move(line).error();
    if (!*line) return std::nullopt;
    auto record = read_json_line(**line);
    if (!record) return Error{Errc::corrupt, fmt::format("line {}: {}", lines_, record.error().what)};
    return std::optional(*std::move(record));
  }

  // Good until the next call; nothing behind the last line.
  Result<std::optional<BytesView>> next_line() {
    std::size_t searched = line_at_;
    std::size_t end = text_.find('\n', searched);
    while (end == Bytes::npos) {
      text_.erase(0, std::exchange(line_at_, 0));
      searched = text_.size();
      if (searched > kValueBytesMax)
        return Error{Errc::corrupt,
                     fmt::format("line {} has more than {} bytes", lines_ + 1, kValueBytesMax)};
      auto more = source_->read(text_);
      if (!more) return std::move(more).error();
      if (!*more && !text_.empty())
        return Error{Errc::corrupt, fmt::format("line {} has no end", lines_ + 1)};
      if (!*more) return std::nullopt;
      end = text_.find('\n', searched);
    }
    ++lines_;
    const std::size_t begin = std::exchange(line_at_, end + 1);
    return BytesView(text_).substr(begin, end - begin);
  }

  std::unique_ptr<TextSource> source_;
  Bytes text_;
  std::size_t line_at_ = 0;
  std::uint64_t lines_ = 0;
  std::optional<Error> failed_;
};

}  // namespace

Result<std::unique_ptr<RecordReader>> open_jsonl(Codec codec, BytesView object) {
  auto source = make_text_source(codec, object);
  if (!source) return std::move(source).error();
  return std::unique_ptr<RecordReader>(std::make_unique<JsonlReader>(*std::move(source)));
}

}  // namespace queen::lake
