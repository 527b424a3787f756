// Keeps which work of other streams is ordered before a stream's next work, by events and by waits of the host, and
// which memory the unordered work writes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "recorder/preload/driver/digester.h"

namespace msda::record {

// Streams have the trail's numbers. Not thread-safe.
class StreamOrder {
 public:
  // Adds a stream. If it is independent, neither it nor the default stream waits for the other.
  void created(cuda::Stream stream, bool is_independent);

  // Begins the next work on the stream.
  void begin(cuda::Stream stream, size_t number);
  // Returns whether other streams' work that nothing orders before it writes memory that it reaches.
  bool is_unordered(std::span<const DeviceRange> reaches) const;
  // Adds what it writes; if that is not known, what it may write.
  void writes(std::span<const DeviceRange> ranges);

  void recorded(cuda::Event event, size_t number);
  void waits(size_t number, cuda::Event event);
  // The host knows that the device has finished what came before the event, or all of a stream's work, or all work.
  void host_waited(cuda::Event event);
  void host_waited(size_t number);
  void host_waited();

 private:
  using Clock = std::vector<uint64_t>;  // of each stream, how much of its work is known to be done before
  Clock& clock_of(size_t number);
  static void merge(Clock& to, const Clock& from);

  struct Work {
    uint64_t number;
    std::vector<DeviceRange> writes;
  };
  struct Stream {
    Clock clock;
    std::deque<Work> last;
    bool is_independent = false, is_default = false;
  };
  std::vector<Stream> streams_;
  std::map<cuda::Event, Clock> events_;
  std::set<cuda::Stream> independent_;
  Clock host_;
  size_t current_ = 0;
};

}  // namespace msda::record
