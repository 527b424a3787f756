#include "analysis/operators/grid_sample/samples.h"

#include <algorithm>
#include <cmath>

namespace msda::analysis {
namespace {

// Adds the reads of the axes from `axis` down to 0; `so_far` is the product of those above.
void add_reads(const GridSampleCall& call, const Place& place, const std::array<Taps, 3>& taps, int axis, int own,
               double rounding, const Read& so_far, Reads& all) {
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
    read.weight *= weight;
    read.pixel = read.pixel < 0 || tap.pixel < 0 ? -1 : read.pixel * call.sides[axis] + tap.pixel;
    const double off = std::abs(slope) * error;
    read.from_0 = std::min(so_far.from_0, std::abs(weight) - off);
    const double size = std::abs(weight), before = std::abs(so_far.weight);
    // Others change their signs; these stay from 0 to 1.
    const double more = is_cubic ? off + second : std::min(off, std::max(0.0, 1 - size));
    const double less = std::min(off + second, size);
    read.grows = so_far.grows * (size + more) + before * more;
    read.shrinks = so_far.shrinks * size + (before - so_far.shrinks) * less;
    read.evaluated = so_far.evaluated * (size + more + rounding) + (before + so_far.grows) * rounding;
    add_reads(call, place, taps, axis - 1, own, rounding, read, all);
  }
}

}  // namespace

Reads reads(const GridSampleCall& call, const Place& place, int axis, double weight_error) {
  std::array<Taps, 3> taps;
  for (size_t i = 0; i < place.size(); ++i) taps[i] = call.taps(place[i], static_cast<int>(i));
  Reads all;
  add_reads(call, place, taps, call.axes_count - 1, axis, weight_error, Read{0, 1, {}}, all);
  return all;
}

double weight_error(msda_interpolation interpolation, const Precision& precision) {
  // Cubic polynomials have intermediate results up to 9, with some eight roundings.
  return interpolation == MSDA_BICUBIC ? 40 * precision.unit : 0;
}

double most_weight(const GridSampleCall& call, bool sloped) {
  // Cubic weights add up to 1.4 at most, their slopes to 3.1.
  const bool cubic = call.interpolation == MSDA_BICUBIC;
  return std::pow(cubic ? 1.4 : 1, call.axes_count - (sloped ? 1 : 0)) * (!sloped ? 1 : cubic ? 3.1 : 2);
}

GridContributions::GridContributions(const GridSampleCall& call, int64_t n, const Precision& precision,
                                     const Narrowing* narrowing) {
  std::vector<Found> exact, computed;
  from_anywhere_.resize(static_cast<size_t>(call.C));
  const double rounding = weight_error(call.interpolation, precision);
  for (int64_t at = 0; at < call.samples; ++at) {
    std::vector<Landings> along;
    Place written;
    for (int axis = 0; axis < call.axes_count; ++axis) {
      const Axis where = call.axis_of({n, at}, axis);
      along.push_back(call.landings(call.rounded(where, narrowing), precision));
      written.push_back(call.evaluations(where, call.arithmetic()).front().landing);
    }
    const size_t first = exact.size();
    // The weights of pixels that only one way of landing reaches jump, where those of others are continuous.
    const bool jumps = call.interpolation == MSDA_NEAREST;
    const bool anywhere =
        std::ranges::any_of(along, [](const Landings& landings) { return !std::isfinite(landings[0].error); });
    if (anywhere) add_from_anywhere(call, {n, at});
    size_t ways = 1;
    for (const Landings& landings : along) ways *= landings.size();
    bool is_exact = true;
    Place place;
    visit_places(along, place, [&](const Place& landed) {
      for (const Read& read : reads(call, landed, -1, rounding)) {
        if (read.pixel < 0) continue;
        const auto same = std::find_if(exact.begin() + static_cast<std::ptrdiff_t>(first), exact.end(),
                                       [&](const Found& addend) { return addend.pixel == read.pixel; });
        double error = read.moved() + read.evaluated;
        if (jumps && ways > 1) error += 1;
        if (anywhere) error = std::abs(read.weight);
        if (is_exact) {
          exact.push_back({read.pixel, {at, read.weight, error, !jumps && !anywhere && read.from_0 > rounding}});
        } else if (same == exact.end()) {
          exact.push_back({read.pixel, {at, 0, error + (jumps ? 0 : std::abs(read.weight)), false}});
        }
      }
      is_exact = false;
      return false;
    });
    for (const Read& read : reads(call, written, -1)) {
      if (read.pixel < 0) continue;
      const bool wide = call.arithmetic() == MSDA_FLOAT64;
      computed.push_back({read.pixel, {at, wide ? read.weight : static_cast<float>(read.weight), 0, true}});
    }
  }
  for (int64_t i = 0; i < call.C * call.pixels; ++i) {
    const double magnitude = std::abs(call.input.at(n * call.C * call.pixels + i));
    if (std::isfinite(magnitude)) largest_input_ = std::max(largest_input_, magnitude);
  }
  sort(exact, call.pixels, exact_, exact_begin_);
  sort(computed, call.pixels, computed_, computed_begin_);
}

void GridContributions::add_from_anywhere(const GridSampleCall& call, const GridSampleCall::SampleId& sample) {
  const double weight = most_weight(call, /*sloped=*/false);
  for (int64_t c = 0; c < call.C; ++c) {
    const double go = call.grad_output.at(call.grad_output_of(sample, c));
    if (std::isfinite(go)) from_anywhere_[static_cast<size_t>(c)].add(weight * std::abs(go), 0, 1);
  }
}

void GridContributions::sort(const std::vector<Found>& found, int64_t pixels, std::vector<Addend>& addends,
                             std::vector<int64_t>& begin) {
  begin.assign(static_cast<size_t>(pixels) + 1, 0);
  for (const Found& addend : found) ++begin[static_cast<size_t>(addend.pixel) + 1];
  for (size_t i = 0; i < static_cast<size_t>(pixels); ++i) begin[i + 1] += begin[i];
  std::vector<int64_t> next(begin.begin(), begin.end() - 1);
  addends.resize(found.size());
  for (const Found& addend : found) {
    addends[static_cast<size_t>(next[static_cast<size_t>(addend.pixel)]++)] = addend.addend;
  }
}

}  // namespace msda::analysis
