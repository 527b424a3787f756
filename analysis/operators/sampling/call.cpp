// Tensors, families and inputs of operators that sample.
#include "analysis/operators/sampling/call.h"

#include <algorithm>

#include "analysis/operators/sampling/contributions.h"
#include "analysis/operators/sampling/reads.h"

namespace msda::analysis {

Index SamplingCall::shape_of(Gradient gradient) const {
  return gradient.place() == kOfImage       ? image.shape
         : gradient.place() == kOfLocations ? locations.shape
                                            : factors.shape;
}

std::vector<NamedTensor> SamplingCall::all_inputs() const {
  std::vector<NamedTensor> all;
  for (const auto& [name, tensor] : input_list()) all.push_back({name, this->*tensor});
  return all;
}

std::vector<NamedTensor> SamplingCall::inputs() const {
  std::vector<NamedTensor> all = all_inputs();
  std::erase_if(all, [](const NamedTensor& input) { return !kernels::is_float(input.tensor.dtype); });
  return all;
}

// Often asked, and so without a list of the inputs.
msda_dtype SamplingCall::arithmetic() const {
  for (const Tensor* tensor : {&image, &locations, &factors, &grad_output}) {
    if (tensor->dtype == MSDA_FLOAT64) return MSDA_FLOAT64;
  }
  return MSDA_FLOAT32;
}

std::shared_ptr<const Call> SamplingCall::with_tensors(std::vector<Tensor> tensors) const {
  auto call = copy();
  const auto list = input_list();
  for (size_t i = 0; i < list.size(); ++i) (*call).*list[i].tensor = std::move(tensors[i]);
  call->take_sizes();
  return call;
}

Axes SamplingCall::axes(const ElementId& id) const {
  Axes all;
  if (id.gradient.scattered()) return all;
  const int64_t sample = sample_of(id.gradient, id.flat);
  const SampledImage read = image_of(family_of_sample(sample));
  for (int axis = 0; axis < axes_count; ++axis) all.push_back(axis_at(sample, read, axis));
  return all;
}

int64_t SamplingCall::family_of(Gradient gradient, int64_t flat) const {
  if (gradient.scattered()) return pixel_at(without_channel(flat, image_step)).family;
  return family_of_sample(sample_of(gradient, flat));
}

std::vector<int64_t> SamplingCall::some_of_family(Gradient gradient, int64_t family, int64_t most) const {
  const SampledImage read = image_of(family);
  const int64_t pixels = read.pixels(), all = gradient.scattered() ? channels * pixels : samples_of_family();
  const int64_t count = std::min(all, most);
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * all / count;
    if (gradient.scattered()) {
      // As they lie in memory.
      const bool by_pixel = image_step == 1;
      elements.push_back(
          image_element(read.place_of(by_pixel ? at / channels : at % pixels), by_pixel ? at % channels : at / pixels));
    } else {
      const int64_t sample = sample_in(family, at);
      elements.push_back(gradient.place() == kOfLocations ? sample * axes_count + i % axes_count : sample);
    }
  }
  return elements;
}

int64_t SamplingCall::weights_of(Gradient gradient, int64_t flat) const {
  return gradient.scattered() ? without_channel(flat, image_step) : flat;
}

bool SamplingCall::visit_inputs(const ElementId& id, const Place& place, const Precision& precision, Cache& cache,
                                const VisitInput& visit) const {
  const auto visit_number = [&](Tensor SamplingCall::*tensor, int64_t flat) {
    return visit(std::ranges::find(input_list(), tensor, &Input::tensor)->name, this->*tensor, flat);
  };
  const auto visit_sample = [&](int64_t sample) {
    for (int axis = 0; axis < axes_count; ++axis) {
      if (visit_number(&SamplingCall::locations, sample * axes_count + axis)) return true;
    }
    return has_factors() && visit_number(&SamplingCall::factors, sample);
  };
  const auto visit_output = [&](int64_t sample, int64_t c) {
    return visit_number(&SamplingCall::grad_output, output_element(sample, c));
  };
  if (id.gradient.scattered()) {
    const SampledPixel at = pixel_at(without_channel(id.flat, image_step));
    const auto found = contributions(cache, at.family, precision);
    return std::ranges::any_of(found->exact(at.pixel), [&](const auto& addend) {
      const int64_t sample = addend.sample();
      return visit_sample(sample) || visit_output(sample, channel_of(id.flat));
    });
  }
  const int64_t sample = sample_of(id.gradient, id.flat);
  const SampledImage read_image = image_of(family_of_sample(sample));
  for (const Read& read : reads(*this, read_image, place, -1)) {
    for (int64_t c = 0; read.pixel >= 0 && c < channels; ++c) {
      if (visit_number(&SamplingCall::image, image_element(read_image.place_of(read.pixel), c))) return true;
    }
  }
  if (visit_sample(sample)) return true;
  for (int64_t c = 0; c < channels; ++c) {
    if (visit_output(sample, c)) return true;
  }
  return false;
}

Inputs SamplingCall::with_image(const Kept& kept) const {
  Inputs all;
  for (const auto& [name, tensor] : all_inputs()) {
    all.push_back(sliced(name, tensor, all.empty() ? kept : whole_of(tensor)));
  }
  return all;
}

Inputs SamplingCall::merged_channels() const {
  if (grad_output.elements() != channels) return {};
  Inputs merged = with_image(whole_of(image));
  for (OwnedTensor* with_channels : {&merged.front(), &merged.back()}) {
    Index shape = with_channels->shape;
    shape[channel_dimension] = 1;
    *with_channels = OwnedTensor(with_channels->name, with_channels->dtype, shape);
  }
  for (int64_t place = 0; place < image.elements() / channels; ++place) {
    double sum = 0;
    for (int64_t c = 0; c < channels; ++c) sum += grad_output.at(c) * image.at(image_element(place, c));
    store(merged.front().bytes.data(), image.dtype, place, sum);
  }
  store(merged.back().bytes.data(), grad_output.dtype, 0, 1);
  return merged;
}

bool SamplingCall::move_locations(OwnedTensor& moved, int axis, int32_t size, int64_t first, int64_t count,
                                  const std::function<bool(int64_t sample)>& reads_it) const {
  const CoordinateMap before = coordinate_map(size), after = coordinate_map(static_cast<int32_t>(count));
  if (after.factor == 0) return false;
  for (int64_t sample = 0; sample < sample_count(); ++sample) {
    if (!reads_it(sample)) continue;
    const int64_t flat = sample * axes_count + axis;
    const double pixel = before.pixel(locations.at(flat)) - static_cast<double>(first);
    store(moved.bytes.data(), moved.dtype, flat, after.location(pixel));
  }
  return true;
}

}  // namespace msda::analysis
