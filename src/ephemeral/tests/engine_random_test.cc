// Random calls against a model that keeps every message for good and looks at all of them each time.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <source_location>
#include <stdexcept>

#include "ephemeral/tests/rig.h"

namespace queen::ephemeral {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

// One queue, as the contract tells it.
class Model {
 public:
  explicit Model(const Declaration& options) : options_(options) {}

  bool push(const std::string& partition, const std::vector<std::string>& payloads, std::int64_t now) {
    age(now);
    std::int64_t bytes = 0;
    for (const std::string& payload : payloads) {
      bytes += size(payload);
      if (size(payload) > options_.max_bytes) return false;
    }
    const bool fits = held_bytes() + bytes <= options_.max_bytes &&
                      length() + static_cast<std::int64_t>(payloads.size()) <= options_.max_length;
    if (options_.policy == Policy::reject && !fits) return false;
    if (!partitions_.contains(partition))
      for (const std::string& group : groups_) partitions_[partition].groups[group];
    for (const std::string& payload : payloads) {
      partitions_[partition].messages.push_back({payload, now, order_++, true});
      while (held_bytes() > options_.max_bytes || length() > options_.max_length) {
        drop(*oldest(), drops.bounds);
        for (auto& [name, of] : partitions_) free(of);
      }
    }
    return true;
  }

  std::string pop(const std::string& group, std::size_t batch, bool commit, std::int64_t now) {
    age(now);
    groups_.insert(group);
    std::string out;
    for (auto& [name, partition] : partitions_) {
      auto& states = partition.groups[group];
      for (const bool redeliver : {true, false}) {
        for (std::size_t seq = 0; seq < partition.messages.size() && batch > 0; ++seq) {
          if (!partition.messages[seq].there) continue;
          State& state = states[seq];
          if (state.phase != (redeliver ? Phase::again : Phase::fresh)) continue;
          --batch;
          ++state.deliveries;
          state.expired = false;
          state.phase = commit ? Phase::done : Phase::leased;
          state.until = now + options_.lease_seconds * kSecond;
          out += (out.empty() ? "" : " ") + partition.messages[seq].payload;
          if (state.deliveries != 1) out += "#" + std::to_string(state.deliveries);
        }
      }
      free(partition);
    }
    return out;
  }

  std::string ack(const std::string& partition, std::size_t seq, const std::string& group, Status status,
                  std::int64_t now) {
    age(now);
    Partition& of = partitions_.at(partition);
    const auto states = of.groups.find(group);
    if (states == of.groups.end() || !of.messages.at(seq).there) return "unknown";
    State& state = states->second[seq];
    if (state.phase != Phase::leased && !(state.phase == Phase::again && state.expired)) return "unknown";
    if (status == Status::failed && !state.expired) ++state.failures;
    const bool over = status == Status::failed && state.failures >= options_.retry_limit;
    if (over) ++drops.retry;
    state.phase = status == Status::done || over ? Phase::done : Phase::again;
    state.expired = false;
    const bool done = state.phase == Phase::done;
    free(of);
    return done ? "acked" : "redelivered";
  }

  std::int64_t reset(std::int64_t now) {
    age(now);
    const std::int64_t out = length();
    for (auto& [name, partition] : partitions_)
      for (Stored& message : partition.messages) message.there = false;
    return out;
  }

  void age(std::int64_t now) {
    while (options_.ttl_seconds > 0) {
      Stored* first = oldest();
      if (first == nullptr || first->at + options_.ttl_seconds * kSecond > now) break;
      drop(*first, drops.ttl);
      for (auto& [name, of] : partitions_) free(of);
    }
    for (auto& [name, partition] : partitions_) {
      for (auto& [group, states] : partition.groups)
        for (auto& [seq, state] : states) {
          if (state.phase != Phase::leased || state.until > now || !partition.messages[seq].there) continue;
          const bool over = ++state.failures >= options_.retry_limit;
          if (over) ++drops.retry;
          state.phase = over ? Phase::done : Phase::again;
          state.expired = !over;
        }
      free(partition);
    }
  }
  // What time does up to `now`, one thing after the other.
  void advance(std::int64_t now) {
    while (true) {
      std::int64_t next = now;
      for (const auto& [name, partition] : partitions_) {
        for (const Stored& one : partition.messages)
          if (one.there && options_.ttl_seconds > 0)
            next = std::min(next, one.at + options_.ttl_seconds * kSecond);
        for (const auto& [group, states] : partition.groups)
          for (const auto& [seq, state] : states)
            if (state.phase == Phase::leased && partition.messages[seq].there)
              next = std::min(next, state.until);
      }
      age(next);
      if (next == now) return;
    }
  }
  std::int64_t length() const {
    std::int64_t out = 0;
    for (const auto& [name, partition] : partitions_)
      out += std::count_if(partition.messages.begin(), partition.messages.end(),
                           [](const Stored& one) { return one.there; });
    return out;
  }
  Drops drops;

 private:
  enum class Phase { fresh, leased, again, done };
  struct State {
    Phase phase = Phase::fresh;
    std::uint32_t deliveries = 0;
    std::int64_t failures = 0, until = 0;
    bool expired = false;
  };
  struct Stored {
    std::string payload;
    std::int64_t at = 0;
    std::uint64_t order = 0;
    bool there = true;
  };
  struct Partition {
    std::vector<Stored> messages;  // by sequence number, for good
    std::map<std::string, std::map<std::size_t, State>> groups;
  };
  static std::int64_t size(const std::string& text) { return static_cast<std::int64_t>(text.size()); }
  std::int64_t held_bytes() const {
    std::int64_t out = 0;
    for (const auto& [name, partition] : partitions_)
      for (const Stored& one : partition.messages) out += one.there ? size(one.payload) : 0;
    return out;
  }
  Stored* oldest() {
    Stored* out = nullptr;
    for (auto& [name, partition] : partitions_)
      for (Stored& one : partition.messages)
        if (one.there && (out == nullptr || one.order < out->order)) out = &one;
    return out;
  }
  static void drop(Stored& message, std::uint64_t& counter) {
    message.there = false;
    ++counter;
  }
  // The oldest goes while every group is done with it.
  static void free(Partition& partition) {
    if (partition.groups.empty()) return;
    for (std::size_t seq = 0; seq < partition.messages.size(); ++seq) {
      if (!partition.messages[seq].there) continue;
      for (auto& [group, states] : partition.groups)
        if (states[seq].phase != Phase::done) return;
      partition.messages[seq].there = false;
    }
  }

  const Declaration options_;
  std::map<std::string, Partition> partitions_;
  std::set<std::string> groups_;
  std::uint64_t order_ = 0;
};

// In a property and in a plain test alike.
void check(bool right, std::source_location at = std::source_location::current()) {
  if (!right)
    throw std::logic_error("the engine does not do what the model does, line " + std::to_string(at.line()));
}

// A delivery that an ack may name.
struct Delivery {
  Message message;
  std::string group;
  std::size_t seq = 0;
};

class Story {
 public:
  explicit Story(const Declaration& options) : model_(options) { rig_.declare("q", options); }

  void run(const std::vector<std::uint32_t>& numbers) {
    for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
      step(numbers[i], numbers[i + 1]);
      model_.age(rig_.clock.mono_us());
      const QueueView view = rig_.view("q");
      check(static_cast<std::int64_t>(view.depth) == model_.length());
      check(view.drops.bounds == model_.drops.bounds);
      check(view.drops.ttl == model_.drops.ttl);
      check(view.drops.retry == model_.drops.retry);
    }
    rig_.engine.remove(Rig::named("q"));
    check(rig_.engine.bytes() == 0);
  }

 private:
  void step(std::uint32_t what, std::uint32_t how) {
    const std::int64_t now = rig_.clock.mono_us();
    const std::string partition(1, static_cast<char>('a' + how % 3));
    const std::string group(1, static_cast<char>('x' + how / 3 % 3));
    switch (what % 8) {
      case 0:
      case 1: {
        std::vector<std::string> payloads;
        for (std::uint32_t i = 0; i <= how / 3 % 4; ++i)
          payloads.push_back(std::to_string(++pushed_) + std::string(how / 12 % 5, '.'));
        const bool in = model_.push(partition, payloads, now);
        check((rig_.push("q", payloads, partition).empty()) == in);
        return;
      }
      case 2:
      case 3:
        return pop(group, 1 + how / 9 % 4, how / 36 % 4 == 0);
      case 4:
      case 5:
        return ack(how);
      case 6:
        rig_.executor.run_for(how % 3 == 0 ? how % 4 * kSecond : how % 1000);
        return model_.advance(rig_.clock.mono_us());
      default:
        if (how % 10 == 0)
          check(static_cast<std::int64_t>(rig_.engine.reset(Rig::named("q"))) == model_.reset(now));
    }
  }

  void pop(const std::string& group, std::uint32_t batch, bool commit) {
    PopRequest request = Rig::asking("q", group, batch);
    request.commit = commit;
    const auto pop = rig_.send(std::move(request));
    check(pop->text() == model_.pop(group, batch, commit, rig_.clock.mono_us()));
    for (const Message& message : pop->messages)
      delivered_.push_back({message, group, std::stoul(message.id.substr(message.id.rfind(':') + 1))});
  }

  void ack(std::uint32_t how) {
    if (delivered_.empty()) return;
    const Delivery& one = delivered_[how / 3 % delivered_.size()];
    const auto status = static_cast<Status>(how % 3);
    const std::string expected =
        model_.ack(one.message.partition, one.seq, one.group, status, rig_.clock.mono_us());
    check(rig_.ack("q", {one.message}, status, one.group) == expected);
  }

  Rig rig_;
  Model model_;
  std::uint32_t pushed_ = 0;
  std::vector<Delivery> delivered_;
};

Declaration options_of(std::uint32_t number) {
  Declaration out;
  out.max_length = 4 + number % 9;
  out.max_bytes = 30 + number / 9 % 5 * 10;
  out.policy = number / 45 % 2 == 0 ? Policy::reject : Policy::drop_oldest;
  out.ttl_seconds = number / 90 % 3 == 0 ? 3 : 0;
  out.lease_seconds = 1 + number / 270 % 3;
  out.retry_limit = 1 + number / 810 % 3;
  return out;
}

RC_GTEST_PROP(EphemeralRandom, DoesWhatTheModelDoes,
              (std::uint32_t options, const std::vector<std::uint32_t>& numbers)) {
  Story(options_of(options)).run(numbers);
}

// Rapidcheck's own lists are short: long ones from a seed.
TEST(EphemeralRandom, DoesWhatTheModelDoesForLong) {
  SeededRandom random(2024);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::uint32_t> numbers;
    for (int k = 0; k < 300; ++k) numbers.push_back(static_cast<std::uint32_t>(random.next() >> 33));
    const auto options = static_cast<std::uint32_t>(random.next() >> 33);
    SCOPED_TRACE(i);
    Story(options_of(options)).run(numbers);
    if (testing::Test::HasFailure()) return;
  }
}

// Pops that wait, are cancelled and run out of time, with windows and without: each group gets every message
// of a partition once and in order.
TEST(EphemeralRandom, ParkedPopsLoseNothingAndRepeatNothing) {
  SeededRandom random(7);
  for (int round = 0; round < 200; ++round) {
    Rig rig;
    Declaration options;
    options.window_ms = round % 2 == 0 ? 0 : 50;
    options.window_count = round % 4 == 1 ? 2 : 0;
    rig.declare("q", options);
    std::map<std::string, std::vector<int>> got;  // by group and partition
    std::vector<std::shared_ptr<Rig::Pop>> pops;
    std::vector<std::pair<std::string, std::shared_ptr<Rig::Pop>>> answered_later;
    for (const char* group : {"x", "y"}) rig.pop("q", group);
    int pushed = 0;
    std::map<std::string, int> count;
    const auto collect = [&] {
      std::erase_if(answered_later, [&](const auto& one) {
        if (!one.second->answered) return false;
        for (const Message& message : one.second->messages)
          got[one.first + message.partition].push_back(std::stoi(*message.payload));
        return true;
      });
    };
    for (int step = 0; step < 150; ++step) {
      const auto dice = random.next() % 100;
      const std::string partition(1, static_cast<char>('a' + random.next() % 3));
      const std::string group(1, static_cast<char>('x' + random.next() % 2));
      if (dice < 40) {
        rig.push("q", {std::to_string(pushed++)}, partition);
        ++count[partition];
      } else if (dice < 80) {
        PopRequest request = Rig::asking("q", group, static_cast<std::uint32_t>(1 + random.next() % 3));
        request.commit = true;
        request.wait_until_us = rig.clock.mono_us() + static_cast<std::int64_t>(random.next() % 200'000);
        if (random.next() % 3 == 0) request.partition = partition;
        answered_later.emplace_back(group, rig.send(std::move(request)));
        pops.push_back(answered_later.back().second);
      } else if (dice < 90) {
        rig.executor.run_for(static_cast<std::int64_t>(random.next() % 100'000));
      } else if (!pops.empty()) {
        rig.engine.cancel_pop(pops[random.next() % pops.size()]->id);
      }
      collect();
    }
    rig.executor.run_for(kSecond);
    collect();
    for (const std::string group : {"x", "y"}) {
      PopRequest request = Rig::asking("q", group, 1000);
      request.commit = true;
      answered_later.emplace_back(group, rig.send(std::move(request)));
    }
    collect();
    for (const std::string group : {"x", "y"})
      for (const auto& [partition, total] : count) {
        const auto& seen = got[group + partition];
        ASSERT_EQ(static_cast<int>(seen.size()), total) << round << group << partition;
        ASSERT_TRUE(std::is_sorted(seen.begin(), seen.end())) << round << group << partition;
      }
    ASSERT_EQ(rig.depth("q"), 0U);
    ASSERT_EQ(rig.engine.parked(), 0U);
  }
}

}  // namespace
}  // namespace queen::ephemeral
