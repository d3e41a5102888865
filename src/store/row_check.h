// Whether the bytes of a row are what its table holds: the key is of the table's form and the value decodes.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "store/keyspace.h"

namespace queen::store {

// Errors: corrupt, saying what does not fit.
Status check_row(Keyspace keyspace, BytesView key, BytesView value);

}  // namespace queen::store
