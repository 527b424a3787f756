// Runs one launch again on the same memory. Before the launch everything that it reaches is copied; after it what it
// changed is kept. Then each extra launch runs on the copy, and is compared with the program's own. At last the
// program's result is put back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "recorder/device/save_launch.h"
#include "recorder/preload/driver/settler.h"
#include "recorder/preload/launch/launch.h"
#include "recorder/preload/survey/copy_space.h"
#include "recorder/preload/survey/reach.h"
#include "recorder/preload/survey/watched_memory.h"

namespace msda::record {

// Launches again what the program launched, without what orders it among the program's other launches.
cuda::Result launch_again(const Launched& launched);

// Waits until the stream has nothing left to do. Returns false if it fails, or works for longer than `seconds`.
bool wait_for(cuda::Stream stream, double seconds);

struct ExtraLaunches {
  int count = 2;
  bool beside_neighbour = true;  // every second one, but not the last; the neighbour occupies a part of the device
  bool is_beside(int number) const { return beside_neighbour && (count - number) % 2 == 0; }
};

class Trial {
 public:
  static constexpr ExtraLaunches kAlone{20, false};

  // Takes room for two copies of what the launch reaches. Returns false if there is none.
  bool reserve(const Launched& launched, const Reach& reach, CopySpace& space, int64_t& left_on_host,
               const ExtraLaunches& extra);
  // Begins to copy it, and to look for words in it that are addresses in `pointed_to`, but in nothing that is copied.
  // Returns false if the driver refuses.
  bool save(const DeviceRange& pointed_to) const;
  // Returns whether the stream has done the program's own launch after so many seconds. If not, the launch must not run
  // again: it may wait for something that this thread is about to do.
  bool is_launch_done(double seconds) const { return wait_for(stream_, seconds); }

  // Call it after is_launch_done(). Returns whether the launch changed memory of the host or of another device, and so
  // must not run again; nothing if the driver refuses.
  std::optional<bool> changed_shared_memory() const { return shared_.is_changed(stream_); }

  // Enqueues the extra launches and all that they need. Returns false if the driver refuses.
  bool begin(const Launched& launched);
  // As begin(), for the launches of kAlone. Call it after end().
  bool begin_alone(const Launched& launched);
  // Waits for them. Returns for each extra launch how many 32-bit words differ from the program's own; nothing if the
  // device failed. No other trial may begin before.
  static std::optional<std::vector<uint64_t>> end() { return Settler::instance().brought(); }
  // Call it after end(). Returns whether this function, with the program's parameters on the memory that the program's
  // launch found, gives equal results so many times; nothing if the driver refuses.
  std::optional<bool> repeats(const Launched& launched, cuda::Function function, int times);
  // Launches the function with the program's parameters, on memory as it is, as the extra launch of this number would
  // be: beside a neighbour, or alone. Returns false if the driver refuses.
  bool launch_other(const Launched& launched, cuda::Function function, int number) const;

  const ExtraLaunches& extra() const { return extra_; }

  // ranges() returns what the launch reaches; pieces(), after end(), what it found there and left. The others put
  // memory back, and return false if the driver refuses.
  std::vector<DeviceRange> ranges() const;
  std::span<const SettledPiece> pieces() const { return pieces_; }
  bool put_back_before() const;
  bool put_back_result() const { return settle(Settling::kCompareAndEnd, 0); }

 private:
  std::vector<SavedPiece> copies(bool back) const;
  bool settle(Settling settling, int count) const;
  bool launch_extra(const Launched& launched, int number, const ExtraLaunches& extra) const;
  bool enqueue(const Launched& launched, const ExtraLaunches& extra) const;

  cuda::Stream stream_ = nullptr;
  ExtraLaunches extra_;
  std::vector<SettledPiece> pieces_;
  WatchedMemory shared_;
  cuda::DevicePointer counts_ = 0;  // a number for each extra launch, one before them, and one after
};

}  // namespace msda::record
