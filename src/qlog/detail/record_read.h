// One positional read of one whole record, verified on every read: RD-4.
#pragma once

#include <memory>

#include "qlog/detail/log.h"
#include "qlog/record.h"

namespace queen::qlog::detail {

// `what` at a place in a record file. Error corrupt.
Error damaged(const FileKey& file, std::uint64_t position, std::string_view what);

// Exactly `size` bytes. Errors: corrupt (the file ends before), unavailable.
Result<std::shared_ptr<const Bytes>> read_bytes(Shared& shared, const FileKey& key, std::uint64_t position,
                                                std::uint32_t size);

struct ReadRecord {
  Record record;                        // borrows from `buffer`
  std::shared_ptr<const Bytes> buffer;  // shared: batches hand it on to whoever answers
};
// The message record that `at` names. Errors: corrupt (anything about it differs), unavailable.
Result<ReadRecord> read_record(Shared& shared, const FileKey& key, const IndexRecord& at);

// Counts and tells of an error that is damage (CR-5), once per error; gives it back.
Error report(Shared& shared, const FileKey& key, const IndexRecord& at, Error error);

}  // namespace queen::qlog::detail
