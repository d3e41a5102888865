// Resources over this node's store and logs.
#pragma once

#include "broker/message_reads.h"
#include "broker/queue_reads.h"
#include "broker/resources.h"
#include "broker/standing.h"

namespace queen::broker {

class ResourceReads final : public Resources {
 public:
  ResourceReads(const store::Store& store, qlog::QueueLogs& logs, Clock& clock, Reads& reads)
      : queues_(store, logs, clock), messages_(store, logs, clock, reads), standing_(store, clock) {}

  std::optional<QueueView> queue(const std::string& tenant, const std::string& queue,
                                 std::size_t partitions_max) override {
    return queues_.queue(tenant, queue, partitions_max);
  }
  Answer<std::optional<DepthView>> depth(const std::string& tenant, const std::string& queue,
                                         const std::optional<std::string>& group) override {
    return queues_.depth(tenant, queue, group);
  }
  std::optional<SizesView> sizes(const std::string& tenant, const std::string& queue,
                                 std::size_t partitions_max) override {
    return queues_.sizes(tenant, queue, partitions_max);
  }
  Answer<std::optional<BusyView>> busiest(const std::string& tenant, const std::optional<std::string>& queue,
                                          std::size_t limit, std::size_t partitions_max) override {
    return queues_.busiest(tenant, queue, limit, partitions_max);
  }
  Answer<OverviewView> overview(const std::string& tenant) override { return queues_.overview(tenant); }
  StandingView standing(const std::string& tenant, const QueueFilter& filter) override {
    return standing_.standing(tenant, filter);
  }
  Answer<MessagesView> messages(const std::string& tenant, const MessageQuery& query) override {
    return messages_.messages(tenant, query);
  }
  Answer<std::optional<MessageDetail>> message(const std::string& tenant, std::string_view partition,
                                               std::string_view transaction_id,
                                               std::int64_t deadline_mono_us) override {
    return messages_.message(tenant, partition, transaction_id, deadline_mono_us);
  }

 private:
  QueueReads queues_;
  MessageReads messages_;
  StandingReads standing_;
};

}  // namespace queen::broker
