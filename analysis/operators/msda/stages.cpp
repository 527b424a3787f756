#include "analysis/operators/msda/stages.h"

#include <stdexcept>

namespace msda::analysis {
namespace {

// The dimensions of a stage after [B,Q,M,L,P].
std::vector<int64_t> dimensions_of_sample(const MsdaCall& call, msda_stage_id stage) {
  switch (stage) {
    case MSDA_STAGE_PIXEL_COORDINATES:
    case MSDA_STAGE_CELL:
    case MSDA_STAGE_GRAD_SAMPLING_LOCATIONS:
      return {2};
    case MSDA_STAGE_INTERPOLATION_WEIGHTS:
      return {4};
    case MSDA_STAGE_SAMPLED_VALUE:
      return {call.D};
    case MSDA_STAGE_CORNER_VALUES:
    case MSDA_STAGE_VALUE_CONTRIBUTIONS:
      return {4, call.D};
    default:
      return {};
  }
}

}  // namespace

int64_t stage_width(const MsdaCall& call, msda_stage_id stage) {
  if (stage == MSDA_STAGE_GRAD_VALUE) return 0;
  int64_t width = 1;
  for (const int64_t size : dimensions_of_sample(call, stage)) width *= size;
  return width;
}

std::vector<double> stage_of_queries(const MsdaCall& call, const Conventions& conventions, int64_t b, int64_t q,
                                     int64_t count, msda_stage_id stage, msda_mode mode, int threads) {
  const AbiCall abi = abi_queries(call, conventions, b, q, count);
  std::vector<int64_t> shape{1, count, call.M, call.L, call.P};
  for (const int64_t size : dimensions_of_sample(call, stage)) shape.push_back(size);
  std::vector<double> values(static_cast<size_t>(count * call.M * call.L * call.P * stage_width(call, stage)));
  const msda_tensor result =
      msda_contiguous(values.data(), MSDA_FLOAT64, static_cast<int32_t>(shape.size()), shape.data());
  msda_options options{};
  options.mode = mode;
  options.threads = threads;
  if (msda_stage(&abi.call, &abi.grad_output, &options, stage, &result) != MSDA_OK) {
    throw std::runtime_error(msda_last_error());
  }
  return values;
}

std::vector<double> stage_of_sample(const MsdaCall& call, const Conventions& conventions, const SampleId& sample,
                                    msda_stage_id stage, msda_mode mode) {
  const auto values = stage_of_queries(call, conventions, sample.b, sample.q, 1, stage, mode, 1);
  const int64_t width = stage_width(call, stage);
  const auto first = values.begin() + ((sample.m * call.L + sample.l) * call.P + sample.p) * width;
  return {first, first + width};
}

}  // namespace msda::analysis
