#include "analysis/operators/sampling/reads.h"

namespace msda::analysis {
namespace {

// A tap, and how far the error of the coordinate along its axis may move its weight.
struct MovedTap {
  int32_t pixel;
  double weight, slope;     // for the gradient along the axis the weight is the slope
  double size, more, less;  // its magnitude, and bounds on how much that grows and shrinks
  double from_0;            // how far it stays from 0
};
using MovedTaps = boost::container::static_vector<MovedTap, 4>;

MovedTaps moved_taps(const SamplingCall& call, const Landing& landing, int32_t side, bool is_sloped) {
  constexpr double kHalfCurve = 4;  // of cubic weights and of their slopes
  const bool is_cubic = call.interpolation == MSDA_BICUBIC;
  const bool is_limited = !is_cubic && call.limits_weights_to_1();  // cubic weights change their signs
  const double second = is_cubic ? kHalfCurve * landing.error * landing.error : 0;
  MovedTaps moved;
  for (const Tap& tap : call.taps(landing, side)) {
    const double weight = is_sloped ? tap.slope : tap.weight, slope = is_sloped ? tap.curve : tap.slope;
    const double size = std::abs(weight), off = std::abs(slope) * landing.error;
    const double most = is_limited ? std::max(0.0, 1 - size) : INFINITY;
    moved.push_back(
        {tap.pixel, weight, slope, size, std::min(off + second, most), std::min(off + second, size), size - off});
  }
  return moved;
}

// Returns a read of the axes from `axis` up, from that of those above it.
Read read_along(const Read& above, const MovedTap& tap, size_t axis, int32_t side, double rounding) {
  const double before = std::abs(above.weight);
  const auto derivative = [&](size_t by) { return by == axis ? above.weight * tap.slope : above.by[by] * tap.weight; };
  return {.pixel = above.pixel < 0 || tap.pixel < 0 ? -1 : above.pixel * side + tap.pixel,
          .weight = above.weight * tap.weight,
          .by = {derivative(0), derivative(1), derivative(2)},
          .twist = above.twist * tap.slope,
          .from_0 = std::min(above.from_0, tap.from_0),
          .grows = above.grows * (tap.size + tap.more) + before * tap.more,
          .shrinks = above.shrinks * tap.size + (before - above.shrinks) * tap.less,
          .evaluated = above.evaluated * (tap.size + tap.more + rounding) + (before + above.grows) * rounding};
}

}  // namespace

Reads reads(const SamplingCall& call, const SampledImage& image, const Place& place, int axis, double weight_error) {
  Reads all{Read{0, 1}};
  for (size_t along = place.size(); along-- > 0;) {
    const int32_t side = image.sides[along];
    const MovedTaps taps = moved_taps(call, place[along], side, axis == static_cast<int>(along));
    const size_t count = all.size();
    all.resize(count * taps.size(), boost::container::default_init);
    // From the last one on, so that none is overwritten before it is read.
    for (size_t i = count; i-- > 0;) {
      const Read above = all[i];
      for (size_t k = 0; k < taps.size(); ++k) {
        all[i * taps.size() + k] = read_along(above, taps[k], along, side, weight_error);
      }
    }
  }
  return all;
}

double weight_error(msda_interpolation interpolation, const Precision& precision) {
  // Cubic polynomials have intermediate results up to 9, with some eight roundings.
  return interpolation == MSDA_BICUBIC ? 40 * precision.unit : 0;
}

double most_weight(const SamplingCall& call, bool sloped) {
  // Cubic weights add up to 1.4 at most, their slopes to 3.1.
  const bool cubic = call.interpolation == MSDA_BICUBIC;
  return std::pow(cubic ? 1.4 : 1, call.axes_count - (sloped ? 1 : 0)) * (!sloped ? 1 : cubic ? 3.1 : 2);
}

}  // namespace msda::analysis
