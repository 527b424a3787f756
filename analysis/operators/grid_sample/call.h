// PyTorch's grid_sample backward call, 2D and 3D: gradients of its input and of its grid.
//
// After aten/src/ATen/native/GridSampler.h, whose names of conventions are used: a coordinate of `grid` in [-1, 1]
// becomes a pixel coordinate, which the padding reflects or clips; of it the interpolation makes weights of some pixels
// along each axis, the taps.
#pragma once

#include <boost/container/static_vector.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/model/call.h"
#include "analysis/model/forward.h"
#include "analysis/model/hypotheses.h"
#include "analysis/model/kernels.h"
#include "analysis/model/stages.h"
#include "kernels/grid_sample.h"

namespace msda::analysis {

struct GridSampleGradient {
  static constexpr Gradient::Description kInputDescription{"grad_input", 0, true};
  static constexpr Gradient::Description kGridDescription{"grad_grid", 1, false};
  static constexpr Gradient kInput{kInputDescription}, kGrid{kGridDescription};
};
inline constexpr Gradient kGridSampleGradients[] = {GridSampleGradient::kInput, GridSampleGradient::kGrid};

struct GridSampleDimension {
  static constexpr Dimension::Description kDescriptions[] = {{"batch", 0, false, false},
                                                             {"channel", 1, false, false},
                                                             {"sample", 2, false, false},
                                                             {"pixel", 3, false, false},
                                                             {"axis", 4, true, false}};
  // Samples and pixels are numbered in row-major order.
  static constexpr Dimension kBatch{kDescriptions[0]}, kChannel{kDescriptions[1]}, kSample{kDescriptions[2]},
      kPixel{kDescriptions[3]}, kAxis{kDescriptions[4]};
};

// A pixel along one axis, and its weight with the first two derivatives by the coordinate.
struct Tap {
  int32_t pixel;  // -1: none, it reads 0
  double weight, slope, curve;
};
using Taps = boost::container::static_vector<Tap, 4>;

class GridContributions;

// Shapes fit each other, and no size is 0.
struct GridSampleCall final : Call, Stages, Kernels, Forward, Hypotheses {
  msda_interpolation interpolation = MSDA_BILINEAR;
  msda_grid_padding padding = MSDA_GRID_ZEROS;
  bool align_corners = false;
  int axes_count = 2;  // 2 or 3
  int64_t N = 0, C = 0;
  int64_t pixels = 0, samples = 0;  // of one batch
  int32_t sides[3] = {};            // of the input, by axis: x, y, z
  int64_t output_sides[3] = {};     // of the grid, by axis
  Tensor input, grid, grad_output;

  std::span<const Gradient> gradients() const override { return kGridSampleGradients; }
  Index shape_of(Gradient gradient) const override;
  std::vector<NamedTensor> inputs() const override;
  msda_dtype arithmetic() const override;

  Axes axes(const ElementId& id) const override;
  Coordinate coordinate(const Axis& axis, const Precision& precision) const override;
  Landings landings(const Axis& axis, const Precision& precision) const override;
  std::vector<Evaluation> evaluations(const Axis& axis, msda_dtype arithmetic) const override;

  std::unique_ptr<Cache> new_cache() const override;
  Element element(const ElementId& id, const Place& place, const Precisions& precisions, const Narrowing* narrowing,
                  Cache& cache) const override;
  Addends addends(const ElementId& id, Cache& cache) const override;
  bool has_narrow_kernels() const override { return true; }

  int64_t family_of(Gradient gradient, int64_t flat) const override;  // the batch
  int64_t samples_of_family() const override { return samples; }
  std::vector<int64_t> some_of_family(Gradient gradient, int64_t family, int64_t most) const override;
  int64_t weights_of(Gradient gradient, int64_t flat) const override;
  std::unique_ptr<Additions> additions(Gradient gradient) const override;

  bool visit_inputs(const ElementId& id, const Place& place, const Precision& precision, Cache& cache,
                    const VisitInput& visit) const override;
  bool visit_stages(const ElementId& id, const Precision& precision, Cache& cache,
                    const VisitStage& visit) const override;

  std::vector<Intermediate> intermediates() const override;
  int64_t sample_count() const override { return N * samples; }
  std::vector<double> numbers_of(const Intermediate& tensor, int64_t first, int64_t count, msda_mode mode,
                                 int threads) const override;
  std::vector<NamedAddend> named_addends(const ElementId& id, Cache& cache) const override;
  double scattered_value(const ElementId& id, msda_mode mode, Cache& cache) const override;

  std::vector<Mistake> mistakes(const ElementId& id, const Place& place, const Element& exact,
                                const Precision& precision, Cache& cache) const override;
  std::string mistake_of(const WrongValues& wrong) const override;
  std::vector<Alternative> alternatives() const override;
  Steps input_steps(Gradient gradient) const override;
  Steps inner_steps(Gradient gradient) const override;
  const char* name_of(Step step) const override;

  std::span<const Dimension> dimensions() const override;
  Coordinates sizes() const override { return {N, C, samples, pixels, axes_count}; }
  Coordinates coordinates_of(Gradient gradient, int64_t flat) const override;
  std::span<const Part> parts() const override;

  std::span<const char* const> float64_stages() const override;
  void run_kernels(const msda_options& options, std::span<const Tensor> results) const override;
  std::unique_ptr<DeviceCall> device_call(const msda_options& options, std::span<const Tensor> results) const override;

  std::shared_ptr<const Call> with_inputs(std::span<const OwnedTensor> inputs) const override;
  std::vector<Cut> cuts() const override;
  Kept kept_of(std::string_view tensor, const Kept& kept) const override;
  std::vector<int64_t> cut_indices(const ElementId& id) const override;
  std::vector<Image> images() const override;
  Inputs cropped(size_t image, size_t side, int64_t first, int64_t count) const override;
  Inputs merged_channels() const override;

  Loss loss_at(const ElementId& id, double x) const override;
  std::optional<size_t> moved_axis(const ElementId& id) const override;

  Slices slices(const CallSizes& sizes) const override;
  std::shared_ptr<const Call> with_values(std::span<const Tensor> inputs) const override;
  std::vector<Arithmetic> arithmetics() const override;
  Jumps jumps() const override;
  std::vector<int64_t> grad_output_at(const std::function<bool(const Axis&)>& is_chosen) const override;

  std::string operator_name() const override { return "grid_sample"; }
  std::optional<PythonSamples> samples_in_python() const override;
  std::vector<Convention> convention_values() const override;
  std::string text_of_sizes() const override;
  std::vector<std::string> text_of_place(Gradient gradient, int64_t flat) const override;
  std::shared_ptr<const Call> outline() const override;

  // From the tensors' shapes, which fit each other.
  void take_sizes();

  // A sample of the grid, and an element of grad_input.
  struct SampleId {
    int64_t n, at;  // `at` among those of the batch
  };
  struct PixelId {
    int64_t n, c, at;
  };
  SampleId sample_of(int64_t flat) const { return {flat / axes_count / samples, flat / axes_count % samples}; }
  PixelId pixel_of(int64_t flat) const { return {flat / pixels / C, flat / pixels % C, flat % pixels}; }
  Axis axis_of(const SampleId& sample, int axis) const;
  int64_t grad_output_of(const SampleId& sample, int64_t c) const { return (sample.n * C + c) * samples + sample.at; }
  using Call::input_of;
  int64_t input_of(int64_t n, int64_t c, int64_t pixel) const { return (n * C + c) * pixels + pixel; }

  std::shared_ptr<const GridContributions> contributions(Cache& cache, int64_t n, const Precision& precision) const;
  // Returns what a sample that landed there reads along an axis.
  Taps taps(const Landing& landing, int axis) const;
};

// The call as the C ABI takes it. The tensors are views of the same memory.
struct GridAbiCall {
  msda_grid_sample_call call;
  msda_tensor grad_output;
};
GridAbiCall abi_call(const GridSampleCall& call);
// Returns the same for `count` samples of batch n from `first` on, as samples in a column.
GridAbiCall abi_samples(const GridSampleCall& call, int64_t n, int64_t first, int64_t count);
// Returns the same for one channel of batch n.
GridAbiCall abi_channel(const GridSampleCall& call, int64_t n, int64_t c);

}  // namespace msda::analysis
