// The elements of grid_sample's gradients, exact and with bounds, and their addends.
//
// grad_grid sums a term for each channel and pixel that a sample reads; grad_input one for each sample that reads the
// pixel.
#include <cmath>
#include <utility>

#include "analysis/numbers/rounding.h"
#include "analysis/operators/grid_sample/cache.h"
#include "analysis/operators/grid_sample/samples.h"

namespace msda::analysis {
namespace {

// Returns a weight that a narrowing rounds, and how far the one that was rounded may be from it.
Uncertain weight_of(const Narrowing* narrowing, double weight, double error) {
  const Uncertain exact{weight, error};
  return narrowing == nullptr ? exact : narrowing->round(kInterpolationWeights, exact);
}

Uncertain addend_of(const Narrowing* narrowing, const Uncertain& weight, double factor) {
  const Uncertain addend{weight.value * factor, weight.error * std::abs(factor)};
  return narrowing == nullptr ? addend : narrowing->round(kAddends, addend);
}

double given(const Narrowing* narrowing, Step step, double input) {
  return narrowing == nullptr ? input : narrowing->round(step, input);
}

// Rounding goes farthest where all of them are added, and none cancels the others.
void finish(TiedSum& ties, const Precision& precision) {
  SumBound all;
  for (const double addend : ties.certain) all.add(addend, 0, at_least_1(addend));
  for (const double addend : ties.tied) all.add(std::copysign(addend, all.sum()), 0, at_least_1(addend));
  ties.from_rounding += all.bound(precision);
  ties.worst += all.certain(precision);
}

Element pixel_element(const GridSampleCall& call, const GridSampleCall::PixelId& pixel,
                      const GridContributions& contributions, const Precision& precision, const Narrowing* narrowing) {
  Element element;
  // Rounding is linear in the addends: that of what the coordinates' errors change comes on top.
  SumBound sum, changes;
  // Samples that may land anywhere are tied everywhere, and those of other interpolations are added in part.
  const bool is_whole = call.interpolation == MSDA_NEAREST && contributions.from_anywhere(pixel.c).terms() == 0;
  TiedSum ties;
  for (const auto& [sample, weight, error, is_signed] : contributions.exact(pixel.at)) {
    const double go =
        given(narrowing, kGradOutput, call.grad_output.at(call.grad_output_of({pixel.n, sample}, pixel.c)));
    const double sign = is_signed ? weight : Uncertain{weight, error}.sign();
    // Kernels may add a sample several times here, with weights that are 0 or cancel.
    if (!std::isfinite(go) && call.interpolation != MSDA_NEAREST) element.may_be_nan = true;
    // Rounding may land this sample elsewhere, so that nothing of it comes here: its infinity is no bound.
    if (!std::isfinite(go) && sign == 0) {
      if (std::isinf(go)) element.partials.add(call.interpolation == MSDA_BICUBIC ? 0 : go, INFINITY);
      if (std::isnan(go)) element.may_be_nan = true;
      continue;
    }
    const Uncertain term = addend_of(narrowing, weight_of(narrowing, weight, error), go);
    sum.add(term.value, 0, at_least_1(go));
    changes.add(term.error, 0, 1);
    if (is_whole) {
      const bool is_tied = error > 0;
      const Uncertain whole = is_tied ? addend_of(narrowing, weight_of(narrowing, 1, 0), go) : term;
      (is_tied ? ties.tied : ties.certain).push_back(whole.value);
      ties.from_rounding += whole.error;
    }
    element.partials.add(std::isinf(go) ? sign * go : term.sign(),
                         std::max(1.0, std::abs(weight) + error) * std::abs(go));
  }
  if (ties.any() && ties.tied.size() <= TiedSum::kMost) {
    finish(ties, precision);
    element.ties = std::move(ties);
  }
  changes.add(contributions.from_anywhere(pixel.c));
  element.cancelled = sum.magnitude();
  element.from_coordinates = changes.sum() + changes.bound(precision);
  element.take_sum(sum, precision);
  return element;
}

// Returns how far a gradient of the grid may be from the exact one if rounding may carry the sample anywhere.
double change_anywhere(const GridSampleCall& call, const GridSampleCall::SampleId& sample, size_t axis,
                       double largest_input) {
  double total = 0;
  for (int64_t c = 0; c < call.C; ++c) total += std::abs(call.grad_output.at(call.grad_output_of(sample, c)));
  return total * largest_input * call.sides[axis] * most_weight(call, /*sloped=*/true);  // twice half the size
}

// Returns a bound on the products and partial sums of an element of grad_grid, whatever their order.
Partials partials_of(const GridSampleCall& call, const GridSampleCall::SampleId& sample, const Reads& all,
                     double scale) {
  Partials partials;
  for (int64_t c = 0; c < call.C; ++c) {
    const double go = call.grad_output.at(call.grad_output_of(sample, c));
    for (const Read& read : all) {
      if (read.pixel < 0) continue;
      const double product = go * call.input.at(call.input_of(sample.n, c, read.pixel));
      // The weights of a bicubic sample change their signs within a cell.
      const double sign = call.interpolation == MSDA_BICUBIC ? 0 : product * read.weight * scale;
      partials.add(sign, std::abs(product) * at_least_1(scale));
    }
  }
  return partials;
}

// Returns whether rounding may decide the sign of what an infinite number of grad_output is multiplied with, as where
// an image is flat: the differences of its pixels are nearly 0.
bool sign_is_open(const GridSampleCall& call, const GridSampleCall::SampleId& sample, int64_t c, const Reads& all,
                  const Precision& precision) {
  double sum = 0, error = 0;
  for (const Read& read : all) {
    if (read.pixel < 0) continue;
    const double v = call.input.at(call.input_of(sample.n, c, read.pixel));
    const double added = static_cast<double>(all.size()) * precision.unit * std::abs(read.weight);
    sum += read.weight * v;
    error += (read.moved() + read.evaluated + added) * std::abs(v);
  }
  return std::abs(sum) <= error;
}

Element grid_element(const GridSampleCall& call, int64_t flat, const Place& place,
                     const GridContributions& contributions, const Precision& precision, const Narrowing* narrowing) {
  const GridSampleCall::SampleId sample = call.sample_of(flat);
  const auto axis = static_cast<size_t>(flat % call.axes_count);
  const double scale = place[axis].slope;
  const Reads all = reads(call, place, static_cast<int>(axis), weight_error(call.interpolation, precision));
  Element element;
  double reach = 0;  // of the coordinates' errors together
  for (const Landing& landing : place) reach += landing.error;
  // Types of 16 bits overflow on the way to what fits, or is clipped to 0.
  if (precision.bits < Precision::of(MSDA_FLOAT32).bits) {
    element.partials = partials_of(call, sample, all, scale);
  }
  // Where clipped, a NaN times the slope of 0 is still a NaN.
  if (std::isfinite(reach) && (all.empty() || call.interpolation == MSDA_NEAREST)) return element;
  std::array<double, 3> by{};
  SumBound sum;
  double magnitude = 0;
  for (int64_t c = 0; c < call.C; ++c) {
    const double go = given(narrowing, kGradOutput, call.grad_output.at(call.grad_output_of(sample, c)));
    if (std::isinf(go) && sign_is_open(call, sample, c, all, precision)) {
      element.may_be_nan = true;
      element.partials.add(0, INFINITY);
    }
    double part = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const Read& read = all[i];
      if (read.pixel < 0 && std::isfinite(read.weight)) continue;  // else NaN * 0
      const double v =
          read.pixel < 0 ? 0 : given(narrowing, kValue, call.input.at(call.input_of(sample.n, c, read.pixel)));
      const double factor = go * scale * v;
      const Uncertain term = addend_of(narrowing, weight_of(narrowing, read.weight, 0), factor);
      sum.add(term.value, static_cast<int>(i), at_least_1(scale) * at_least_1(go) * at_least_1(v));
      part += term.value;
      magnitude += std::abs(factor);
      element.from_coordinates += term.error + std::abs(factor) * read.evaluated;
      for (size_t along = 0; along < place.size(); ++along) by[along] += factor * read.by[along];
    }
    element.cancelled += std::abs(part);
  }
  if (!std::isfinite(reach)) {
    element.from_coordinates = change_anywhere(call, sample, axis, contributions.largest_input());
    element.take_sum(sum, precision);
    return element;
  }
  for (size_t along = 0; along < place.size(); ++along) {
    element.from_coordinates += std::abs(by[along]) * place[along].error;
  }
  // The second order.
  const double curvature = call.interpolation == MSDA_BICUBIC ? 8 : 1;
  element.from_coordinates += magnitude * curvature * reach * reach;
  element.take_sum(sum, precision);
  return element;
}

// Returns what a kernel adds up for an element of grad_grid: a product for each channel and pixel.
template <class Real>
Addends grid_addends(const GridSampleCall& call, int64_t flat, const Place& place) {
  const GridSampleCall::SampleId sample = call.sample_of(flat);
  const auto axis = static_cast<size_t>(flat % call.axes_count);
  Addends addends;
  addends.scale = place[axis].slope;
  const Reads all = reads(call, place, static_cast<int>(axis));
  if (call.interpolation == MSDA_NEAREST) return addends;
  for (int64_t c = 0; c < call.C; ++c) {
    const Real go = static_cast<Real>(call.grad_output.at(call.grad_output_of(sample, c)));
    for (const Read& read : all) {
      if (read.pixel < 0) continue;
      const Real v = static_cast<Real>(call.input.at(call.input_of(sample.n, c, read.pixel)));
      const Real product = v * static_cast<Real>(read.weight) * go;
      addends.values.push_back(static_cast<double>(product));
    }
  }
  return addends;
}

template <class Real>
Addends pixel_addends(const GridSampleCall& call, const GridSampleCall::PixelId& pixel,
                      std::span<const GridContributions::Addend> computed) {
  Addends addends;
  for (const auto& addend : computed) {
    const Real go = static_cast<Real>(call.grad_output.at(call.grad_output_of({pixel.n, addend.sample}, pixel.c)));
    const Real product = static_cast<Real>(addend.weight) * go;
    addends.values.push_back(static_cast<double>(product));
  }
  return addends;
}

}  // namespace

std::unique_ptr<Cache> GridSampleCall::new_cache() const { return std::make_unique<GridSampleCache>(*this); }

Element GridSampleCall::element(const ElementId& id, const Place& place, const Precisions& precisions,
                                const Narrowing* narrowing, Cache& cache) const {
  const int64_t n = id.gradient.scattered() ? pixel_of(id.flat).n : sample_of(id.flat).n;
  const auto contributions = static_cast<GridSampleCache&>(cache).get(n, precisions.coordinates, narrowing);
  if (!id.gradient.scattered()) {
    return grid_element(*this, id.flat, place, *contributions, precisions.rest, narrowing);
  }
  const PixelId pixel = pixel_of(id.flat);
  return pixel_element(*this, pixel, *contributions, precisions.rest, narrowing);
}

Addends GridSampleCall::addends(const ElementId& id, Cache& cache) const {
  const bool wide = arithmetic() == MSDA_FLOAT64;
  if (id.gradient.scattered()) {
    const PixelId pixel = pixel_of(id.flat);
    const auto found = static_cast<GridSampleCache&>(cache).get(pixel.n, Precision::of(arithmetic()), nullptr);
    const auto computed = found->computed(pixel.at);
    return wide ? pixel_addends<double>(*this, pixel, computed) : pixel_addends<float>(*this, pixel, computed);
  }
  Place place;
  for (const Axis& axis : axes(id)) place.push_back(evaluations(axis, arithmetic()).front().landing);
  return wide ? grid_addends<double>(*this, id.flat, place) : grid_addends<float>(*this, id.flat, place);
}

}  // namespace msda::analysis
