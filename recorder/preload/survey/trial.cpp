#include "recorder/preload/survey/trial.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <thread>

#include "recorder/preload/driver/comparer.h"
#include "recorder/preload/driver/neighbour.h"
#include "recorder/preload/survey/first_sight.h"

namespace msda::record {
namespace {

constexpr uint64_t kAlignment = 512;  // as the driver aligns allocations

uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

uint64_t copied(std::span<const DeviceRange> ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), uint64_t{0},
                         [](uint64_t sum, const DeviceRange& range) { return sum + aligned(range.bytes); });
}

// Attributes that say how launches overlap with others, and events that tell of them: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_
// STREAM_SERIALIZATION, PROGRAMMATIC_EVENT, LAUNCH_COMPLETION_EVENT, DEVICE_UPDATABLE_KERNEL_NODE.
bool orders_launches(int attribute) {
  constexpr int kOverlap = 6, kEventInside = 7, kEventAtStart = 12, kUpdatable = 13;
  return attribute == kOverlap || attribute == kEventInside || attribute == kEventAtStart || attribute == kUpdatable;
}

}  // namespace

cuda::Result launch_again(const Launched& launched) {
  const auto &grid = launched.grid, &block = launched.block;
  if (launched.attributes.empty()) {
    return cuda::driver().launch(launched.function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                 launched.shared_bytes, launched.stream, launched.parameters, launched.extra);
  }
  std::vector<cuda::LaunchAttribute> attributes;
  for (const cuda::LaunchAttribute& one : launched.attributes) {
    if (!orders_launches(one.id)) attributes.push_back(one);
  }
  const cuda::LaunchConfig config{{grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]},
                                  launched.shared_bytes,       launched.stream,
                                  attributes.data(),           static_cast<unsigned>(attributes.size())};
  constexpr cuda::Result kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED
  if (cuda::driver().launch_ex == nullptr) return kNotSupported;
  return cuda::driver().launch_ex(&config, launched.function, launched.parameters, launched.extra);
}

bool wait_for(cuda::Stream stream, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (;;) {
    const cuda::Result state = cuda::driver().query(stream);
    if (state != cuda::kNotReady) return state == cuda::kSuccess;
    const std::chrono::duration<double> waited = Clock::now() - begin;
    if (waited.count() > seconds) return false;
    if (waited.count() > 300e-6) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

bool Trial::reserve(const Launched& launched, const Reach& reach, CopySpace& space, const ExtraLaunches& extra) {
  stream_ = launched.stream;
  extra_ = extra;
  ranges_.assign(reach.ranges().begin(), reach.ranges().end());
  shared_ = reach.shared;
  const uint64_t of_one = copied(ranges_), of_shared = copied(shared_);
  const uint64_t of_counts = sizeof(uint64_t) * (ranges_.size() * static_cast<uint64_t>(extra.count) + shared_.size());
  before_ = space.reserve(2 * of_one + 2 * of_shared + of_counts);
  after_ = before_ + of_one;
  shared_before_ = after_ + of_one;
  shared_after_ = shared_before_ + of_shared;
  counts_ = shared_after_ + of_shared;
  return before_ != 0;
}

bool Trial::begin() { return copy(before_, Direction::kAside) && copy_shared(shared_before_); }

bool Trial::copy(cuda::DevicePointer copies, Direction direction) const {
  for (const DeviceRange& range : ranges_) {
    const bool back = direction == Direction::kBack;
    const cuda::DevicePointer to = back ? range.address : copies, from = back ? copies : range.address;
    if (cuda::driver().copy_on_device(to, from, range.bytes, stream_) != cuda::kSuccess) return false;
    copies += aligned(range.bytes);
  }
  return true;
}

bool Trial::copy_shared(cuda::DevicePointer copies) const {
  for (const DeviceRange& range : shared_) {
    if (cuda::driver().copy_anywhere == nullptr ||
        cuda::driver().copy_anywhere(copies, range.address, range.bytes, stream_) != cuda::kSuccess) {
      return false;
    }
    copies += aligned(range.bytes);
  }
  return true;
}

std::optional<bool> Trial::changed_shared_memory() const {
  if (shared_.empty()) return false;
  std::vector<ComparedPiece> pieces;
  uint64_t at = 0;
  for (const DeviceRange& range : shared_) {
    pieces.push_back({shared_before_ + at, shared_after_ + at, range.bytes});
    at += aligned(range.bytes);
  }
  std::vector<uint64_t> counts(shared_.size());
  const size_t bytes = sizeof(uint64_t) * counts.size();
  const cuda::Driver& driver = cuda::driver();
  if (!copy_shared(shared_after_) || driver.set_bytes(counts_, 0, bytes, stream_) != cuda::kSuccess ||
      !Comparer::instance().start(pieces, counts_, stream_) ||
      driver.copy_to_host(counts.data(), counts_, bytes, stream_) != cuda::kSuccess ||
      driver.synchronize(stream_) != cuda::kSuccess) {
    return std::nullopt;
  }
  return std::ranges::any_of(counts, [](uint64_t words) { return words > 0; });
}

bool Trial::launch_on_copy(const Launched& launched) const {
  if (!copy(before_, Direction::kBack)) return false;
  if (!extra_.beside_neighbour) return launch_again(launched) == cuda::kSuccess;
  // It is there as long as the launch, and no longer: the program's own launches have the device for themselves.
  Neighbour& neighbour = Neighbour::instance();
  if (cuda::driver().synchronize(stream_) == cuda::kSuccess) neighbour.begin();
  const cuda::Result result = launch_again(launched);
  neighbour.end_after(stream_);
  neighbour.wait();
  return result == cuda::kSuccess;
}

// Runs the launch again on what it found, and compares. False if the driver refuses.
bool Trial::run_again(const Launched& launched, int time) const {
  std::vector<ComparedPiece> pieces;
  cuda::DevicePointer other = after_;
  for (const DeviceRange& range : ranges_) {
    pieces.push_back({range.address, other, range.bytes});
    other += aligned(range.bytes);
  }
  const cuda::DevicePointer counts = counts_ + sizeof(uint64_t) * ranges_.size() * static_cast<uint64_t>(time);
  return launch_on_copy(launched) && Comparer::instance().start(pieces, counts, stream_);
}

Trial::Result Trial::run(const Launched& launched) {
  Result result;
  std::vector<uint64_t> counts(ranges_.size() * static_cast<size_t>(extra_.count));
  const size_t bytes = sizeof(uint64_t) * counts.size();
  if (!copy(after_, Direction::kAside) || cuda::driver().set_bytes(counts_, 0, bytes, stream_) != cuda::kSuccess) {
    result.trouble = "the driver does not copy its memory";
    return result;
  }
  int done = 0;
  while (done < extra_.count && run_again(launched, done)) ++done;
  const bool is_back = copy(after_, Direction::kBack);
  if (cuda::driver().copy_to_host(counts.data(), counts_, bytes, stream_) != cuda::kSuccess || !is_back ||
      cuda::driver().synchronize(stream_) != cuda::kSuccess) {
    result.trouble = "the driver failed";
    return result;
  }
  if (done < extra_.count) result.trouble = "the driver does not launch it again";
  for (int time = 0; time < done; ++time) {
    const auto of_time = counts.begin() + time * std::ssize(ranges_);
    result.differing.push_back(std::accumulate(of_time, of_time + std::ssize(ranges_), uint64_t{0}));
  }
  return result;
}

std::optional<bool> Trial::repeats(const Launched& launched, cuda::Function function, int times) {
  Launched other = launched;
  other.function = function;
  std::optional<std::vector<Digest>> first;
  bool is_equal = true, is_done = true;
  for (int time = 0; time < times && is_equal && is_done; ++time) {
    is_done = launch_on_copy(other);
    auto now = is_done ? digests_of(ranges_, stream_) : std::nullopt;
    is_done = now.has_value();
    is_equal = !is_done || time == 0 || *now == *first;
    if (time == 0) first = std::move(now);
  }
  const bool is_back = copy(after_, Direction::kBack) && cuda::driver().synchronize(stream_) == cuda::kSuccess;
  return is_done && is_back ? std::optional(is_equal) : std::nullopt;
}

}  // namespace msda::record
