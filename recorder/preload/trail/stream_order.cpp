#include "recorder/preload/trail/stream_order.h"

#include <algorithm>
#include <utility>

namespace msda::record {

void StreamOrder::created(cuda::Stream stream, bool is_independent) {
  if (is_independent) {
    independent_.insert(stream);
  } else {
    independent_.erase(stream);
  }
}

void StreamOrder::merge(Clock& to, const Clock& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
}

StreamOrder::Clock& StreamOrder::clock_of(size_t number) {
  if (streams_.size() <= number) streams_.resize(number + 1);
  Clock& clock = streams_[number].clock;
  if (clock.size() < streams_.size()) clock.resize(streams_.size());
  return clock;
}

void StreamOrder::begin(cuda::Stream stream, size_t number) {
  Clock& clock = clock_of(number);
  Stream& mine = streams_[number];
  mine.is_default = stream == nullptr;
  mine.is_independent = independent_.contains(stream);
  merge(clock, host_);
  // The default stream waits for the others, and they wait for it, except for independent streams.
  for (const Stream& peer : streams_) {
    if ((mine.is_default && !peer.is_independent) || (peer.is_default && !mine.is_independent)) {
      merge(clock, peer.clock);
    }
  }
  ++clock[number];
  current_ = number;
}

bool StreamOrder::is_unordered(std::span<const DeviceRange> reaches) const {
  const Clock& clock = streams_[current_].clock;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (i == current_) continue;
    const uint64_t known = i < clock.size() ? clock[i] : 0;
    const auto& last = streams_[i].last;
    for (auto work = last.rbegin(); work != last.rend() && work->number > known; ++work) {
      if (overlap(reaches, work->writes)) return true;
    }
  }
  return false;
}

void StreamOrder::writes(std::span<const DeviceRange> ranges) {
  constexpr size_t kMost = 256;
  Stream& mine = streams_[current_];
  Work work{mine.clock[current_], {}};
  if (mine.last.size() >= kMost) {  // the oldest one's room is used again
    work.writes = std::move(mine.last.front().writes);
    mine.last.pop_front();
  }
  work.writes.assign(ranges.begin(), ranges.end());
  mine.last.push_back(std::move(work));
}

void StreamOrder::recorded(cuda::Event event, size_t number) { events_[event] = clock_of(number); }

void StreamOrder::waits(size_t number, cuda::Event event) {
  if (const auto found = events_.find(event); found != events_.end()) merge(clock_of(number), found->second);
}

void StreamOrder::host_waited(cuda::Event event) {
  if (const auto found = events_.find(event); found != events_.end()) merge(host_, found->second);
}

void StreamOrder::host_waited(size_t number) { merge(host_, clock_of(number)); }

void StreamOrder::host_waited() {
  for (const Stream& stream : streams_) merge(host_, stream.clock);
}

}  // namespace msda::record
