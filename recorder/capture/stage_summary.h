// Summarizes a stage's tensor and its distance from a float64 run. This shows where a gradient vanishes or explodes and
// where the arithmetic is unstable, even if the tensor itself is too large to keep.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msda::capture {

// A number of a tensor and where it lies; the first such place in row-major order.
struct Extreme {
  double value = 0;
  std::vector<int64_t> index;
};

struct StageSummary {
  int64_t count = 0, finite = 0, nan = 0, positive_infinite = 0, negative_infinite = 0;
  int64_t zeros = 0;
  int64_t subnormal = 0;                    // in the arithmetic's type, zeros left out
  std::optional<Extreme> minimum, maximum;  // of the finite numbers, as are the next two; absent if there is none
  std::optional<double> mean_magnitude, largest_magnitude;
};

// The same stage computed in float64 from the same inputs, and the differences between the two, over the numbers that
// are finite in both.
struct StageInFloat64 {
  StageSummary summary;
  std::optional<Extreme> largest_absolute_difference;
  std::optional<Extreme> largest_relative_difference;  // to float64's magnitude, where that is not 0
  int64_t differing_finiteness = 0;  // numbers that are not finite in one, and not the same in the other
};

struct StageFacts {
  std::string arithmetic;  // "float32", or "float64" where an input is float64
  StageSummary summary;
  std::optional<StageInFloat64> float64;  // absent where the arithmetic is float64 anyway
};

// Calls visit(name, field) for each attribute of a summary in the file, for writer and reader. An Extreme is two
// attributes: NAME and NAME_index.
template <class Summary, class Visit>
void for_each_summary_attribute(Summary& summary, Visit&& visit) {
  visit("count", summary.count);
  visit("finite", summary.finite);
  visit("nan", summary.nan);
  visit("positive_infinite", summary.positive_infinite);
  visit("negative_infinite", summary.negative_infinite);
  visit("zeros", summary.zeros);
  visit("subnormal", summary.subnormal);
  visit("minimum", summary.minimum);
  visit("maximum", summary.maximum);
  visit("mean_magnitude", summary.mean_magnitude);
  visit("largest_magnitude", summary.largest_magnitude);
}

// Calls visit(name, field) for the additional attributes of float64/.
template <class InFloat64, class Visit>
void for_each_difference_attribute(InFloat64& in_float64, Visit&& visit) {
  visit("largest_absolute_difference", in_float64.largest_absolute_difference);
  visit("largest_relative_difference", in_float64.largest_relative_difference);
  visit("differing_finiteness", in_float64.differing_finiteness);
}

}  // namespace msda::capture
