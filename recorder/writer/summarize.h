// Summaries of tensors that arrive in parts. How a tensor is divided changes no bit of its summary.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "recorder/capture/stage_summary.h"

namespace msda::record {

// A part of a tensor: it begins at `offset` and has this shape. Its numbers are row-major.
struct Box {
  std::vector<int64_t> offset, shape;

  int64_t elements() const;
  // Returns the index in the whole tensor of element `flat` of the part.
  std::vector<int64_t> index_of(int64_t flat) const;
};

// The exact sum of the magnitudes of finite numbers, which is the same in any order and cannot overflow: for each
// exponent the sum of the significands, in two halves, for at most 2^37 numbers.
class MagnitudeSum {
 public:
  void add(uint64_t bits) {
    const uint64_t exponent = (bits >> 52) & 0x7ff, fraction = bits & ((uint64_t{1} << 52) - 1);
    const uint64_t significand = exponent == 0 ? fraction : fraction | uint64_t{1} << 52;
    high_[exponent] += significand >> 26;
    low_[exponent] += significand & ((uint64_t{1} << 26) - 1);
  }
  double mean(int64_t count) const;

 private:
  std::array<uint64_t, 2047> high_{}, low_{};
};

class Summarizer {
 public:
  // `smallest_normal` is that of the numbers' type.
  explicit Summarizer(double smallest_normal) : smallest_normal_(smallest_normal) {}
  void add(std::span<const double> numbers, const Box& box);
  capture::StageSummary summary() const;

 private:
  double smallest_normal_;
  capture::StageSummary counted_;  // except what depends on the whole tensor
  MagnitudeSum magnitudes_;
};

// The distance between the numbers of one run and those of the float64 run.
class Differences {
 public:
  void add(std::span<const double> numbers, std::span<const double> float64, const Box& box);
  // `float64` is the summary of the float64 run.
  capture::StageInFloat64 beside(const capture::StageSummary& float64) const;

 private:
  capture::StageInFloat64 found_;
};

}  // namespace msda::record
