// The intermediate tensors of deformable attention's backward pass, which libmsda computes for whole queries.
#include <algorithm>
#include <stdexcept>

#include "analysis/operators/msda/call.h"

namespace msda::analysis {
namespace {

const std::vector<std::string> kAxes{"x", "y"}, kOne{""};

Intermediate intermediate(const MsdaCall& call, msda_stage_id stage) {
  using Of = MsdaGradient;
  const std::vector<std::string> corners = call.tap_names();
  const std::vector<Gradient> of_sample{Of::kSamplingLocations, Of::kAttentionWeights};
  const auto make = [&](const std::vector<std::string>& components, std::optional<int64_t> channels,
                        const std::vector<Gradient>& shown_for) {
    return Intermediate{stage, msda_stage_name(stage), components, channels, shown_for, {}};
  };
  const auto make_gradient = [&](const std::vector<std::string>& components, Gradient gradient) {
    Intermediate result = make(components, {}, {gradient});
    result.gradient = gradient;
    return result;
  };
  switch (stage) {
    case MSDA_STAGE_CELL: {
      Intermediate cell = make(kAxes, {}, of_sample);
      cell.is_exact = true;
      return cell;
    }
    case MSDA_STAGE_INTERPOLATION_WEIGHTS:
      return make(corners, {}, of_sample);
    case MSDA_STAGE_CORNER_VALUES:
      return make(corners, call.D, of_sample);
    case MSDA_STAGE_SAMPLED_VALUE:
      return make(kOne, call.D, {Of::kAttentionWeights});
    case MSDA_STAGE_GRAD_ATTENTION_WEIGHTS:
      return make_gradient(kOne, Of::kAttentionWeights);
    case MSDA_STAGE_GRAD_SAMPLING_LOCATIONS:
      return make_gradient(kAxes, Of::kSamplingLocations);
    case MSDA_STAGE_VALUE_CONTRIBUTIONS:
      return make(corners, call.D, {Of::kValue});
    case MSDA_STAGE_GRAD_VALUE:
      return make_gradient(kOne, Of::kValue);
    default:
      return make(kAxes, {}, of_sample);  // pixel_coordinates
  }
}

// One stage of `count` queries of a batch from q on: the numbers of [count, M, L, P] samples.
std::vector<double> stage_of_queries(const MsdaCall& call, int64_t b, int64_t q, int64_t count, msda_stage_id stage,
                                     msda_mode mode, int threads) {
  const AbiCall abi = abi_queries(call, b, q, count);
  const Intermediate tensor = intermediate(call, stage);
  std::vector<int64_t> shape{1, count, call.M, call.L, call.P};
  if (tensor.components.size() > 1) shape.push_back(static_cast<int64_t>(tensor.components.size()));
  if (tensor.channels) shape.push_back(*tensor.channels);
  std::vector<double> values(static_cast<size_t>(count * call.M * call.L * call.P * tensor.width()));
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

}  // namespace

std::vector<Intermediate> MsdaCall::intermediates() const {
  std::vector<Intermediate> all;
  for (int stage = 0; stage < MSDA_STAGE_COUNT; ++stage) {
    all.push_back(intermediate(*this, static_cast<msda_stage_id>(stage)));
  }
  return all;
}

// libmsda computes whole queries; those at the ends are cut.
std::vector<double> MsdaCall::numbers_of(const Intermediate& tensor, int64_t first, int64_t count, msda_mode mode,
                                         int threads) const {
  const int64_t of_query = M * L * P, end = first + count;
  std::vector<double> numbers;
  numbers.reserve(static_cast<size_t>(count * tensor.width()));
  while (first < end) {
    const int64_t query = first / of_query, b = query / Q, q = query % Q;
    const int64_t queries = std::min(Q - q, (end - 1) / of_query - query + 1);
    const auto found = stage_of_queries(*this, b, q, queries, static_cast<msda_stage_id>(tensor.stage), mode, threads);
    const int64_t skipped = first - query * of_query, last = std::min(end, (query + queries) * of_query);
    const auto begin = found.begin() + skipped * tensor.width();
    numbers.insert(numbers.end(), begin, begin + (last - first) * tensor.width());
    first = last;
  }
  return numbers;
}

double MsdaCall::scattered_value(const ElementId& id, msda_mode mode, Cache& cache) const {
  if (mode == MSDA_MODE_FLOAT64) {
    const Precision precision = Precision::of(arithmetic());
    return element(id, {}, {precision, precision}, nullptr, cache).value;
  }
  double sum = 0;
  for (const double addend : addends(id, cache).values) sum = rounded_to(sum + addend, arithmetic());
  return sum;
}

bool MsdaCall::visit_stages(const ElementId& id, const Precision&, Cache& cache, const VisitStage& visit) const {
  if (id.gradient.scattered()) {
    if (visit(msda_stage_name(MSDA_STAGE_VALUE_CONTRIBUTIONS), image_addends(id.flat, cache))) return true;
    return visit(msda_stage_name(MSDA_STAGE_GRAD_VALUE), {scattered_value(id, MSDA_MODE_DETERMINISTIC, cache)});
  }
  const int64_t sample = sample_of(id.gradient, id.flat);
  for (const Intermediate& tensor : intermediates()) {
    const bool on_the_way = !tensor.gradient || tensor.gradient == id.gradient;
    if (!on_the_way || tensor.stage >= MSDA_STAGE_VALUE_CONTRIBUTIONS) continue;
    if (visit(tensor.name, numbers_of(tensor, sample, 1, MSDA_MODE_DETERMINISTIC, 1))) return true;
  }
  return false;
}

}  // namespace msda::analysis
