// A bucket, and each node's way to it, which is slow, fails, and loses answers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "s3/object_store.h"
#include "world.h"

namespace queen::sim {

// How the way to the bucket behaves. Per cent of all requests, each drawn on its own.
struct BucketFaults {
  std::int64_t delay_us_max = 20 * kMsUs;
  std::uint64_t slow_pct = 0;         // take up to 40 s
  std::uint64_t refused_pct = 0;      // an error of S3, nothing happened
  std::uint64_t lost_answer_pct = 0;  // done, and answered as failed
  std::uint64_t twice_pct = 0;        // a put that arrives a second time, later
};

// What is in the bucket, and every put that ever took effect.
class SimBucket {
 public:
  struct PutSeen {
    std::string key;
    std::shared_ptr<const Bytes> body;
  };

  void put(const std::string& key, std::shared_ptr<const Bytes> body);
  const std::map<std::string, std::shared_ptr<const Bytes>>& objects() const { return objects_; }
  const std::vector<PutSeen>& puts() const { return puts_; }
  BucketFaults faults;
  // Called for each put that takes effect.
  std::function<void(const std::string& key, const Bytes& body)> on_put;

 private:
  std::map<std::string, std::shared_ptr<const Bytes>> objects_;
  std::vector<PutSeen> puts_;
};

// Of one life of a node. Requests that are under way when the node dies may still arrive.
std::unique_ptr<s3::ObjectStore> make_bucket_way(World& world, SimBucket& bucket, Executor& network,
                                                 std::shared_ptr<const bool> alive);

}  // namespace queen::sim
