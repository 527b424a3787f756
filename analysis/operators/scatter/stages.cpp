// The intermediate tensors of a scattering call: what each sample adds, and the sums.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/model/evaluate.h"
#include "analysis/operators/scatter/table.h"
#include "kernels/parallel.h"

namespace msda::analysis {
namespace {

struct Stage {
  enum : int { kWeights, kContributions, kResult };
};

// Returns float64, or the arithmetic of our replays.
FactorArithmetic arithmetic_of_mode(const ScatterCall& call, msda_mode mode) {
  return mode == MSDA_MODE_FLOAT64 ? call.exact_arithmetic() : call.factor_arithmetics().front();
}

}  // namespace

std::vector<Intermediate> ScatterCall::intermediates() const {
  const std::vector<Gradient> shown{gradient()};
  std::vector<Intermediate> all;
  if (!names().weights.empty()) all.push_back({Stage::kWeights, "weights", names().corners, {}, {}, {}});
  all.push_back({Stage::kContributions, "contributions", names().corners, to().all_channels(), shown, {}});
  all.push_back({Stage::kResult, gradient().name(), {""}, {}, shown, gradient()});
  return all;
}

std::vector<double> ScatterCall::numbers_of(const Intermediate& tensor, int64_t first, int64_t count, msda_mode mode,
                                            int threads) const {
  const FactorArithmetic by = arithmetic_of_mode(*this, mode);
  const size_t factors = names().weights.size();
  const int64_t width = tensor.width(), channels = to().all_channels();
  const Tensor& numbers = source();
  std::vector<double> result(static_cast<size_t>(count * width));
  kernels::parallel_for_each(count, 256, threads, [&](int64_t i) {
    double* const put = result.data() + i * width;
    send(first + i, by, [&](const Contribution& contribution) {
      const double weight = product_of(contribution, factors, by.type);
      if (tensor.stage == Stage::kWeights) {
        put[contribution.corner] = weight;
        return;
      }
      for (int64_t c = 0; c < channels; ++c) {
        const double number = numbers.at(from().flat({contribution.source, c}));
        put[contribution.corner * channels + c] = rounded_to(weight * number, by.type);
      }
    });
  });
  return result;
}

std::vector<NamedAddend> ScatterCall::named_addends(const ElementId& id, Cache&) const {
  const auto at = to().at(id.flat);
  const int64_t channels = to().all_channels();
  const FactorArithmetic by = factor_arithmetics().front();
  std::vector<NamedAddend> addends;
  for (int64_t sample = 0; sample < sample_count(); ++sample) {
    send(sample, by, [&](const Contribution& contribution) {
      if (contribution.target != at.place) return;
      addends.push_back(
          {name_of_addend(sample, contribution.corner), sample, contribution.corner * channels + at.channel});
    });
  }
  return addends;
}

double ScatterCall::scattered_value(const ElementId& id, msda_mode mode, Cache& cache) const {
  return mode == MSDA_MODE_FLOAT64 ? float64_value(*this, id, cache) : tree_sum_of(addends(id, cache), arithmetic());
}

}  // namespace msda::analysis
