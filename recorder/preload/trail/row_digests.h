// Digests what rows of a trail wrote, right behind their work on its own stream; no thread waits for the digests.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "recorder/preload/driver/digester.h"
#include "recorder/preload/trail/trail_rows.h"

namespace msda::record {

// A part of what a row wrote: a number that distinguishes it from the row's others, and where it lies.
using RowPart = std::pair<uint32_t, DeviceRange>;

// Not thread-safe.
class RowDigests {
 public:
  explicit RowDigests(TrailRows& rows) : rows_(rows) {}

  // Starts the digests of a row. Needs the stream's context to be current. Returns false if the row gets no digest.
  bool start(uint64_t row, std::span<const RowPart> parts, cuda::Stream stream);
  // Hands the digests that the device has finished over to their rows.
  void collect();
  bool are_under_way() const { return !under_way_.empty(); }
  // Gives up the digests that the device will not finish.
  void give_up();

 private:
  bool start_some(uint64_t row, std::span<const RowPart> parts, cuda::Stream stream);

  struct Part {
    uint32_t number;
    uint64_t bytes;
  };
  struct UnderWay {
    uint64_t row;
    Digests digests;
    std::vector<Part> parts;
  };
  TrailRows& rows_;
  std::deque<UnderWay> under_way_;
  std::vector<DeviceRange> ranges_;  // of the next launch: room that is used again
};

}  // namespace msda::record
