#include "recorder/preload/trail/pending_digests.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "recorder/preload/driver/own_calls.h"

namespace msda::record {

void PendingDigests::add(uint64_t row, uint32_t part, const DeviceRange& range, cuda::Stream stream) {
  if (range.bytes == 0) return;
  before_work(stream);
  if (pending_.empty()) cuda::driver().current_context(&context_);
  stream_ = stream;
  rows_.awaits(row);
  pending_.push_back(range);
  parts_.push_back({row, part, range.bytes});
  if (pending_.size() == Digester::kMostRanges) start();
}

void PendingDigests::before_write(std::span<const DeviceRange> ranges, cuda::Stream stream) {
  before_work(stream);
  const auto overlaps = [](const DeviceRange& a, const DeviceRange& b) {
    return a.address < b.address + b.bytes && b.address < a.address + a.bytes;
  };
  for (const DeviceRange& range : ranges) {
    const auto hits = [&](const DeviceRange& other) { return overlaps(range, other); };
    if (std::ranges::any_of(pending_, hits)) return start();
  }
}

void PendingDigests::fail() {
  for (const Part& part : parts_) rows_.failed(part.row);
  parts_.clear();
}

void PendingDigests::give_up() {
  pending_.clear();
  fail();
  for (const UnderWay& launch : std::exchange(under_way_, {})) {
    for (const Part& part : launch.parts) rows_.failed(part.row);
  }
}

void PendingDigests::start() {
  if (pending_.empty()) return;
  const InContext current(context_);
  std::string failure;
  int capturing = 0;
  Digests digests;
  if (cuda::driver().is_capturing(stream_, &capturing) == cuda::kSuccess && capturing == 0) {
    digests = Digester::instance().start(pending_, stream_, failure);
  }
  pending_.clear();
  if (!digests) return fail();
  under_way_.push_back({std::move(digests), std::exchange(parts_, {})});
}

void PendingDigests::collect() {
  while (!under_way_.empty() && under_way_.front().digests.ready()) {
    const auto& [digests, parts] = under_way_.front();
    for (size_t i = 0; i < parts.size(); ++i) rows_.arrived(parts[i].row, parts[i].part, digests[i], parts[i].bytes);
    under_way_.pop_front();
  }
}

bool PendingDigests::wait(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    collect();
    if (under_way_.empty()) return true;
    if (std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(seconds)) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace msda::record
