#include "analysis/model/evaluate.h"

#include <algorithm>
#include <random>
#include <span>

#include "analysis/model/kernels.h"
#include "kernels/parallel.h"

namespace msda::analysis {
namespace {

// Halves, quarters, ...: the sum of the first half and the sum of the second half, each rounded.
double tree_sum(std::span<const double> addends, msda_dtype type) {
  if (addends.empty()) return 0;
  if (addends.size() == 1) return addends[0];
  const size_t half = (addends.size() + 1) / 2;
  return rounded_to(tree_sum(addends.first(half), type) + tree_sum(addends.subspan(half), type), type);
}

double sum_in_order(std::span<const double> addends, msda_dtype type) {
  double sum = 0;
  for (const double addend : addends) sum = rounded_to(sum + addend, type);
  return sum;
}

}  // namespace

double float64_value(const Call& call, const ElementId& id, Cache& cache) {
  const Precision precision = Precision::of(MSDA_FLOAT64);
  Place place;
  for (const Axis& axis : call.axes(id)) {
    place.push_back(call.landings(axis, precision).front());
  }
  return call.element(id, place, {precision, precision}, nullptr, cache).value;
}

double tree_sum_of(const Addends& addends, msda_dtype type) {
  return rounded_to(tree_sum(addends.values, type) * addends.scale, type);
}

void evaluate(const Call& call, Gradient gradient, EvaluationMode mode, uint64_t seed, int threads,
              const PutElement& put) {
  const auto cache = call.new_cache();
  const msda_dtype type = call.arithmetic();
  kernels::parallel_for_each(kernels::elements_of(call.shape_of(gradient)), 4096, threads, [&](int64_t flat) {
    const ElementId id{gradient, flat, {}};
    if (mode == EvaluationMode::kFloat64) return put(flat, float64_value(call, id, *cache));
    Addends addends = call.addends(id, *cache);
    if (mode == EvaluationMode::kAtomic && gradient.scattered()) {
      std::mt19937_64 random(seed_of_order(seed, flat));
      std::ranges::shuffle(addends.values, random);
    }
    const bool in_order = mode == EvaluationMode::kAtomic;
    put(flat,
        in_order ? rounded_to(sum_in_order(addends.values, type) * addends.scale, type) : tree_sum_of(addends, type));
  });
}

void compute_gradients(const Call& call, const msda_options& options, std::span<const Tensor> results) {
  if (call.kernels() != nullptr) return call.kernels()->run_kernels(options, results);
  const EvaluationMode mode = options.mode == MSDA_MODE_FLOAT64  ? EvaluationMode::kFloat64
                              : options.mode == MSDA_MODE_ATOMIC ? EvaluationMode::kAtomic
                                                                 : EvaluationMode::kDeterministic;
  for (const Gradient gradient : call.gradients()) {
    const Tensor& result = results[gradient.place()];
    evaluate(call, gradient, mode, options.seed, options.threads,
             [&](int64_t flat, double value) { store(const_cast<void*>(result.data), result.dtype, flat, value); });
  }
}

}  // namespace msda::analysis
