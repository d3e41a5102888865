// An engine in virtual time, and answers as text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ephemeral/engine.h"

namespace queen::ephemeral {

inline const std::string kTenant = "00000000-0000-0000-0000-000000000001";

struct Rig {
  explicit Rig(Settings with = {}) : settings(with) {}
  ManualClock clock;
  ManualExecutor executor{clock};
  SeededRandom random{7};
  Settings settings;
  std::map<std::string, Declaration> declared;
  Engine engine{settings, executor, random, [this](const QueueName& name) -> std::optional<Declaration> {
                  const auto at = declared.find(name.queue);
                  if (at == declared.end()) return std::nullopt;
                  return at->second;
                }};

  static QueueName named(const std::string& queue) { return {kTenant, queue}; }
  void declare(const std::string& queue, const Declaration& declaration) {
    declared[queue] = declaration;
    EXPECT_TRUE(engine.declare(named(queue), declaration, {}));
  }
  // "" or why not.
  std::string push(const std::string& queue, std::vector<std::string> payloads,
                   const std::string& partition = "Default", const TenantMax& max = {}) {
    const auto pushed = engine.push(named(queue), partition, std::move(payloads), max);
    return pushed ? "" : text(pushed.error());
  }
  static std::string text(Refused refused) {
    return refused == Refused::queue_full    ? "queue_full"
           : refused == Refused::tenant_full ? "tenant_full"
                                             : "node_full";
  }
  static PopRequest asking(const std::string& queue, const std::string& group, std::uint32_t batch) {
    PopRequest out;
    out.name = named(queue);
    if (!group.empty()) out.group = group;
    out.batch = batch;
    return out;
  }
  struct Pop {
    Engine::PopId id = 0;
    bool answered = false;
    std::vector<Message> messages;
    std::string refused;
    // Payloads, each with its attempts when they are not 1.
    std::string text() const {
      if (!answered) return "parked";
      if (!refused.empty()) return refused;
      std::string out;
      for (const Message& message : messages) {
        out += (out.empty() ? "" : " ") + *message.payload;
        if (message.attempts != 1) out += "#" + std::to_string(message.attempts);
      }
      return out;
    }
  };
  std::shared_ptr<Pop> send(PopRequest request, const TenantMax& max = {}) {
    auto pop = std::make_shared<Pop>();
    pop->id = engine.pop(std::move(request), max, [pop](auto answer) {
      EXPECT_FALSE(pop->answered);
      pop->answered = true;
      if (answer) {
        pop->messages = *std::move(answer);
      } else {
        pop->refused = text(answer.error());
      }
    });
    return pop;
  }
  std::shared_ptr<Pop> pop(const std::string& queue, const std::string& group = "", std::uint32_t batch = 1) {
    return send(asking(queue, group, batch));
  }
  std::shared_ptr<Pop> wait(const std::string& queue, const std::string& group = "", std::uint32_t batch = 1,
                            std::int64_t us = 60'000'000) {
    PopRequest request = asking(queue, group, batch);
    request.wait_until_us = clock.mono_us() + us;
    return send(std::move(request));
  }
  std::string ack(const std::string& queue, const std::vector<Message>& messages,
                  Status status = Status::done, const std::string& group = std::string(kSharedGroup)) {
    std::vector<Ack> acks;
    for (const Message& message : messages) acks.push_back({message.id, status});
    std::string out;
    for (const AckOutcome outcome : engine.ack(named(queue), group, acks))
      out += std::string(out.empty() ? "" : " ") + (outcome == AckOutcome::acked         ? "acked"
                                                    : outcome == AckOutcome::redelivered ? "redelivered"
                                                    : outcome == AckOutcome::stale       ? "stale"
                                                                                         : "unknown");
    return out;
  }
  std::uint64_t depth(const std::string& queue) {
    for (const QueueView& view : engine.queues(kTenant))
      if (view.queue == queue) return view.depth;
    return 0;
  }
  QueueView view(const std::string& queue) {
    for (QueueView& view : engine.queues(kTenant))
      if (view.queue == queue) return view;
    return {};
  }
};

}  // namespace queen::ephemeral
