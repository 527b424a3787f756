// Which work of other streams is ordered before a stream's next work, by events and waits of the host; and which memory
// such work writes that is not.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "recorder/preload/driver/digester.h"

namespace msda::record {

// Streams have the numbers of the trail. Not thread-safe.
class StreamOrder {
 public:
  // A stream that does not wait for the default stream, nor that one for it.
  void created(cuda::Stream stream, bool is_independent);

  // The next work on the stream comes.
  void begin(cuda::Stream stream, size_t number);
  // Whether memory that it reaches is written by other streams' work that nothing orders before it.
  bool is_unordered(std::span<const DeviceRange> reaches) const;
  // What it writes, or, where that is not known, may write.
  void writes(std::span<const DeviceRange> ranges);

  void recorded(cuda::Event event, size_t number);
  void waits(size_t number, cuda::Event event);
  // The host knows that the device is done with what came before the event, or with all of a stream's work, or with
  // all.
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
