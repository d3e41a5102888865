#include "place_book.h"

#include <algorithm>

#include "broker/groups.h"

namespace queen::sim {
namespace {

std::string text_of(const Place& place) {
  if (const auto* at = std::get_if<AtOffset>(&place)) return fmt::format("offset {}", at->offset);
  if (const auto* since = std::get_if<SinceStamp>(&place)) return fmt::format("stamp {}", since->us);
  const auto& moment = std::get<AtMoment>(place);
  return fmt::format("the end between {} and {}", moment.before_us, moment.after_us);
}

}  // namespace

void PlaceBook::registered(const std::string& group, Place start) {
  auto& known = groups_[group];
  if (!known.start) known.start = start;
}

void PlaceBook::contact(const std::string& group, const std::optional<std::string>& partition, Place start,
                        bool given) {
  if (!partition) return registered(group, start);
  const bool noted = given || std::holds_alternative<AtMoment>(start);
  auto& known = groups_[group];
  if (noted && !known.start) known.places.try_emplace(*partition, start);
}

void PlaceBook::subscribed(const std::string& group, std::int64_t from_us) {
  if (is_registered(group)) groups_[group].start = SinceStamp{from_us};
}

void PlaceBook::placed(const std::string& group, const std::string& partition, Place place) {
  groups_[group].places[partition] = place;
}

void PlaceBook::forgotten(const std::string& group, const std::string& partition) {
  groups_[group].places.erase(partition);
}

void PlaceBook::deleted(const std::string& group, bool registration_too) {
  groups_[group].places.clear();
  if (registration_too) groups_[group].start.reset();
}

void PlaceBook::given(const std::string& group, const std::string& partition, std::int64_t first) {
  const auto& known = groups_[group];
  const auto place = known.places.find(partition);
  given_.push_back({group, partition, place == known.places.end() ? *known.start : place->second, first});
  placed(group, partition, AtOffset{first});
}

bool PlaceBook::fits(const Place& place, std::int64_t first, const std::vector<LogRecord>& records) const {
  if (const auto* at = std::get_if<AtOffset>(&place)) return first == at->offset;
  const auto end = static_cast<std::int64_t>(records.size());
  if (first > end) return false;
  if (const auto* since = std::get_if<SinceStamp>(&place)) {
    const auto found = std::partition_point(records.begin(), records.end(),
                                            [&](const LogRecord& one) { return one.ts_us < since->us; });
    return first == found - records.begin();
  }
  const auto& moment = std::get<AtMoment>(place);
  const auto stamp = [&](std::int64_t offset) { return records[static_cast<std::size_t>(offset)].ts_us; };
  return (first == 0 || stamp(first - 1) <= moment.after_us) &&
         (first == end || stamp(first) > moment.before_us);
}

void PlaceBook::check(const std::map<PartitionName, PartitionRead>& logs, SimNode& node) {
  for (const auto& one : given_)
    if (!fits(one.place, one.first, logs.at({queue_, one.partition}).records))
      return story_.violate("a group reads on where it stands", "{} in {}: given {} on, stood at {}",
                            one.group, one.partition, one.first, text_of(one.place));
  for (const auto& [group, known] : groups_) {
    std::vector<broker::PositionAsk> asked;
    for (const auto& [partition, place] : known.places) asked.push_back({queue_, partition});
    for (const auto& answer :
         node.broker().groups().positions(std::string(kDefaultTenant), group, std::move(asked))) {
      const Place& place = known.places.at(answer.partition);
      const auto& records = logs.at({queue_, answer.partition}).records;
      if (answer.offset && !fits(place, static_cast<std::int64_t>(*answer.offset), records))
        return story_.violate("a group reads on where it stands", "{} in {}: said to be at {}, stood at {}",
                              group, answer.partition, *answer.offset, text_of(place));
    }
  }
}

}  // namespace queen::sim
