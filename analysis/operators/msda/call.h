// Multi-scale deformable attention's backward call.
#pragma once

#include <string>
#include <vector>

#include "analysis/model/dialects.h"
#include "analysis/operators/sampling/call.h"

namespace msda::analysis {

// What differs between kernels of the operator, and decides where a location lands.
struct Conventions {
  msda_dialect dialect = MSDA_DEFORMABLE_DETR;
  msda_padding padding = MSDA_PADDING_ZEROS;
  bool align_corners = false;

  friend bool operator==(const Conventions&, const Conventions&) = default;
};

struct LevelSize {
  int32_t height, width;
  int64_t start;
};
// Side of a level along an axis: 0 is x, 1 is y.
inline int32_t side_of(const LevelSize& level, int axis) { return axis == 0 ? level.width : level.height; }

struct MsdaGradient {
  static constexpr Gradient::Description kDescriptions[] = {
      {"grad_value", 0, true}, {"grad_sampling_locations", 1, false}, {"grad_attention_weights", 2, false}};
  static constexpr auto kAll = described<Gradient>(kDescriptions);
  static constexpr Gradient kValue = kAll[0], kSamplingLocations = kAll[1], kAttentionWeights = kAll[2];
};

struct MsdaDimension {
  static constexpr Dimension::Description kDescriptions[] = {
      {"batch", 0, false, false}, {"query", 1, false, false}, {"pixel", 2, false, false}, {"head", 3, false, false},
      {"level", 4, false, true},  {"point", 5, false, false}, {"axis", 6, true, false},   {"channel", 7, false, false}};
  static constexpr auto kAll = described<Dimension>(kDescriptions);
  // The pixel is that of the whole pyramid.
  static constexpr Dimension kBatch = kAll[0], kQuery = kAll[1], kPixel = kAll[2], kHead = kAll[3], kLevel = kAll[4],
                             kPoint = kAll[5], kAxis = kAll[6], kChannel = kAll[7];
};

// Inputs that msda_backward() has accepted. The image is `value` [B,S,M,D], the locations `sampling_locations`
// [B,Q,M,L,P,2], the factors `attention_weights` [B,Q,M,L,P]. A family is a level of a head of a batch.
struct MsdaCall final : SamplingCall, Dialects {
  Conventions conventions;
  int64_t B = 0, S = 0, M = 0, D = 0, L = 0, Q = 0, P = 0;
  std::vector<LevelSize> levels;
  Tensor spatial_shapes;  // as given, of the same levels

  void take_sizes() override;
  std::span<const Gradient> gradients() const override { return MsdaGradient::kAll; }
  std::span<const Input> input_list() const override;

  int64_t family_count() const override { return B * M * L; }
  int64_t samples_of_family() const override { return Q * P; }
  int64_t family_of_sample(int64_t sample) const override;
  int64_t sample_in(int64_t family, int64_t number) const override;
  SampledImage image_of(int64_t family) const override;
  SampledPixel pixel_at(int64_t place) const override;
  int64_t level_at(int64_t pixel) const;  // of the pyramid
  const LevelSize& level_of(int64_t sample) const { return levels[static_cast<size_t>(sample / P % L)]; }

  Coordinate coordinate(const Axis& axis, const Precision& precision) const override;
  Landings landings(const Axis& axis, const Precision& precision) const override;
  std::vector<Evaluation> evaluations(const Axis& axis, msda_dtype arithmetic) const override;
  Taps taps(const Landing& landing, int32_t size) const override;
  Taps computed_taps(const Axis& axis, msda_dtype type, int variant) const override;
  bool adds_pixels_apart() const override { return false; }
  bool limits_weights_to_1() const override { return false; }
  int64_t conventions_number() const override;

  Element element(const ElementId& id, const Place& place, const Precisions& precisions, const Narrowing* narrowing,
                  Cache& cache) const override;
  Uncertain narrowed_addend(const Narrowing& narrowing, const Uncertain& weight, double go,
                            double factor) const override;
  Addends addends(const ElementId& id, Cache& cache) const override;
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

  std::span<const Dimension> dimensions() const override { return MsdaDimension::kAll; }
  Coordinates sizes() const override { return {B, Q, S, M, L, P, 2, D}; }
  Coordinates coordinates_of(Gradient gradient, int64_t flat) const override;
  std::span<const Part> parts() const override;

  std::span<const char* const> float64_stages() const override;
  void run_kernels(const msda_options& options, std::span<const Tensor> results) const override;
  std::unique_ptr<DeviceCall> device_call(const msda_options& options, std::span<const Tensor> results) const override;

  std::vector<Cut> cuts() const override;
  std::vector<int> cuts_of(std::string_view tensor) const override;
  Kept kept_of(std::string_view tensor, const Kept& kept) const override;
  std::vector<int64_t> cut_indices(const ElementId& id) const override;
  std::vector<Image> images() const override;
  Inputs cropped(size_t number, size_t side, int64_t first, int64_t count) const override;

  Slices slices(const CallSizes& sizes) const override;
  std::vector<int64_t> normalized_together(size_t input) const override;
  std::vector<Arithmetic> arithmetics() const override;
  double value_in(const Arithmetic& arithmetic, Gradient gradient, int64_t flat) const override;
  bool contracts(const Arithmetic& arithmetic) const override;
  std::unique_ptr<Screen> screen(const Arithmetic& observed, const Arithmetic& expected) const override;

  std::string operator_name() const override { return "msda"; }
  int64_t launch_index(int64_t sample) const override { return sample / (P * L * M) % Q; }
  const char* launch_index_name() const override { return MsdaDimension::kQuery.name(); }
  std::string text_of_sample(int64_t sample) const override;
  std::optional<PythonSamples> samples_in_python() const override;
  std::vector<Convention> convention_values() const override;
  std::string text_of_sizes() const override;
  std::string text_of(Dimension dimension, int64_t index) const override;
  std::vector<std::string> text_of_place(Gradient gradient, int64_t flat) const override;

  const char* dialect() const override { return msda_dialect_name(conventions.dialect); }
  std::shared_ptr<const Call> in_dialect(const std::string& name) const override;
  std::shared_ptr<const Call> padded(msda_padding padding, bool align_corners) const override;
  std::shared_ptr<const Call> in_dialect_of_tests() const override { return in_dialect(MSDA_GRID_SAMPLE); }
  std::shared_ptr<const Call> under(const Call& another) const override;
  // Return the same tensors under other conventions; null if they are the call's own.
  std::shared_ptr<const Call> with(const Conventions& changed) const;
  std::shared_ptr<const Call> in_dialect(msda_dialect dialect) const;

 protected:
  std::string text_of_contribution(int64_t sample, size_t tap) const override;
  std::shared_ptr<SamplingCall> copy() const override { return std::make_shared<MsdaCall>(*this); }
};

// The call as the C ABI takes it, with any conventions. The tensors are views of the same memory.
struct AbiCall {
  msda_call call;
  msda_tensor grad_output;
};
AbiCall abi_call(const MsdaCall& call);
// Returns the same for `count` queries of one batch from q on.
AbiCall abi_queries(const MsdaCall& call, int64_t b, int64_t q, int64_t count);

}  // namespace msda::analysis
