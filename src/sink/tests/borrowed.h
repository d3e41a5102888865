// What a manager owns, leading to doubles that it does not own.
#pragma once

#include "s3/object_store.h"
#include "sink/broker_port.h"

namespace queen::sink::test {

class BorrowedStore final : public s3::ObjectStore {
 public:
  explicit BorrowedStore(s3::ObjectStore& to) : to_(to) {}
  void put(std::string key, std::shared_ptr<const Bytes> body, s3::PutOptions options,
           Done<s3::PutDone> done) override {
    to_.put(std::move(key), std::move(body), std::move(options), std::move(done));
  }
  void get(std::string key, std::uint64_t bytes_max, Done<std::optional<Bytes>> done) override {
    to_.get(std::move(key), bytes_max, std::move(done));
  }
  void head(std::string key, Done<std::optional<std::uint64_t>> done) override {
    to_.head(std::move(key), std::move(done));
  }
  void list(std::string prefix, std::string start_after, int max_keys, Done<s3::Listing> done) override {
    to_.list(std::move(prefix), std::move(start_after), max_keys, std::move(done));
  }
  void cancel() override { to_.cancel(); }
  void resume() override { to_.resume(); }
  void cancel_keys(const std::vector<std::string>& prefixes) override { to_.cancel_keys(prefixes); }

 private:
  s3::ObjectStore& to_;
};

class BorrowedPort final : public BrokerPort {
 public:
  explicit BorrowedPort(BrokerPort& to) : to_(to) {}
  void fetch(std::string queue, std::vector<FetchRequest> requests, CallDone<FetchAnswer> done) override {
    to_.fetch(std::move(queue), std::move(requests), std::move(done));
  }
  void changed(std::string queue, ChangedRequest request, CallDone<ChangedPage> done) override {
    to_.changed(std::move(queue), std::move(request), std::move(done));
  }
  void kv(std::vector<machine::KvOp> ops, CallDone<machine::KvOutcome> done) override {
    to_.kv(std::move(ops), std::move(done));
  }
  void list_queues(CallDone<std::vector<std::string>> done) override { to_.list_queues(std::move(done)); }

 private:
  BrokerPort& to_;
};

}  // namespace queen::sink::test
