// A queue's labels and options as JSON: the same in the answers of configure and of the queue lists.
#pragma once

#include "api/json_writer.h"
#include "store/rows.h"

namespace queen::api {

// `namespace` and `task`; a label that the queue does not have is null.
void write_queue_labels(JsonWriter& out, const store::QueueRow& row);
void write_queue_options(JsonWriter& out, const store::QueueRow& row);

}  // namespace queen::api
