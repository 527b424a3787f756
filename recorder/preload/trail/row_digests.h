// Digests what rows of a trail wrote, behind their work on its own stream; no thread waits for the digests. A launch
// costs the program more time than anything else that a trail does, so one digests what several rows wrote. Their
// memory must not change before it: whoever is about to give a stream work that may change it calls flush() first.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "recorder/preload/driver/digester.h"
#include "recorder/preload/trail/trail_rows.h"

namespace msda::record {

// A part of what a row wrote.
struct RowPart {
  uint32_t number;  // distinguishes it from the row's others
  DeviceRange range;
  uint8_t before = 0;  // so many of the first bytes, less than 16, are not of the part, and count as zeros
};

// Not thread-safe.
class RowDigests {
 public:
  explicit RowDigests(TrailRows& rows) : rows_(rows) {}

  // Digests the parts of a row with those of later rows, at flush() at the latest. `context` is the stream's. If the
  // device does not digest them, the row gets no digest.
  void add(uint64_t row, std::span<const RowPart> parts, cuda::Context context, cuda::Stream stream);
  // Returns whether rows wait for flush() whose parts must be digested before the device writes to these ranges, in
  // this stream: work in another stream may do so at any time.
  bool must_flush_before(std::span<const DeviceRange> ranges, cuda::Context context, cuda::Stream stream) const;
  // Gives the device the digests of the rows that wait for it.
  void flush();
  // Hands the digests that the device has finished over to their rows.
  void collect();
  bool are_under_way() const { return !under_way_.empty(); }
  // Gives up the digests that the device will not finish.
  void give_up();

 private:
  struct Part {
    uint64_t row;
    uint32_t number;
    uint64_t bytes;
  };
  struct UnderWay {
    Digests digests;
    std::vector<Part> parts;  // in the order of their rows
  };
  // Calls `end` with the number of each row that has any of these parts.
  template <class End>
  static void for_each_row(const std::vector<Part>& parts, End&& end);

  TrailRows& rows_;
  std::deque<UnderWay> under_way_;
  // What waits for flush(), all of one stream.
  cuda::Context context_ = nullptr;
  cuda::Stream stream_ = nullptr;
  std::vector<Part> parts_;
  std::vector<DeviceRange> ranges_;  // of the parts
  std::vector<uint8_t> before_;      // of each
  uint64_t bytes_ = 0;               // of all ranges
};

}  // namespace msda::record
