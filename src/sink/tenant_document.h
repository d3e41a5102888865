// The document of a tenant's sink, which the control plane stores, as the settings of that sink
// (s3-sink.md 4.3, 4.5, 21.1).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "sink/settings.h"

namespace queen::sink {

struct TenantDocument {
  std::string_view tenant;
  std::string_view config;  // one JSON object
  std::string secret_key;   // kept beside the document
};

// A pure function of its argument. Fields are read by the rules of the variables: null and blank are absent,
// texts are trimmed, enumerated values ignore case; numbers may be whole numbers or texts. Errors: invalid;
// the sentence names the field, for a node-wide one also the variable that sets it, and never holds the
// secret key or the access key.
Result<UnitSettings> read_tenant_document(TenantDocument document);

// The verdict of read_tenant_document() in its own words, before a secret key is known.
Status check_tenant_document(std::string_view tenant, std::string_view config);

}  // namespace queen::sink
