#include "runner.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/invariant.h"

#ifdef QUEEN_COVERAGE
extern "C" void __gcov_dump();  // of libgcov: the counts of a process that ends by _exit()
#endif

namespace queen::sim {
namespace {

[[noreturn]] void end_process() {
  std::fflush(nullptr);
#ifdef QUEEN_COVERAGE
  __gcov_dump();
#endif
  _exit(0);
}

constexpr std::uint64_t kChunk = 32;              // seeds that a worker takes at a time
constexpr std::uint64_t kSeedsPerProcess = 4000;  // lives that were cut short leave memory behind
constexpr std::size_t kTextMax = 600;
constexpr std::size_t kFailuresKept = 64;
constexpr const char* kEnded = "the process ends";

struct SharedFailure {
  std::uint64_t seed = 0;
  char rule[64] = {};
  char what[kTextMax] = {};
};

// In memory that all processes share. Counters are added to by the workers, each in its own part.
struct Part {
  std::uint64_t histories = 0, with_sink = 0, lives = 0, messages = 0, calls = 0, answers = 0, steps = 0,
                twice = 0, digest = 0;
  std::int64_t virtual_us = 0;
  std::uint64_t seed = 0;  // that runs now; 0 = none
  std::uint64_t chunk_next = 0, chunk_end = 0;
  bool done = false;
};
struct Shared {
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> failures{0};
  std::atomic<bool> stop{false};
  SharedFailure failed[kFailuresKept];
  Part parts[64];
};

template <std::size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  const std::size_t size = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), size);
  to[size] = 0;
}

void add_failure(Shared& shared, std::uint64_t seed, const std::string& rule, const std::string& what) {
  const std::uint64_t at = shared.failures.fetch_add(1);
  if (at >= kFailuresKept) return;
  shared.failed[at].seed = seed;
  copy_text(shared.failed[at].rule, rule);
  copy_text(shared.failed[at].what, what);
}

void run_one(Shared& shared, Part& part, std::uint64_t seed, const RunOptions& options) {
  if (options.only == Only::small && size_of(seed) != Size::small) return;
  const HistoryPlan plan = plan_of(seed);
  if (options.only == Only::small && plan.lake.sink) return;
  if (options.only == Only::sink && !plan.lake.sink) return;
  part.seed = seed;
  const Verdict verdict = run_history(plan, Story::Keep::nothing);
  if (verdict.failed()) add_failure(shared, seed, verdict.rule, verdict.what);
  if (options.twice_every != 0 && seed % options.twice_every == 0) {
    ++part.twice;
    const Verdict again = run_history(plan, Story::Keep::nothing);
    if (again.digest != verdict.digest)
      add_failure(shared, seed, "the same seed, the same end",
                  fmt::format("{:016x} and {:016x}", verdict.digest, again.digest));
  }
  ++part.histories;
  part.with_sink += plan.lake.sink ? 1 : 0;
  part.lives += verdict.lives;
  part.messages += verdict.messages;
  part.calls += verdict.calls;
  part.answers += verdict.answers;
  part.steps += verdict.steps;
  part.virtual_us += verdict.virtual_us;
  part.digest += (verdict.digest ^ seed) * 0x9E3779B97F4A7C15ULL;
  part.seed = 0;
}

void work(Shared& shared, Part& part, const RunOptions& options) {
  for (std::uint64_t ran = 0; ran < kSeedsPerProcess && !shared.stop;) {
    if (part.chunk_next == part.chunk_end) {
      part.chunk_next = shared.next.fetch_add(kChunk);
      part.chunk_end = std::min(part.chunk_next + kChunk, options.last + 1);
      if (part.chunk_next > options.last) {
        part.chunk_next = part.chunk_end;
        part.done = true;
        return;
      }
    }
    // Taken before it runs: the next process goes on behind it.
    run_one(shared, part, part.chunk_next++, options);
    ++ran;
  }
}

Shared* make_shared_memory() {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  INVARIANT(memory != MAP_FAILED, "no shared memory");
  return new (memory) Shared;
}

pid_t start_worker(Shared& shared, Part& part, const RunOptions& options,
                   const std::function<void()>& before) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  INVARIANT(pid >= 0, "fork failed");
  if (pid != 0) return pid;
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (before) before();
  work(shared, part, options);
  end_process();
}

RunReport report_of(const Shared& shared, int jobs) {
  RunReport report;
  for (int i = 0; i < jobs; ++i) {
    const Part& part = shared.parts[i];
    report.histories += part.histories;
    report.with_sink += part.with_sink;
    report.lives += part.lives;
    report.messages += part.messages;
    report.calls += part.calls;
    report.answers += part.answers;
    report.steps += part.steps;
    report.twice += part.twice;
    report.digest += part.digest;
    report.virtual_us += part.virtual_us;
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(shared.failures, kFailuresKept); ++i)
    report.failures.push_back({shared.failed[i].seed, shared.failed[i].rule, shared.failed[i].what});
  std::sort(report.failures.begin(), report.failures.end(),
            [](const Failure& one, const Failure& other) { return one.seed < other.seed; });
  return report;
}

}  // namespace

Size size_of(std::uint64_t seed) {
  return seed % 32 == 0 ? Size::large : Size::small;
}

HistoryPlan plan_of(std::uint64_t seed) {
  return make_plan(seed, size_of(seed));
}

RunReport run_seeds(const RunOptions& options, const std::function<void()>& before) {
  Shared& shared = *make_shared_memory();
  shared.next = options.first;
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<pid_t> workers(static_cast<std::size_t>(options.jobs));
  for (std::size_t i = 0; i < workers.size(); ++i)
    workers[i] = start_worker(shared, shared.parts[i], options, before);
  rusage used{};
  double cpu = 0;
  for (std::size_t alive = workers.size(); alive > 0;) {
    if (options.seconds_max && passed() > static_cast<double>(*options.seconds_max)) shared.stop = true;
    if (shared.failures >= options.failures_max) shared.stop = true;
    int status = 0;
    const pid_t ended = wait4(-1, &status, WNOHANG, &used);
    if (ended <= 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    cpu += static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    const auto at =
        static_cast<std::size_t>(std::find(workers.begin(), workers.end(), ended) - workers.begin());
    Part& part = shared.parts[at];
    if (status != 0) {
      add_failure(shared, part.seed, kEnded,
                  fmt::format("signal {}, exit status {}", WTERMSIG(status), WEXITSTATUS(status)));
      ++part.histories;
    }
    if (part.done || shared.stop) {
      --alive;
    } else {
      workers[at] = start_worker(shared, part, options, before);
    }
  }
  RunReport report = report_of(shared, options.jobs);
  report.seconds = passed();
  report.cpu_seconds = cpu;
  munmap(&shared, sizeof(Shared));
  return report;
}

Verdict run_apart(const HistoryPlan& plan, Story::Keep keep, std::size_t story_lines) {
  int ends[2];
  INVARIANT(pipe(ends) == 0, "no pipe");
  std::fflush(nullptr);
  const pid_t pid = fork();
  INVARIANT(pid >= 0, "fork failed");
  if (pid == 0) {
    close(ends[0]);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    const Verdict verdict = run_history(plan, keep, story_lines);
    const std::string text =
        fmt::format("{:016x}\n{}\n{}\n{}", verdict.digest, verdict.rule, verdict.what, verdict.story);
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t wrote = write(ends[1], text.data() + at, text.size() - at);
      if (wrote <= 0) break;
      at += static_cast<std::size_t>(wrote);
    }
    end_process();
  }
  close(ends[1]);
  std::string text;
  char buffer[65536];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  Verdict verdict;
  if (status != 0) {
    verdict.rule = kEnded;
    verdict.what = fmt::format("signal {}, exit status {}", WTERMSIG(status), WEXITSTATUS(status));
    return verdict;
  }
  const auto line = [&text] {
    const std::size_t end = text.find('\n');
    std::string out = text.substr(0, end);
    text.erase(0, end == std::string::npos ? text.size() : end + 1);
    return out;
  };
  verdict.digest = std::stoull(line(), nullptr, 16);
  verdict.rule = line();
  verdict.what = line();
  verdict.story = std::move(text);
  return verdict;
}

}  // namespace queen::sim
