#include "workload.h"

#include <array>

namespace queen::crash {

using machine::Command;
using machine::Outcome;

namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::string_view kNamespace = "ns";
constexpr std::uint64_t kKinds = 120;  // of steps

NodeOptions small_files() {
  NodeOptions options;
  options.logs.segment_bytes = 1500;
  options.logs.prealloc_bytes = 300;
  options.logs.prealloc_min_syncs = 2;
  options.upkeep.seal_age_us = 30 * kSecond;
  options.upkeep.min_dead_pct = 0;
  return options;
}

}  // namespace

std::vector<Shape> shapes() {
  std::vector<Shape> all{{"log per queue", small_files()},
                         {"two shards", small_files()},
                         {"two lanes, copies of entries", small_files()},
                         {"nothing ahead, no descriptors kept", small_files()}};
  all[1].options.logs.layout_if_new.shards = 2;
  all[2].options.logs.layout_if_new.lanes = 2;
  all[2].options.logs.entry_copies = true;
  all[3].options.logs.precreate = false;
  all[3].options.logs.prealloc_bytes = 0;
  all[3].options.logs.fd_cache = 0;
  return all;
}

void CountingLog::write(LogLevel, std::string_view, std::string_view event,
                        std::span<const LogField> fields) {
  if (event != "reclaimed" && event != "idle_pass") return;
  for (const auto& field : fields)
    if (const auto sum = sums_.find(field.key); sum != sums_.end()) sum->second += std::stoi(field.text);
}

Workload::Workload(disk::RamDisk& disk, NodeOptions options, std::uint64_t seed)
    : did_{{"committed", 0}, {"rolled back", 0}, {"rewritten", 0},   {"unlinked", 0}, {"sealed", 0},
           {"removed", 0},   {"asked", 0},       {"looked back", 0}, {"fired", 0}},
      node_(disk, clock_, std::move(options), log_),
      random_(seed) {
  models_[0] = std::make_shared<Model>();
}

Status Workload::start() {
  return node_.open();
}

std::optional<std::uint64_t> Workload::digest_at(std::uint64_t index) const {
  const auto found = digests_.find(index);
  if (found == digests_.end()) return std::nullopt;
  return found->second;
}

Uuid Workload::uuid() {
  Uuid id;
  const std::uint64_t number = ++uuids_;
  for (std::size_t i = 0; i < 8; ++i) id.bytes[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
  return id;
}

std::vector<Outcome> Workload::submit(std::vector<Asks> entries) {
  std::vector<Planned> group;
  std::vector<Outcome> outcomes;
  for (auto& asks : entries) {
    std::vector<Command> commands;
    for (const auto& one : asks) commands.push_back(one.command);
    auto planned = node_.plan(commands);
    outcomes = planned.outcomes;
    if (planned.index == 0) continue;
    auto model = std::make_shared<Model>(*models_.at(planned.index - 1));
    for (std::size_t i = 0; i < asks.size(); ++i) {
      if (!planned.outcomes[i].code.empty())
        wrong_ = planned.outcomes[i].code + ": " + planned.outcomes[i].error;
      model->planned(commands[i], planned.outcomes[i], asks[i].numbers);
    }
    model->entry(*planned.entry);
    models_[planned.index] = std::move(model);
    written_ = planned.index;
    if (on_planned) on_planned(planned);
    group.push_back(std::move(planned));
  }
  if (group.empty()) return outcomes;
  if (auto done = node_.write_and_sync(group); !done) {
    if (node_.stopped()) return {};
    ++refused_;
    written_ = answered_;
    models_.erase(models_.upper_bound(answered_), models_.end());
    return {};
  }
  answer(group);
  return outcomes;
}

void Workload::answer(const std::vector<Planned>& group) {
  for (const auto& planned : group) {
    if (auto done = node_.apply({planned}); !done) {
      wrong_ = "apply: " + done.error().what;
      return;
    }
    answered_ = planned.index;
    digests_[planned.index] = node_.store().digest();
  }
}

Workload::Ask Workload::push(std::vector<std::pair<std::string, std::string>> places, int items) {
  machine::PushCommand command;
  std::vector<std::vector<std::uint32_t>> numbers;
  for (const auto& [queue, partition] : places) {
    std::vector<std::uint32_t> own;
    for (int i = 0; i < items; ++i) own.push_back(++numbers_);
    command.batches.push_back(message_batch(queue, partition, own));
    numbers.push_back(std::move(own));
  }
  Ask made = ask(std::move(command));
  made.numbers = std::move(numbers);
  return made;
}

// One key is put, counted up or deleted; beside it a check that holds, or one that is lost and told so.
Workload::Ask Workload::put_kv() {
  using machine::KvKind;
  constexpr std::array kKinds = {KvKind::put, KvKind::put, KvKind::incr, KvKind::incr, KvKind::del};
  machine::KvCommand command;
  machine::KvOp& op = command.ops.emplace_back();
  op.kind = kKinds.at(pick(kKinds.size()));
  op.ns = kNamespace;
  op.key = "k" + std::to_string(pick(5));
  if (op.kind == KvKind::put) op.value = std::to_string(++numbers_);
  if (op.kind == KvKind::incr) op.delta = std::to_string(static_cast<int>(pick(9)) - 4);
  machine::KvOp check;
  check.kind = KvKind::check;
  check.ns = kNamespace;
  check.key = "never there";
  check.expect = pick(2);
  check.required = check.expect == 0U;
  command.ops.push_back(std::move(check));
  return ask(std::move(command));
}

void Workload::push_some() {
  submit({{push({{queue(), partition()}}, 1 + static_cast<int>(pick(4)))}});
}

// Several entries in one group, one of them into two queues.
void Workload::push_group() {
  std::vector<Asks> entries;
  entries.push_back({push({{"q0", "p0"}, {"q1", "p1"}}, 2)});
  entries.push_back({put_kv(), push({{queue(), partition()}}, 1)});
  entries.push_back({push({{"q1", "p1"}, {"q2", "p0"}}, 1)});
  submit(std::move(entries));
}

void Workload::push_again() {
  const Model& model = model_at(answered_);
  for (const auto& [pid, row] : model.partitions) {
    if (row.numbers.empty()) continue;
    const std::uint32_t last = row.numbers.back();
    machine::PushCommand command;
    command.batches.push_back(message_batch(row.queue, row.partition, {last, ++numbers_}));
    Ask made = ask(std::move(command));
    made.numbers = {{last, numbers_}};
    submit({{std::move(made)}});
    return;
  }
}

machine::AckCommand Workload::pop_some() {
  machine::PopCommand pop;
  pop.queue = queue();
  pop.batch = 3;
  pop.subscription.mode = machine::Subscription::Mode::all;
  pop.lease_id = uuid();
  pop.queue_uuid = uuid();
  pop.group_uuid = uuid();
  const std::string lease = pop.lease_id.str();
  const auto outcomes = submit_with_facts(ask(pop));
  machine::AckCommand ack;
  if (outcomes.empty() || node_.stopped()) return ack;
  const auto* popped = std::get_if<machine::PopOutcome>(&outcomes[0].body);
  if (popped == nullptr) return ack;
  judge_claims(pop, *popped);
  if (!wrong_.empty()) return ack;
  for (const auto& claim : popped->claims) {
    const auto& numbers = model_at(answered_).partitions.at(claim.pid.value).numbers;
    for (std::uint64_t offset = claim.first; offset <= claim.last; ++offset) {
      machine::AckItem item;
      item.partition_id = std::to_string(claim.pid.value);
      item.lease_id = lease;
      item.transaction_id = transaction_id(numbers.at(offset));
      item.hash = xxh3_128(item.transaction_id);
      item.dlq_id = uuid();
      ack.items.push_back(std::move(item));
    }
  }
  return ack;
}

void Workload::pop_and_ack() {
  const machine::AckCommand ack = pop_some();
  if (ack.items.empty()) return;
  const auto answers = submit_with_facts(ask(ack));
  if (!answers.empty() && !node_.stopped()) judge_ack(ack, std::get<machine::AckOutcome>(answers[0].body));
}

// Watermarks over half or all of a partition; one in which nothing is left goes.
void Workload::retain(bool all) {
  clock_.advance(20 * kSecond);
  machine::RetentionCommand command;
  command.cleanup_us = 1;
  const Model& model = model_at(answered_);
  for (const auto& [pid, row] : model.partitions) {
    const auto configured = model.retention_seconds.find(row.queue);
    if (configured == model.retention_seconds.end() || configured->second == 0 || row.appends.empty())
      continue;
    machine::RetentionMove move;
    move.pid = Pid{pid};
    move.log_start_from = row.log_start;
    move.remove = row.log_start == row.appends.back().end;
    std::size_t live = 0;
    while (live < row.appends.size() && row.appends[live].end <= row.log_start) ++live;
    const std::size_t left = row.appends.size() - live;
    const std::size_t until = live + (all ? left : (left + 1) / 2);
    if (until > live) {
      const AppendFact& last = row.appends[until - 1];
      move.log_start = move.txns_start = move.rows_start = last.end;
      move.log_stamp = move.txns_stamp = move.rows_stamp = last.created_at;
      for (std::size_t i = live; i < until; ++i) move.retained_bytes += row.appends[i].raw_bytes;
      if (until < row.appends.size()) move.oldest_live_at = row.appends[until].created_at;
    }
    command.moves.push_back(std::move(move));
    if (!all) break;
  }
  if (!command.moves.empty()) submit({{ask(std::move(command))}});
}

void Workload::configure() {
  machine::ConfigureCommand command;
  command.queue = queue();
  command.integers = {{"retentionEnabled", 1},
                      {"retentionSeconds", 1 + static_cast<std::int64_t>(pick(3))},
                      {"dedupWindowSeconds", 10},
                      {"leaseTime", 5}};
  command.queue_uuid = uuid();
  submit({{ask(std::move(command))}});
}

void Workload::delete_queue() {
  machine::QueueDeleteCommand command;
  command.queue = queue();
  submit({{ask(std::move(command))}});
  if (!node_.stopped()) submit({{ask(machine::GarbageCommand{})}});
}

void Workload::restart(bool orderly) {
  if (orderly) {
    if (auto done = node_.stop(); !done) return node_.kill();
  } else {
    node_.kill();
  }
  if (auto done = node_.open(); !done) refused_boot_ = done.error().what;
}

void Workload::step(int kind) {
  clock_.advance(kSecond / 3);
  const auto did = [this](const char* what) { ++did_[what]; };
  const std::uint64_t cuts = node_.checkpointer().cut_durable();
  if (kind < 19) {
    did("push"), push_some();
  } else if (kind < 25) {
    did("transaction"), transact();
  } else if (kind < 33) {
    did("group"), push_group();
  } else if (kind < 37) {
    did("repeat"), push_again();
  } else if (kind < 43) {
    did("kv"), submit({{put_kv()}});
  } else if (kind < 55) {
    did("pop"), pop_and_ack();
  } else if (kind < 61) {
    did("configure"), configure();
  } else if (kind < 69) {
    did("retain"), retain(false);
  } else if (kind < 72) {
    did("retain all"), retain(true);
  } else if (kind < 74) {
    did("delete"), delete_queue();
  } else if (kind < 80) {
    did("cut"), node_.begin_checkpoint();
  } else if (kind < 88) {
    did("checkpoint"), node_.begin_checkpoint(), node_.run_checkpoint();
  } else if (kind < 97) {
    did("upkeep"), node_.upkeep(65 * kSecond);
  } else if (kind < 100) {
    did("restart"), restart(kind < 99);
    return;
  } else if (kind < 103) {
    did("scrub"), scrub();
  } else if (kind < 108) {
    did("drop rows"), drop_rows();
  } else if (kind < 110) {
    did("ack again"), ack_again();
  } else if (kind < 115) {
    did("timers"), schedule_timers();
  } else {
    fire_timers();
  }
  if (node_.stopped() || !wrong_.empty()) return;
  if (const auto differs = difference(model_at(answered_), node_, reads); !differs.empty())
    wrong_ = "while running, step " + std::to_string(kind) + ": " + differs;
  if (node_.checkpointer().cut_durable() != cuts && on_checkpoint) on_checkpoint();
}

void Workload::run(int steps) {
  for (int i = 0; i < steps && !node_.stopped() && node_.is_open() && wrong_.empty(); ++i)
    step(static_cast<int>(pick(kKinds)));
}

void Workload::run_every_kind() {
  const std::vector<int> kinds{
      56, 57, 58, 0,  1,  26,  34,  38, 44, 85, 93,  2,  62,  85,  93, 85,  110, 111, 115, 116, 112, 93,
      27, 45, 75, 3,  84, 70,  85,  93, 85, 93, 4,   98, 113, 117, 28, 71,  85,  93,  71,  85,  93,  85,
      93, 73, 85, 93, 85, 93,  99,  5,  6,  39, 35,  46, 63,  85,  93, 7,   26,  103, 8,   47,  109, 104,
      85, 98, 48, 49, 50, 109, 100, 71, 85, 93, 101, 20, 21,  26,  22, 103, 23,  85,  93,  98};
  for (const int kind : kinds)
    if (!node_.stopped() && node_.is_open() && wrong_.empty()) step(kind);
}

}  // namespace queen::crash
