#include "sink_watch.h"

#include <charconv>

namespace queen::sim {
namespace {

constexpr std::int64_t kScrapeEveryUs = 1'500 * kMsUs;

class SinkWatch final : public Workload {
 public:
  explicit SinkWatch(Scene& scene) : scene_(scene), tasks_(scene.clients.lane) {}

  std::string_view name() const override { return "sink watch"; }
  void start() override {
    client_ = scene_.new_client();
    tasks_.start(watch());
  }
  bool ended() const override { return tasks_.ended(); }
  void check() override { scrape(); }

 private:
  using Samples = std::map<std::string, double>;  // by name and labels

  Task<void> watch() {
    while (!scene_.quiet && !scene_.story.failed()) {
      co_await client_->sleep(kScrapeEveryUs);
      scrape();
    }
  }

  void scrape() {
    if (!scene_.node.up() || scene_.node.dark()) return;
    if (life_ != scene_.node.lives()) last_.clear();
    life_ = scene_.node.lives();
    for (std::size_t i = 0; i < scene_.node.sinks(); ++i) {
      if (scene_.node.sink_healthy(i) &&
          scene_.node.sink_status(i).find(R"("reachable":false)") != std::string::npos)
        scene_.story.violate("health is not overstated", "sink {}: a bucket does not answer", i);
      compare(i, samples_of(scene_.node.sink_metrics(i)));
    }
  }

  // Lines of the text format; what is no sample and no comment is a violation.
  Samples samples_of(const std::string& text) {
    Samples out;
    std::string_view rest = text;
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      if (line.empty() || line.starts_with('#')) continue;
      const std::size_t space = line.rfind(' ');
      double value = 0;
      if (space != std::string_view::npos) {
        const auto read = std::from_chars(line.data() + space + 1, line.data() + line.size(), value);
        if (read.ec == std::errc{} && out.emplace(line.substr(0, space), value).second) continue;
      }
      scene_.story.violate("metrics are samples, each once", "{}", line);
    }
    return out;
  }

  // What counts never goes back while the node lives.
  void compare(std::size_t sink, Samples samples) {
    for (const auto& [name, value] : last_[sink]) {
      const auto now = samples.find(name);
      if (name.find("_total") == std::string::npos || now == samples.end() || now->second >= value) continue;
      scene_.story.violate("counters never go back", "sink {}: {} was {}, is {}", sink, name, value,
                           now->second);
    }
    last_[sink] = std::move(samples);
  }

  Scene& scene_;
  Tasks tasks_;
  std::unique_ptr<Client> client_;
  std::uint64_t life_ = 0;
  std::map<std::size_t, Samples> last_;  // by sink
};

}  // namespace

std::unique_ptr<Workload> make_sink_watch(Scene& scene) {
  return std::make_unique<SinkWatch>(scene);
}

}  // namespace queen::sim
