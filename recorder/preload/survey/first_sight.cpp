#include "recorder/preload/survey/first_sight.h"

#include <algorithm>
#include <string>
#include <utility>

#include "recorder/preload/launch/known_launch.h"

namespace msda::record {

std::optional<std::vector<Digest>> digests_of(std::span<const DeviceRange> ranges, cuda::Stream stream) {
  std::vector<Digest> all;
  std::string failure;
  while (!ranges.empty()) {
    const auto some = ranges.first(std::min(Digester::kMostRanges, ranges.size()));
    const Digests of_some = Digester::instance().start(some, stream, failure);
    if (!of_some || !wait_for(of_some, stream)) return std::nullopt;
    for (size_t i = 0; i < some.size(); ++i) all.push_back(of_some[i]);
    ranges = ranges.subspan(some.size());
  }
  return all;
}

bool FirstSight::begin(std::vector<DeviceRange> allocations, cuda::Stream stream) {
  allocations_ = std::move(allocations);
  stream_ = stream;
  auto found = digests_of(allocations_, stream_);
  if (found) before_ = std::move(*found);
  return found.has_value();
}

std::optional<Touched> FirstSight::end(const Reach& reach) const {
  const auto after = digests_of(allocations_, stream_);
  if (!after) return std::nullopt;
  Touched touched = Touched::kNothing;
  for (size_t i = 0; i < allocations_.size(); ++i) {
    if ((*after)[i] == before_[i]) continue;
    if (!reach.has(allocations_[i].address)) return Touched::kOthers;
    touched = Touched::kNamed;
  }
  return touched;
}

}  // namespace msda::record
