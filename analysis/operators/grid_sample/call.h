// PyTorch's grid_sample backward call, 2D and 3D: gradients of its input and of its grid.
//
// After aten/src/ATen/native/GridSampler.h, whose names of conventions are used: a coordinate of `grid` in [-1, 1]
// becomes a pixel coordinate, which the padding reflects or clips; of it the interpolation makes weights of some pixels
// along each axis, the taps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/operators/sampling/call.h"
#include "kernels/grid_sample.h"

namespace msda::analysis {

struct GridSampleGradient {
  static constexpr Gradient::Description kDescriptions[] = {{"grad_input", 0, true}, {"grad_grid", 1, false}};
  static constexpr auto kAll = described<Gradient>(kDescriptions);
  static constexpr Gradient kInput = kAll[0], kGrid = kAll[1];
};

struct GridSampleDimension {
  static constexpr Dimension::Description kDescriptions[] = {{"batch", 0, false, false},
                                                             {"channel", 1, false, false},
                                                             {"sample", 2, false, false},
                                                             {"pixel", 3, false, false},
                                                             {"axis", 4, true, false}};
  static constexpr auto kAll = described<Dimension>(kDescriptions);
  // Samples and pixels are numbered in row-major order.
  static constexpr Dimension kBatch = kAll[0], kChannel = kAll[1], kSample = kAll[2], kPixel = kAll[3], kAxis = kAll[4];
};

// The image is `input`, the locations are `grid`; a family is a batch. Samples and pixels are in row-major order.
struct GridSampleCall final : SamplingCall {
  msda_grid_padding padding = MSDA_GRID_ZEROS;
  bool align_corners = false;
  int64_t N = 0, C = 0;
  int64_t pixels = 0, samples = 0;      // of one batch
  int32_t sides[3] = {1, 1, 1};         // of the input, by axis: x, y, z
  int64_t output_sides[3] = {1, 1, 1};  // of the grid, by axis

  void take_sizes() override;
  std::span<const Gradient> gradients() const override { return GridSampleGradient::kAll; }
  std::span<const Input> input_list() const override;

  int64_t family_count() const override { return N; }
  int64_t samples_of_family() const override { return samples; }
  int64_t family_of_sample(int64_t sample) const override { return sample / samples; }
  int64_t sample_in(int64_t family, int64_t number) const override { return family * samples + number; }
  SampledImage image_of(int64_t family) const override { return {{sides[0], sides[1], sides[2]}, family * pixels, 1}; }
  SampledPixel pixel_at(int64_t place) const override { return {place / pixels, place % pixels}; }

  Coordinate coordinate(const Axis& axis, const Precision& precision) const override;
  Landings landings(const Axis& axis, const Precision& precision) const override;
  std::vector<Evaluation> evaluations(const Axis& axis, msda_dtype arithmetic) const override;
  Taps taps(const Landing& landing, int32_t size) const override;
  Taps computed_taps(const Axis& axis, msda_dtype type, int variant) const override;
  bool adds_pixels_apart() const override { return true; }
  bool limits_weights_to_1() const override { return true; }

  Addends addends(const ElementId& id, Cache& cache) const override;
  bool has_narrow_kernels() const override { return true; }
  std::vector<SharedFactor> shared_factors() const override;
  std::vector<FactorArithmetic> factor_arithmetics() const override;
  KnownAdditions known(std::string_view kernel) const override;

  bool visit_stages(const ElementId& id, const Precision& precision, Cache& cache,
                    const VisitStage& visit) const override;
  std::vector<Intermediate> intermediates() const override;
  std::vector<double> numbers_of(const Intermediate& tensor, int64_t first, int64_t count, msda_mode mode,
                                 int threads) const override;
  double scattered_value(const ElementId& id, msda_mode mode, Cache& cache) const override;

  std::vector<Mistake> mistakes(const ElementId& id, const Place& place, const Element& exact,
                                const Precision& precision, Cache& cache) const override;
  std::string mistake_of(const WrongValues& wrong) const override;
  std::vector<Alternative> alternatives() const override;
  Steps input_steps(Gradient gradient) const override;
  Steps inner_steps(Gradient gradient) const override;
  const char* name_of(Step step) const override;

  std::span<const Dimension> dimensions() const override { return GridSampleDimension::kAll; }
  Coordinates sizes() const override { return {N, C, samples, pixels, axes_count}; }
  Coordinates coordinates_of(Gradient gradient, int64_t flat) const override;
  std::span<const Part> parts() const override;

  std::span<const char* const> float64_stages() const override;
  void run_kernels(const msda_options& options, std::span<const Tensor> results) const override;
  std::unique_ptr<DeviceCall> device_call(const msda_options& options, std::span<const Tensor> results) const override;

  std::vector<Cut> cuts() const override;
  std::vector<int> cuts_of(std::string_view tensor) const override;
  std::vector<Image> images() const override;
  Inputs cropped(size_t number, size_t side, int64_t first, int64_t count) const override;

  Slices slices(const CallSizes& sizes) const override;
  std::vector<Arithmetic> arithmetics() const override;
  Jumps jumps() const override;
  std::vector<int64_t> grad_output_at(const std::function<bool(const Axis&)>& is_chosen) const override;

  std::string operator_name() const override { return "grid_sample"; }
  int64_t launch_index(int64_t sample) const override { return sample % samples; }
  const char* launch_index_name() const override { return GridSampleDimension::kSample.name(); }
  std::string text_of_sample(int64_t sample) const override;
  std::optional<PythonSamples> samples_in_python() const override;
  std::vector<Convention> convention_values() const override;
  std::string text_of_sizes() const override;
  std::vector<std::string> text_of_place(Gradient gradient, int64_t flat) const override;

 protected:
  std::string text_of_contribution(int64_t sample, size_t) const override {
    return "sample " + std::to_string(sample % samples);
  }
  std::shared_ptr<SamplingCall> copy() const override { return std::make_shared<GridSampleCall>(*this); }
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
