// One launch, run again on the same memory: before it everything that it reaches is copied; after it come the extra
// launches, each on that copy, and each compared with the program's own; then the program's result is put back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recorder/preload/launch/launch.h"
#include "recorder/preload/survey/copy_space.h"
#include "recorder/preload/survey/reach.h"

namespace msda::record {

// Launches again what the program launched, without what orders it among the program's other launches.
cuda::Result launch_again(const Launched& launched);

// Waits until the stream has nothing left to do. False if it fails, or works for longer than `seconds`.
bool wait_for(cuda::Stream stream, double seconds);

class Trial {
 public:
  // Copies what the launch reaches into `space`, which has to have room for two copies. False if it has not, or the
  // driver refuses.
  bool begin(const Launched& launched, const Reach& reach, CopySpace& space, int times);
  // Whether the stream has done the program's own launch after so many seconds. If not, the launch must not run again:
  // it may wait for something that this thread is about to do.
  bool is_launch_done(double seconds) const { return wait_for(stream_, seconds); }

  struct Result {
    std::string trouble;              // why it ended early; empty if it did not
    std::vector<uint64_t> differing;  // for each extra launch: the 32-bit words that differ from the program's own
  };
  Result run(const Launched& launched);
  // After that: whether this function, with the program's parameters on the memory that the program's launch found,
  // gives equal results so many times. Nothing if the driver refuses.
  std::optional<bool> repeats(const Launched& launched, cuda::Function function, int times);

 private:
  enum class Direction { kAside, kBack };
  bool copy(cuda::DevicePointer copies, Direction direction) const;
  bool run_again(const Launched& launched, int time) const;

  cuda::Stream stream_ = nullptr;
  int times_ = 0;  // extra launches
  std::vector<DeviceRange> ranges_;
  cuda::DevicePointer before_ = 0, after_ = 0;  // copies
  cuda::DevicePointer counts_ = 0;              // a number for each extra launch and range
};

}  // namespace msda::record
