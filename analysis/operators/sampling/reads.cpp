#include "analysis/operators/sampling/reads.h"

namespace msda::analysis {
namespace {

// Adds the reads of the axes from `axis` down to 0; `so_far` is the product of those above.
void add_reads(const SamplingCall& call, const SampledImage& image, const Place& place, const std::array<Taps, 3>& taps,
               int axis, int own, double rounding, const Read& so_far, Reads& all) {
  if (axis < 0) {
    all.push_back(so_far);
    return;
  }
  constexpr double kHalfCurve = 4;  // of cubic weights and of their slopes
  const bool is_cubic = call.interpolation == MSDA_BICUBIC;
  const double error = place[static_cast<size_t>(axis)].error;
  const double second = is_cubic ? kHalfCurve * error * error : 0;
  for (const Tap& tap : taps[static_cast<size_t>(axis)]) {
    // For the gradient along an axis the weight along it is the slope.
    const double weight = axis == own ? tap.slope : tap.weight, slope = axis == own ? tap.curve : tap.slope;
    Read read = so_far;
    for (double& by : read.by) by *= weight;
    read.by[static_cast<size_t>(axis)] = so_far.weight * slope;
    read.twist *= slope;
    read.weight *= weight;
    read.pixel = read.pixel < 0 || tap.pixel < 0 ? -1 : read.pixel * image.sides[axis] + tap.pixel;
    const double off = std::abs(slope) * error;
    read.from_0 = std::min(so_far.from_0, std::abs(weight) - off);
    const double size = std::abs(weight), before = std::abs(so_far.weight);
    // Cubic weights change their signs.
    const double most = is_cubic || !call.limits_weights_to_1() ? INFINITY : std::max(0.0, 1 - size);
    const double more = std::min(off + second, most);
    const double less = std::min(off + second, size);
    read.grows = so_far.grows * (size + more) + before * more;
    read.shrinks = so_far.shrinks * size + (before - so_far.shrinks) * less;
    read.evaluated = so_far.evaluated * (size + more + rounding) + (before + so_far.grows) * rounding;
    add_reads(call, image, place, taps, axis - 1, own, rounding, read, all);
  }
}

}  // namespace

Reads reads(const SamplingCall& call, const SampledImage& image, const Place& place, int axis, double weight_error) {
  std::array<Taps, 3> taps;
  for (size_t i = 0; i < place.size(); ++i) taps[i] = call.taps(place[i], image.sides[i]);
  Reads all;
  add_reads(call, image, place, taps, call.axes_count - 1, axis, weight_error, Read{0, 1}, all);
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
