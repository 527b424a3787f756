// The additions to the image's gradient.
#include "analysis/model/additions.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/operators/sampling/contributions.h"

namespace msda::analysis {

std::shared_ptr<const Additions> SamplingCall::additions(Gradient gradient) const {
  if (!gradient.scattered()) return nullptr;
  return {std::shared_ptr<const void>(), this};
}

std::vector<std::string> SamplingCall::factor_names() const {
  std::vector<std::string> names{"grad_output"};
  for (const SharedFactor& factor : shared_factors()) names.emplace_back(factor.name);
  return names;
}

std::vector<SharedAddend> SamplingCall::shared_addends(int64_t family, const FactorArithmetic& by) const {
  std::vector<SharedAddend> all;
  const SampledImage read = image_of(family);
  const std::vector<SharedFactor> named = shared_factors();
  for (int64_t number = 0; number < samples_of_family(); ++number) {
    const int64_t sample = sample_in(family, number);
    visit_computed_taps(sample, read, by.type, by.variant,
                        [&](int64_t pixel, size_t tap, std::span<const double> weights) {
                          all.push_back({read.place_of(pixel), sample, static_cast<int32_t>(tap), {1, 1, 1}});
                          for (size_t i = 0; i < named.size(); ++i) {
                            const int axis = named[i].axis;
                            all.back().factors[i] = axis < 0 ? factor_of(sample) : weights[static_cast<size_t>(axis)];
                          }
                        });
  }
  std::ranges::stable_sort(all, {}, &SharedAddend::target);
  return all;
}

std::vector<int64_t> SamplingCall::elements_of(int64_t target) const {
  std::vector<int64_t> elements;
  for (int64_t c = 0; c < channels; ++c) elements.push_back(image_element(target, c));
  return elements;
}

void SamplingCall::channel_factors(int64_t sample, std::span<double> values) const {
  for (size_t c = 0; c < values.size(); ++c) {
    values[c] = grad_output.at(output_element(sample, static_cast<int64_t>(c)));
  }
}

std::string SamplingCall::addend_name(const SharedAddend& addend) const {
  return text_of_addend(addend.sample, static_cast<size_t>(addend.corner));
}

void SamplingCall::visit_computed_taps(int64_t sample, const SampledImage& read, msda_dtype type, int variant,
                                       const VisitTap& visit) const {
  std::array<Taps, 3> taps;
  size_t count = 1;
  for (int axis = 0; axis < axes_count; ++axis) {
    Taps& along = taps[static_cast<size_t>(axis)];
    along = computed_taps(axis_at(sample, read, axis), type, variant);
    count *= along.size();
  }
  for (size_t number = 0; number < count; ++number) {
    std::array<double, 3> weights{};
    int64_t pixel = 0, step = 1;
    size_t rest = number;
    bool inside = true;
    for (size_t axis = 0; axis < static_cast<size_t>(axes_count); ++axis) {
      const Tap& tap = taps[axis][rest % taps[axis].size()];
      rest /= taps[axis].size();
      inside = inside && tap.pixel >= 0;
      weights[axis] = tap.weight;
      pixel += tap.pixel * step;
      step *= read.sides[axis];
    }
    if (inside) visit(pixel, number, std::span(weights).first(static_cast<size_t>(axes_count)));
  }
}

std::vector<std::string> SamplingCall::tap_names() const {
  const int along = taps_along();
  std::vector<std::string> names;
  for (int z = 0; z < (axes_count == 3 ? along : 1); ++z) {
    for (int y = 0; y < along; ++y) {
      for (int x = 0; x < along; ++x) {
        const std::string name = fmt::format("y{},x{}", y, x);
        names.push_back(axes_count == 3 ? fmt::format("z{},{}", z, name) : name);
      }
    }
  }
  return names;
}

std::string SamplingCall::text_of_addend(int64_t sample, size_t tap) const {
  return fmt::format("{} {}", text_of_sample(sample), tap_names()[tap]);
}

std::vector<Mistake> SamplingCall::pixel_mistakes(const ElementId& id, const Element& exact, const Precision& precision,
                                                  Cache& cache, const char* factors_name) const {
  const SampledPixel at = pixel_at(without_channel(id.flat, image_step));
  const auto found = contributions(cache, at.family, precision);
  std::vector<Mistake> mistakes;
  double without_factors = 0, without_weights = 0;
  for (const auto& addend : found->exact(at.pixel)) {
    const double go = grad_output.at(output_element(addend.sample(), channel_of(id.flat)));
    const double factor = factor_of(addend.sample()), contribution = addend.weight * go * factor;
    const auto text = fmt::format("the contribution of {} were ", text_of_contribution(addend.sample(), addend.tap()));
    mistakes.push_back({text + "missing", exact.value - contribution});
    mistakes.push_back({text + "added twice", exact.value + contribution});
    without_factors += addend.weight * go;
    without_weights += go * factor;
  }
  if (has_factors()) mistakes.push_back({fmt::format("the {} were not multiplied in", factors_name), without_factors});
  mistakes.push_back({"the interpolation weights were not multiplied in", without_weights});
  mistakes.push_back({"everything were added twice", 2 * exact.value});
  return mistakes;
}

std::vector<NamedAddend> SamplingCall::named_addends(const ElementId& id, Cache& cache) const {
  const SampledPixel at = pixel_at(without_channel(id.flat, image_step));
  const auto found = contributions(cache, at.family, Precision::of(arithmetic()));
  std::vector<NamedAddend> addends;
  for (const auto& addend : found->computed(*this, at.pixel)) {
    addends.push_back({text_of_addend(addend.sample(), addend.tap()), addend.sample(),
                       static_cast<int64_t>(addend.tap()) * channels + channel_of(id.flat)});
  }
  return addends;
}

}  // namespace msda::analysis
