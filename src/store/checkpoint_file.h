// The LMDB file that receives a checkpoint of the store every second (storage.md 11, 12). Format:
// docs/formats/store.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "store/store.h"

namespace queen::store {

// Calls from one thread at a time, except usage().
class CheckpointFile {
 public:
  virtual ~CheckpointFile() = default;
  // Puts every row of the file into `store` after verifying its checksum, that keys ascend, and that each
  // table has the row count recorded in meta `rows/<table>`. Errors: corrupt, whose text is the refusal of
  // BR-5, BR-6; the store then holds a part of the rows and is of no use. Never changes the file.
  virtual Status load(Store& store) = 0;
  // One write transaction with the whole cut, committed and synced: durable on return. Verifies each value's
  // checksum before it is written. Errors: corrupt (RAM is damaged: end the process), full (map or volume),
  // busy (no descriptors to open the file again with), unavailable. Any error leaves the file as it was.
  virtual Status write(const Cut& cut) = 0;
  // Verifies the checksums of at most `rows_max` rows from `from` on, as they lie in the file, in a read
  // transaction of its own. A file that verifies all it reads has nothing to do here. Errors: corrupt: names
  // keyspace, key and what failed; unavailable.
  virtual Result<Verified> verify(const RowPlace& from, std::size_t rows_max) {
    static_cast<void>(from);
    static_cast<void>(rows_max);
    return Verified{};
  }
  // True while no checkpoint has ever been written: the file was made by this open, or nothing came into it
  // since.
  virtual bool fresh() const = 0;

  struct Usage {
    std::uint64_t used_bytes = 0;  // of the file's pages
    std::uint64_t map_bytes = 0;   // the most it can hold before the map grows; 0 = no limit
    // Four fifths are in use (HD-33): a map that grows never comes there unless it cannot grow.
    bool nearly_full() const { return map_bytes != 0 && used_bytes > map_bytes / 5 * 4; }
  };
  // As of the last open or write. Any thread.
  virtual Usage usage() const = 0;
};

// Where a node keeps its checkpoint, when it is not the LMDB file: for simulation on a disk of its own.
class CheckpointHome {
 public:
  virtual ~CheckpointHome() = default;
  // As checkpoint_exists() and open_lmdb_checkpoint() say.
  virtual Result<bool> exists(const std::string& directory) = 0;
  virtual Result<std::unique_ptr<CheckpointFile>> open(const std::string& directory) = 0;
};

// Whether `directory`/data.mdb is there and not empty. Changes nothing: to be asked before the file is
// opened, because opening makes it. Errors: unavailable.
Result<bool> checkpoint_exists(const std::string& directory);

// Opens or makes `directory`/data.mdb with full sync; the directory's parent must exist. `map_bytes` 0 = the
// default (64 GiB of address space, grown to four times the used size when more than half is used). Reads an
// existing file once, page by page, before LMDB maps it. Errors: corrupt (BR-8: names the path and the
// cause); unavailable (the directory cannot be made or synced).
Result<std::unique_ptr<CheckpointFile>> open_lmdb_checkpoint(const std::string& directory,
                                                             std::uint64_t map_bytes, Logger log);

// In memory, for tests.
std::unique_ptr<CheckpointFile> make_memory_checkpoint();

}  // namespace queen::store
