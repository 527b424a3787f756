#include "recorder/preload/survey/trial.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "recorder/preload/driver/neighbour.h"
#include "recorder/preload/driver/saver.h"
#include "recorder/preload/survey/first_sight.h"

namespace msda::record {
namespace {

// Returns whether an attribute says how launches overlap with others, or names an event that shows it:
// CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, PROGRAMMATIC_EVENT, LAUNCH_COMPLETION_EVENT,
// DEVICE_UPDATABLE_KERNEL_NODE.
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
  for (const cuda::LaunchAttribute& attribute : launched.attributes) {
    if (!orders_launches(attribute.id)) attributes.push_back(attribute);
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

bool Trial::reserve(const Launched& launched, const Reach& reach, CopySpace& space, int64_t& left_on_host,
                    const ExtraLaunches& extra) {
  stream_ = launched.stream;
  extra_ = extra;
  pieces_.clear();
  uint64_t end = 0;
  const auto take = [&](uint64_t bytes) { return std::exchange(end, end + aligned(bytes)); };
  for (const auto& [address, bytes] : reach.ranges()) {
    const uint64_t flags = bytes / kBytesOfFlag + 1;
    pieces_.push_back({address, take(bytes), take(bytes), take(flags), bytes});
  }
  shared_ = WatchedMemory(reach.shared, take);
  const uint64_t counts = take(sizeof(uint64_t) * static_cast<uint64_t>(std::max(extra.count, kAlone.count) + 2));
  const cuda::DevicePointer begin = space.reserve(end, left_on_host);
  for (SettledPiece& piece : pieces_) {
    for (uint64_t* place : {&piece.before, &piece.after, &piece.flags}) *place += begin;
  }
  shared_.copies_begin_at(begin);
  counts_ = begin + counts;
  return begin != 0;
}

// Returns copies from what the launch reaches to what was saved before the launch; if `back`, the other way.
std::vector<SavedPiece> Trial::copies(bool back) const {
  std::vector<SavedPiece> copies;
  for (const SettledPiece& piece : pieces_) {
    copies.push_back(back ? SavedPiece{piece.before, piece.address, piece.bytes}
                          : SavedPiece{piece.address, piece.before, piece.bytes});
  }
  return copies;
}

bool Trial::save(const DeviceRange& pointed_to) const {
  return shared_.keep(stream_) && Saver::instance().save(copies(/*back=*/false), pointed_to, stream_);
}

bool Trial::put_back_before() const { return Saver::instance().copy(copies(/*back=*/true), stream_); }

bool Trial::settle(Settling settling, int count) const {
  const cuda::DevicePointer at = counts_ + sizeof(uint64_t) * static_cast<uint64_t>(count);
  return Settler::instance().start(pieces_, settling, at, stream_);
}

// The neighbour is there only as long as the launch: other launches have the device for themselves. Before the first
// launch the stream has nothing that it could disturb.
bool Trial::launch_extra(const Launched& launched, int number, const ExtraLaunches& extra) const {
  if (!extra.is_beside(number)) return launch_again(launched) == cuda::kSuccess;
  if (number > 0 && cuda::driver().synchronize(stream_) != cuda::kSuccess) return false;
  Neighbour::instance().begin();
  const cuda::Result result = launch_again(launched);
  Neighbour::instance().end_after(stream_);
  return result == cuda::kSuccess;
}

bool Trial::begin(const Launched& launched) { return settle(Settling::kKeep, 0) && enqueue(launched, extra_); }

bool Trial::begin_alone(const Launched& launched) {
  return put_back_before() &&
         cuda::driver().set_bytes(counts_ + sizeof(uint64_t), 0, sizeof(uint64_t), stream_) == cuda::kSuccess &&
         enqueue(launched, kAlone);
}

bool Trial::enqueue(const Launched& launched, const ExtraLaunches& extra) const {
  for (int number = 0; number < extra.count; ++number) {
    const bool is_last = number + 1 == extra.count;
    if (!launch_extra(launched, number, extra) ||
        !settle(is_last ? Settling::kCompareAndEnd : Settling::kCompare, number + 1)) {
      return put_back_result() && false;
    }
  }
  return Settler::instance().bring(counts_ + sizeof(uint64_t), static_cast<size_t>(extra.count), stream_);
}

std::vector<DeviceRange> Trial::ranges() const {
  std::vector<DeviceRange> ranges;
  for (const SettledPiece& piece : pieces_) ranges.push_back({piece.address, piece.bytes});
  return ranges;
}

bool Trial::launch_other(const Launched& launched, cuda::Function function, int number) const {
  Launched twin = launched;
  twin.function = function;
  return launch_extra(twin, number, extra_);
}

std::optional<bool> Trial::repeats(const Launched& launched, cuda::Function function, int times) {
  std::optional<std::vector<Digest>> first;
  bool is_equal = true, is_done = true;
  for (int time = 0; time < times && is_equal && is_done; ++time) {
    is_done = put_back_before() && launch_other(launched, function, time);
    auto now = is_done ? digests_of(ranges(), stream_) : std::nullopt;
    is_done = now.has_value();
    is_equal = !is_done || time == 0 || *now == *first;
    if (time == 0) first = std::move(now);
  }
  const bool is_back = put_back_result() && cuda::driver().synchronize(stream_) == cuda::kSuccess;
  return is_done && is_back ? std::optional(is_equal) : std::nullopt;
}

}  // namespace msda::record
