// A recorded trail and its run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "recorder/capture/capture.h"
#include "recorder/capture/trail.h"

namespace msda::replay {

struct TrailRun {
  std::string file;
  capture::Trail trail;
  capture::Run run;
  std::vector<capture::Seed> seeds;
  std::vector<uint32_t> launches;  // for each row: kernels launched up to it, itself included

  const capture::TrailRow& row(size_t at) const { return trail.rows[at]; }
  const capture::TrailKernel& kernel(size_t at) const;  // an empty one if the row has none
  const capture::TrailCaller& caller(size_t at) const;  // the same
  // Returns null if the row has none.
  const capture::TrailConfiguration* configuration(size_t at) const;
  const std::string& parts(size_t at) const;
  // Returns the bytes of the launch's parameters; addresses are Trail::kAddress.
  std::vector<std::byte> parameters(size_t at) const;
  std::string fact(const char* name) const;  // of /run; empty if there is none
  // Returns whether the program may have launched more than the trail has, as if it was killed.
  bool has_ended_early() const { return fact(capture::kTrailEnd) == capture::kEarly; }
};

// Throws BadInput if the file holds no trail; its message says how to record one.
TrailRun read_trail_run(const std::string& file);

bool is_launch(const capture::TrailRow& row);  // whether a kernel, a graph or an operator was launched
bool is_collective(const TrailRun& run, size_t row);
// Returns whether both rows have a digest, and of the same bytes.
bool is_comparable(const TrailRun& a, size_t row_a, const TrailRun& b, size_t row_b);

// A word of parameters that differs, of eight bytes, or fewer at the end. kAddress stands for an address.
struct ParameterDifference {
  size_t offset;
  uint64_t a, b;
  bool in_a, in_b;  // its offset lies within them
};
std::vector<ParameterDifference> parameter_differences(const TrailRun& a, size_t row_a, const TrailRun& b,
                                                       size_t row_b);

}  // namespace msda::replay
