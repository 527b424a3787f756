// Operators that sample images: a sample reads the pixels around its coordinates, each with a weight that depends on
// where in the cell it landed, and multiplies what it reads by a factor of its own.
//
//     output[row, channel] = sum over the row's samples factor * sum over taps weight * image[pixel, channel]
//
// An operator derived from this names its tensors, and says which samples read which image, where a coordinate lands,
// which pixels it then reads along an axis, and how kernels evaluate that. Elements with their bounds, addends, the
// order of additions and the forward pass follow from it.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "analysis/model/forward.h"
#include "analysis/model/hypotheses.h"
#include "analysis/model/kernels.h"
#include "analysis/model/stages.h"
#include "analysis/operators/sampling/arithmetic.h"

namespace msda::analysis {

class Contributions;
struct Read;
using Reads = boost::container::static_vector<Read, 16>;

// What the samples of a family read. A place is a number of a tensor's element without its channel.
struct SampledImage {
  int32_t sides[3];     // x, y, z; 1 where there are two axes
  int64_t first, step;  // places of its pixels: first, first + step, ...

  int64_t pixels() const { return int64_t{sides[0]} * sides[1] * sides[2]; }
  int64_t place_of(int64_t pixel) const { return first + pixel * step; }
};

struct SampledPixel {
  int64_t family, pixel;  // `pixel`: in the family's image
};

// Samples of a family read one image; they are numbered in the family, and in row-major order in the call. Shapes fit
// each other, and no size is 0.
struct SamplingCall : Call, Additions, Stages, Kernels, Forward, Hypotheses, SamplingArithmetic {
  Tensor image, locations, factors, grad_output;  // without data: all factors are 1
  // From the tensors' shapes, by take_sizes().
  int axes_count = 2;  // 2 or 3
  int64_t channels = 0;
  int64_t image_step = 1, output_step = 1;  // between the channels of a pixel, and of a row of grad_output
  int64_t samples_of_row = 1;               // that are multiplied by one row of grad_output
  msda_interpolation interpolation = MSDA_BILINEAR;

  size_t channel_dimension = 0;  // of the image and of grad_output

  virtual void take_sizes() = 0;

  // --- What an operator says of itself.
  // Its tensors by their names, the image first and grad_output last.
  struct Input {
    const char* name;
    Tensor SamplingCall::*tensor;
  };
  virtual std::span<const Input> input_list() const = 0;
  virtual int64_t family_of_sample(int64_t sample) const = 0;
  virtual int64_t sample_in(int64_t family, int64_t number) const = 0;
  virtual SampledImage image_of(int64_t family) const = 0;
  virtual SampledPixel pixel_at(int64_t place) const = 0;

  // --- What follows from it.
  static constexpr size_t kOfImage = 0, kOfLocations = 1;  // places of gradients; the third is that of the factors
  int64_t sample_of(Gradient gradient, int64_t flat) const {
    return gradient.place() == kOfLocations ? flat / axes_count : flat;
  }
  // Returns the axis of an element of the locations' gradient; -1 for others.
  int axis_of(Gradient gradient, int64_t flat) const {
    return gradient.place() == kOfLocations ? static_cast<int>(flat % axes_count) : -1;
  }
  int64_t with_channel(int64_t place, int64_t step, int64_t channel) const {
    if (step == 1) return place * channels + channel;
    return place / step * step * channels + place % step + channel * step;
  }
  int64_t without_channel(int64_t flat, int64_t step) const { return flat / (step * channels) * step + flat % step; }
  int64_t image_element(int64_t place, int64_t channel) const { return with_channel(place, image_step, channel); }
  int64_t output_element(int64_t sample, int64_t channel) const {
    return with_channel(sample / samples_of_row, output_step, channel);
  }
  int64_t channel_of(int64_t flat) const { return flat / image_step % channels; }  // of an element of the image
  bool has_factors() const { return !factors.shape.empty(); }
  double factor_of(int64_t sample) const { return factors ? factors.at(sample) : 1; }
  Axis axis_at(int64_t sample, const SampledImage& read, int axis) const {
    return {locations.at(sample * axes_count + axis), read.sides[axis], locations.dtype};
  }
  // Calls visit(pixel, tap, weights by axis) for the pixels that kernels read, the taps numbered x fastest.
  using VisitTap = std::function<void(int64_t pixel, size_t tap, std::span<const double> weights)>;
  void visit_computed_taps(int64_t sample, const SampledImage& read, msda_dtype type, int variant,
                           const VisitTap& visit) const;
  // Returns the names of the taps that a sample reads, x fastest: "y0,x1".
  std::vector<std::string> tap_names() const;
  std::string text_of_addend(int64_t sample, size_t tap) const;
  int taps_along() const { return interpolation == MSDA_BILINEAR ? 2 : interpolation == MSDA_NEAREST ? 1 : 4; }
  size_t taps_count() const { return static_cast<size_t>(std::pow(taps_along(), axes_count)); }
  // Returns the value of an element of a sample's gradient if the sample read these pixels, as a fault may have it.
  double value_of_reads(const ElementId& id, const Place& place, const SampledImage& read_image,
                        const Reads& reads) const;
  std::shared_ptr<const Contributions> contributions(Cache& cache, int64_t family, const Precision& precision,
                                                     const Narrowing* narrowing = nullptr) const;

  Index shape_of(Gradient gradient) const override;
  std::vector<NamedTensor> inputs() const override;
  std::vector<NamedTensor> all_inputs() const override;
  msda_dtype arithmetic() const override;
  Axes axes(const ElementId& id) const override;

  Uncertain narrowed_addend(const Narrowing& narrowing, const Uncertain& weight, double go,
                            double factor) const override;
  std::unique_ptr<Cache> new_cache() const override;
  Element element(const ElementId& id, const Place& place, const Precisions& precisions, const Narrowing* narrowing,
                  Cache& cache) const override;
  std::shared_ptr<const Additions> additions(Gradient gradient) const override;
  std::vector<std::string> factor_names() const override;
  std::vector<SharedAddend> shared_addends(int64_t family, const FactorArithmetic& arithmetic) const override;
  std::vector<int64_t> elements_of(int64_t target) const override;
  void channel_factors(int64_t sample, std::span<double> factors) const override;
  std::string addend_name(const SharedAddend& addend) const override;

  int64_t family_of(Gradient gradient, int64_t flat) const override;
  std::vector<int64_t> some_of_family(Gradient gradient, int64_t family, int64_t most) const override;
  // Counts the channels of a pixel as one.
  int64_t weights_of(Gradient gradient, int64_t flat) const override;
  bool visit_inputs(const ElementId& id, const Place& place, const Precision& precision, Cache& cache,
                    const VisitInput& visit) const override;

  int64_t sample_count() const override { return locations.elements() / axes_count; }
  std::vector<NamedAddend> named_addends(const ElementId& id, Cache& cache) const override;

  std::shared_ptr<const Call> with_tensors(std::vector<Tensor> tensors) const override;
  Inputs merged_channels() const override;

  Loss loss_at(const ElementId& id, double x) const override;
  std::optional<size_t> moved_axis(const ElementId& id) const override;

 protected:
  virtual std::shared_ptr<SamplingCall> copy() const = 0;
  // Returns the addends of an element of the image's gradient in the call's own arithmetic.
  std::vector<double> image_addends(int64_t flat, Cache& cache) const;
  // Returns mistakes in the sum of an element of the image's gradient. `factors_name`: what the factors are called, if
  // there are any.
  std::vector<Mistake> pixel_mistakes(const ElementId& id, const Element& exact, const Precision& precision,
                                      Cache& cache, const char* factors_name) const;
  virtual std::string text_of_contribution(int64_t sample, size_t tap) const = 0;  // "sample 3"
  // Returns the inputs, of the image what is kept.
  Inputs with_image(const Kept& kept) const;
  // Moves the coordinates of samples along an axis whose `first` pixels are cut off, so that `count` remain. Returns
  // false where there is no such coordinate.
  bool move_locations(OwnedTensor& moved, int axis, int32_t size, int64_t first, int64_t count,
                      const std::function<bool(int64_t sample)>& reads_it) const;
};

}  // namespace msda::analysis
