// From the environment to the plain structs of the rooms.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/api.h"
#include "auth/payload_cipher.h"
#include "base/result.h"
#include "broker/broker.h"
#include "config/settings.h"
#include "http/server.h"
#include "sink/settings.h"

namespace queen::app {

// Everything that was read; validated before anything is opened. Moves, so that the key is in one place.
struct NodeSettings {
  std::string log_level;
  bool log_json = false;
  http::ServerSettings http;
  api::ApiSettings api;
  broker::Settings broker;
  std::unique_ptr<auth::PayloadCipher> cipher;   // null: QUEEN_ENCRYPTION_KEY is unset; of `api` and `broker`
  std::optional<sink::SinkSettings> sink;        // nothing: QUEEN_S3_EMBEDDED is off
  std::string encryption_key_shown = "<unset>";  // masked
  std::string ca_file;                   // SSL_CERT_FILE: more certificates that the sink's client trusts
  std::uint64_t descriptors_max = 1024;  // what the system lets this process open
  std::string test_faults;               // QUEEN_TEST_FAULTS, unchecked: see CrashPoints::arm()
  std::int64_t sync_delay_us = 0;        // QUEEN_TEST_FSYNC_DELAY_MS
  std::vector<config::Warning> warnings;
  // name=value of every setting for the boot log, by heading; secrets masked.
  std::vector<std::pair<std::string, std::string>> shown;
};

// Errors: invalid: the text behind `FATAL: `, naming variable and value.
Result<NodeSettings> read_settings(const config::Lookup& lookup, const std::vector<std::string>& names,
                                   unsigned cores, const std::string& host_name, std::uint64_t random_bits);

// All rows, those of the sink too: for --help and the documentation.
std::vector<config::Row> all_rows();

}  // namespace queen::app
