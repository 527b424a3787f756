// Copies the memory that a graph's launch reaches, as the launch found it and as it left it. These are plain copies:
// whatever happens between, the program gets its own result.
#pragma once

#include <optional>
#include <vector>

#include "recorder/preload/survey/copy_space.h"
#include "recorder/preload/survey/graph_steps.h"
#include "recorder/preload/survey/reach.h"
#include "recorder/preload/survey/watched_memory.h"

namespace msda::record {

// Adds what the steps' parameters point into. Copies to memory that is not the device's are left out.
void add_reach_of(const std::vector<GraphStep>& steps, Reach& reach);

// Returns whether it copies to memory of the host or of another device. Somebody may be reading that, so the copy is
// not repeated.
bool leaves_device(const CopyStep& copy);
// Returns whether something reads memory that such a copy writes, and so would find what the graph's end left there.
bool reads_what_left(const std::vector<GraphStep>& steps, const Reach& reach);

class GraphMemory {
 public:
  // Returns false if there is no room.
  bool reserve(const Reach& reach, CopySpace& space, int64_t& left_on_host, cuda::Stream stream);

  // All of these run in the order of the stream, and return false if the driver refuses. The first two look in what
  // they copy for words that are addresses in `all` but in nothing that they copy (Saver).
  bool keep_before(const DeviceRange& all) const { return shared_.keep(stream_) && copy(ranges_, before_, all); }
  bool keep_result(const DeviceRange& all) const { return copy(ranges_, result_, all); }
  bool put_back_before() const { return copy(before_, ranges_, {}); }
  bool put_back_result() const { return copy(result_, ranges_, {}); }

  // Returns whether memory of the host or of another device is other than before. Nothing if the driver refuses.
  std::optional<bool> changed_shared() const { return shared_.is_changed(stream_); }

 private:
  using Ranges = std::vector<DeviceRange>;
  bool copy(const Ranges& from, const Ranges& to, const DeviceRange& all) const;

  cuda::Stream stream_ = nullptr;
  Ranges ranges_, before_, result_;
  WatchedMemory shared_;
};

}  // namespace msda::record
