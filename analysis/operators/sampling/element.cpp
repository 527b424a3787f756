// The elements of the gradients of operators that sample, exact and with bounds.
//
// A gradient of a sample sums a term for each channel and pixel that it reads; the image's gradient one for each sample
// that reads the pixel.
#include <cmath>
#include <utility>

#include "analysis/numbers/rounding.h"
#include "analysis/operators/sampling/contributions.h"
#include "analysis/operators/sampling/reads.h"

namespace msda::analysis {
namespace {

double given(const Narrowing* narrowing, Step step, double input) {
  return narrowing == nullptr ? input : narrowing->round(step, input);
}

Uncertain narrowed_term(const Narrowing& narrowing, const Uncertain& weight, double factor) {
  const Uncertain used = narrowing.round(kInterpolationWeights, weight);
  return narrowing.round(kAddends, {used.value * factor, used.error * std::abs(factor)});
}

// Rounding goes farthest where all of them are added, and none cancels the others.
void finish(TiedSum& ties, const Precision& precision) {
  SumBound all;
  for (const double addend : ties.certain) all.add(addend, 0, at_least_1(addend));
  for (const double addend : ties.tied) all.add(std::copysign(addend, all.sum()), 0, at_least_1(addend));
  ties.from_rounding += all.bound(precision);
  ties.worst += all.certain(precision);
}

Element pixel_element(const SamplingCall& call, int64_t pixel, int64_t channel, const Contributions& contributions,
                      const Precision& precision, const Narrowing* narrowing) {
  Element element;
  // Rounding is linear in the addends: that of what the coordinates' errors change comes on top.
  SumBound sum, changes = contributions.from_anywhere(channel);
  // Samples that may land anywhere are tied everywhere, and those of other interpolations are added in part.
  const bool is_whole = call.interpolation == MSDA_NEAREST && changes.terms() == 0;
  TiedSum ties;
  for (const auto& addend : contributions.exact(pixel)) {
    const int64_t sample = addend.sample();
    const double go = call.grad_output.at(call.output_element(sample, channel)), own = call.factor_of(sample);
    const double weight = addend.weight, error = addend.weight_error, factor = go * own;
    const double sign = addend.is_signed() ? weight : Uncertain{weight, error}.sign();
    if (!std::isfinite(factor)) {
      // Kernels may add a sample several times here, with weights that are 0 or cancel.
      if (call.adds_pixels_apart() && call.interpolation != MSDA_NEAREST) element.may_be_nan = true;
      // Rounding may land this sample elsewhere, so that nothing of it comes here: its infinity is no bound.
      if (sign == 0) {
        if (std::isinf(factor)) element.partials.add(call.interpolation == MSDA_BICUBIC ? 0 : factor, INFINITY);
        if (std::isnan(factor) || !call.adds_pixels_apart()) element.may_be_nan = true;
        continue;
      }
    }
    const auto term_of = [&](const Uncertain& exact) -> Uncertain {
      if (narrowing != nullptr) return call.narrowed_addend(*narrowing, exact, go, own);
      return {exact.value * factor, exact.error * std::abs(factor)};
    };
    const Uncertain term = term_of({weight, error});
    sum.add(term.value, 0, at_least_1(go) * at_least_1(own));
    changes.add(term.error, 0, 1);
    if (is_whole) {
      const bool is_tied = error > 0;
      const Uncertain whole = is_tied ? term_of({1, 0}) : term;
      (is_tied ? ties.tied : ties.certain).push_back(whole.value);
      ties.from_rounding += whole.error;
    }
    // If kernels add up a sample's pixels first, what they compute on the way is not known.
    if (!call.adds_pixels_apart()) continue;
    element.partials.add(std::isinf(factor) ? sign * factor : term.sign(),
                         std::max(1.0, std::abs(weight) + error) * std::abs(factor));
  }
  if (ties.any() && ties.tied.size() <= TiedSum::kMost) {
    finish(ties, precision);
    element.ties = std::move(ties);
  }
  element.cancelled = sum.magnitude();
  element.from_coordinates = changes.sum() + (call.adds_pixels_apart() ? changes.bound(precision) : 0);
  element.take_sum(sum, precision);
  return element;
}

// A sample's element, and what it is computed from.
class SampleElement {
 public:
  SampleElement(const SamplingCall& call, const ElementId& id, const Place& place, const SampledImage& image,
                const Reads& reads, const Narrowing* narrowing)
      : call_(call),
        place_(place),
        reads_(reads),
        narrowing_(narrowing),
        image_(image),
        channels_(static_cast<size_t>(call.channels)),
        numbers_((reads.size() + 1) * channels_),
        apart_(call.adds_pixels_apart()) {
    const int64_t sample = call.sample_of(id.gradient, id.flat);
    const std::span rows(numbers_);
    call.grad_output.read(call.output_element(sample, 0), call.output_step, rows.first(channels_));
    for (size_t i = 0; i < reads.size(); ++i) {
      if (reads[i].pixel < 0) continue;
      const int64_t first = call.image_element(image.place_of(reads[i].pixel), 0);
      call.image.read(first, call.image_step, rows.subspan((i + 1) * channels_, channels_));
    }
    const int axis = call.axis_of(id.gradient, id.flat);
    if (axis < 0) return;
    const double own = given(narrowing, kAttentionWeights, call.factor_of(sample));
    const double slope = place[static_cast<size_t>(axis)].slope;
    scale_ = own * slope;
    growth_ = at_least_1(own) * at_least_1(slope);
  }

  // Returns the exact sum, without a bound.
  double sum() const {
    double sum = 0;
    for (size_t c = 0; c < channels_; ++c) {
      const double factor = go(c) * scale_;
      for (size_t i = 0; i < reads_.size(); ++i) {
        if (!is_left_out(i)) sum += reads_[i].weight * (factor * value(i, c));
      }
    }
    return sum;
  }

  // Types of 16 bits overflow on the way to what fits, or is clipped to 0. Bounds the products and partial sums,
  // whatever their order.
  Partials partials() const {
    Partials partials;
    for (size_t c = 0; c < channels_; ++c) {
      for (size_t i = 0; i < reads_.size(); ++i) {
        if (reads_[i].pixel < 0) continue;
        const double product = go(c) * value(i, c);
        // The weights of a bicubic sample change their signs within a cell.
        const double sign = call_.interpolation == MSDA_BICUBIC ? 0 : product * reads_[i].weight * scale_;
        partials.add(sign, std::abs(product) * at_least_1(scale_));
      }
    }
    return partials;
  }

  void add_terms(const Precision& precision, Element& element) {
    SumBound sum;
    for (size_t c = 0; c < channels_; ++c) {
      const double g = given(narrowing_, kGradOutput, go(c));
      if (std::isinf(g) && apart_ && sign_is_open(c, precision)) {
        element.may_be_nan = true;
        element.partials.add(0, INFINITY);
      }
      element.cancelled += std::abs(add_channel(c, g, element, sum));
    }
    element.take_sum(sum, precision);
    for (size_t i = 0; i < reads_.size(); ++i) {
      for (size_t axis = 0; axis < place_.size(); ++axis) by_[axis] += times(totals_[i], reads_[i].by[axis]);
      twist_ += times(totals_[i], reads_[i].twist);
    }
  }

  // Adds what the coordinates' errors, together as large as `reach`, do to the element.
  void add_errors_of_coordinates(double reach, Element& element) const {
    double product = 1;
    for (size_t axis = 0; axis < place_.size(); ++axis) {
      element.from_coordinates += std::abs(by_[axis]) * place_[axis].error;
      product *= place_[axis].error;
    }
    const double curvature = call_.interpolation == MSDA_BICUBIC ? 8 : 1;
    element.from_coordinates += apart_ ? magnitude_ * curvature * reach * reach : std::abs(twist_) * product;
  }

  // Returns how far the element may be from the exact one if rounding may carry the sample anywhere.
  double change_anywhere(double largest_input, int axis) const {
    double total = 0;
    for (size_t c = 0; c < channels_; ++c) total += std::abs(go(c));
    // Twice half the size.
    return total * largest_input * image_.sides[axis] * most_weight(call_, /*sloped=*/true);
  }

 private:
  double go(size_t c) const { return numbers_[c]; }
  double value(size_t read, size_t c) const { return numbers_[(read + 1) * channels_ + c]; }
  // Returns whether kernels leave out a read outside of the image. Its 0 times a weight of NaN is not left out.
  bool is_left_out(size_t read) const { return reads_[read].pixel < 0 && apart_ && std::isfinite(reads_[read].weight); }

  // Returns the sum of a channel's terms.
  double add_channel(size_t c, double g, Element& element, SumBound& sum) {
    const double scaled = g * scale_, growth = growth_ * at_least_1(g);
    double part = 0;
    for (size_t i = 0; i < reads_.size(); ++i) {
      if (is_left_out(i)) continue;
      const Read& read = reads_[i];
      const double v = given(narrowing_, kValue, value(i, c)), factor = scaled * v;
      const Uncertain term = narrowing_ == nullptr ? Uncertain{read.weight * factor, 0 * std::abs(factor)}
                                                   : narrowed_term(*narrowing_, {read.weight, 0}, factor);
      sum.add(term.value, static_cast<int>(i), growth * at_least_1(v));
      part += term.value;
      magnitude_ += std::abs(factor);
      if (apart_ || std::isfinite(factor)) {
        element.from_coordinates += term.error + std::abs(factor) * read.evaluated;
      }
      totals_[i] += factor;
    }
    return part;
  }

  // Returns a term's derivative. Where kernels add up pixels first, an infinite factor adds nothing to one that is 0.
  double times(double factor, double derivative) const { return derivative == 0 && !apart_ ? 0 : factor * derivative; }

  // Returns whether rounding may decide the sign of what an infinite number of grad_output is multiplied with, as where
  // an image is flat: the differences of its pixels are nearly 0.
  bool sign_is_open(size_t c, const Precision& precision) const {
    double sum = 0, error = 0;
    for (size_t i = 0; i < reads_.size(); ++i) {
      const Read& read = reads_[i];
      if (read.pixel < 0) continue;
      const double v = value(i, c);
      const double added = static_cast<double>(reads_.size()) * precision.unit * std::abs(read.weight);
      sum += read.weight * v;
      error += (read.moved() + read.evaluated + added) * std::abs(v);
    }
    return std::abs(sum) <= error;
  }

  const SamplingCall& call_;
  const Place& place_;
  const Reads& reads_;
  const Narrowing* narrowing_;
  const SampledImage& image_;
  size_t channels_;
  std::vector<double> numbers_;  // by channel: of grad_output, then of each read, 0 outside of the image
  bool apart_;
  double scale_ = 1, growth_ = 1;  // of the whole sum; of the error of a product of the other factors that underflows
  // Sums over the terms: their derivatives by the coordinates, by all of them together, and magnitudes.
  std::array<double, 3> by_{};
  std::array<double, 16> totals_{};  // of each read, without its weight
  double twist_ = 0, magnitude_ = 0;
};

}  // namespace

double SamplingCall::value_of_reads(const ElementId& id, const Place& place, const SampledImage& read_image,
                                    const Reads& reads) const {
  return SampleElement(*this, id, place, read_image, reads, nullptr).sum();
}

Uncertain SamplingCall::narrowed_addend(const Narrowing& narrowing, const Uncertain& weight, double go,
                                        double factor) const {
  return narrowed_term(narrowing, weight,
                       narrowing.round(kGradOutput, go) * narrowing.round(kAttentionWeights, factor));
}

std::unique_ptr<Cache> SamplingCall::new_cache() const { return std::make_unique<SamplingCache>(); }

std::shared_ptr<const Contributions> SamplingCall::contributions(Cache& cache, int64_t family,
                                                                 const Precision& precision,
                                                                 const Narrowing* narrowing) const {
  return static_cast<SamplingCache&>(cache).get(*this, family, precision, narrowing);
}

Element SamplingCall::element(const ElementId& id, const Place& place, const Precisions& precisions,
                              const Narrowing* narrowing, Cache& cache) const {
  if (id.gradient.scattered()) {
    const SampledPixel at = pixel_at(without_channel(id.flat, image_step));
    const auto found = contributions(cache, at.family, precisions.coordinates, narrowing);
    return pixel_element(*this, at.pixel, channel_of(id.flat), *found, precisions.rest, narrowing);
  }
  const int64_t family = family_of_sample(sample_of(id.gradient, id.flat));
  const int axis = axis_of(id.gradient, id.flat);
  const SampledImage read_image = image_of(family);
  const Reads all = reads(*this, read_image, place, axis, weight_error(interpolation, precisions.rest));
  SampleElement sampled(*this, id, place, read_image, all, narrowing);
  Element element;
  double reach = 0;
  for (const Landing& landing : place) reach += landing.error;
  if (adds_pixels_apart() && precisions.rest.bits < Precision::of(MSDA_FLOAT32).bits) {
    element.partials = sampled.partials();
  }
  // Where clipped, a NaN times the slope of 0 is still a NaN.
  if (std::isfinite(reach) && (all.empty() || interpolation == MSDA_NEAREST)) return element;
  sampled.add_terms(precisions.rest, element);
  if (std::isfinite(reach)) {
    sampled.add_errors_of_coordinates(reach, element);
  } else {
    const auto found = contributions(cache, family, precisions.coordinates, narrowing);
    element.from_coordinates = sampled.change_anywhere(found->largest_input(), axis);
  }
  return element;
}

std::vector<double> SamplingCall::image_addends(int64_t flat, Cache& cache) const {
  const SampledPixel at = pixel_at(without_channel(flat, image_step));
  const int64_t channel = channel_of(flat);
  const auto found = contributions(cache, at.family, Precision::of(arithmetic()));
  std::vector<double> addends;
  for (const auto& addend : found->computed(*this, at.pixel)) {
    const int64_t sample = addend.sample();
    const double go = rounded_to(grad_output.at(output_element(sample, channel)), arithmetic());
    const double weighted = rounded_to(go * factor_of(sample), arithmetic());
    addends.push_back(rounded_to(addend.weight * weighted, arithmetic()));
  }
  return addends;
}

}  // namespace msda::analysis
