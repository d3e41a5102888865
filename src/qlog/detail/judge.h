// What is done about damage of the logs: a boot stops at the first, a verification notes it and looks further.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/finding.h"
#include "base/ids.h"
#include "base/result.h"
#include "qlog/record.h"

namespace queen::qlog::detail {

struct FoundFile;

// Where it is, and which rule of storage.md 14 the place breaks.
struct Place {
  const char* rule = "";
  std::string path;
  std::optional<std::uint64_t> position;
};

class Judge {
 public:
  virtual ~Judge() = default;
  // A boot refuses for it. The error to stop with, or nothing: then the caller goes on as well as it can.
  virtual Status damage(const Place& place, Error error) = 0;
  // Whether everything is looked at, also what a boot does not read: sealed files with a valid index.
  virtual bool wants_all() const { return false; }
  // Each good record, in the order of its file.
  virtual void record(LogId, const FoundFile&, std::uint64_t /*position*/, const ScanResult&) {}
  // A sealed file is through. `damaged`: some of it could not be read.
  virtual void sealed_file(LogId, const FoundFile&, bool /*damaged*/) {}
  // Damage that a boot does not meet, and what is unusual.
  virtual void mention(Severity, const Place&, std::string) {}
};

class FirstStops final : public Judge {
 public:
  Status damage(const Place&, Error error) override { return error; }
};

}  // namespace queen::qlog::detail
