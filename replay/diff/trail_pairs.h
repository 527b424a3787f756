// What is equal and what is not in each pair of rows of two trails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/diff/trail_alignment.h"

namespace msda::replay {

enum class PairResult : uint8_t {
  kEqual,
  kDiffers,
  kDoubtful,  // the digests differ, which also cover memory that the launches did not change
  kUnknown
};

struct ComparedPair {
  size_t a, b;
  PairResult result;
  bool other_code, other_configuration, other_parameters;
};

std::vector<ComparedPair> compare_pairs(const TrailRun& a, const TrailRun& b, const TrailAlignment& alignment);

// Returns "the copy from the host", "the memset".
const char* text_of(capture::TrailKind kind);

}  // namespace msda::replay
