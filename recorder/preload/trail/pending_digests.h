// Memory that is to be digested before somebody writes it again: several rows' at a time, by one launch of the recorder's.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "recorder/preload/driver/digester.h"
#include "recorder/preload/trail/trail_rows.h"

namespace msda::record {

// All of it is of one stream at a time. Not thread-safe.
class PendingDigests {
 public:
  explicit PendingDigests(TrailRows& rows) : rows_(rows) {}

  // A part of what the row's work on the stream writes; it is digested later on that stream. Needs the stream's context
  // to be current.
  void add(uint64_t row, uint32_t part, const DeviceRange& range, cuda::Stream stream);
  // Work on this stream is about to write this memory.
  void before_write(std::span<const DeviceRange> ranges, cuda::Stream stream);
  // Work on this stream is about to come; other streams' work has to be digested before.
  void before_work(cuda::Stream stream) {
    if (!pending_.empty() && stream != stream_) start();
  }
  // Gives the device what is to be digested. Needs no context.
  void start();
  // The device will not digest any more of it.
  void give_up();
  // Hands over to the rows what the device has digested.
  void collect();
  // Waits until it has digested all that it was given. False if that takes longer than so many seconds.
  bool wait(double seconds);

 private:
  struct Part {
    uint64_t row;
    uint32_t part;
    uint64_t bytes;
  };
  struct UnderWay {
    Digests digests;
    std::vector<Part> parts;
  };
  void fail();

  TrailRows& rows_;
  cuda::Stream stream_ = nullptr;
  cuda::Context context_ = nullptr;
  std::vector<DeviceRange> pending_;
  std::vector<Part> parts_;  // of each
  std::deque<UnderWay> under_way_;
};

}  // namespace msda::record
