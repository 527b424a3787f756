#include "analysis/stress/simulate.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <string_view>
#include <utility>

#include "analysis/model/dialects.h"
#include "analysis/model/evaluate.h"
#include "kernels/names.h"

namespace msda::analysis::stress {
namespace {

// A call under an arithmetic's conventions.
class Version {
 public:
  Version(const Call& call, const Arithmetic& by)
      : other_(by.alternative ? call.dialects()->under(*by.alternative) : nullptr), call_(other_ ? *other_ : call) {}
  const Call& operator*() const { return call_; }
  const Call* operator->() const { return &call_; }

 private:
  std::shared_ptr<const Call> other_;
  const Call& call_;
};

}  // namespace

bool Mask::covers(const Call& call, const Axis& axis) const {
  const auto [spacing, offset, scattered] = call.jumps();
  const double at = call.coordinate(axis, Precision::of(MSDA_FLOAT64)).exact - offset;
  const double boundary = spacing * nearest_boundary(at / spacing);
  return !(std::abs(at - boundary) > units * 0x1p-23 * axis.size);
}

bool Mask::hides(const Call& call, const ElementId& id) const {
  if (!(units > 0) || id.gradient.scattered() || call.jumps().scattered) return false;
  return std::ranges::any_of(call.axes(id), [&](const Axis& axis) { return covers(call, axis); });
}

std::vector<int64_t> Mask::silenced(const Call& call) const {
  if (!(units > 0) || !call.jumps().scattered) return {};
  return call.grad_output_at([&](const Axis& axis) { return covers(call, axis); });
}

std::optional<bool> looks_contracted(const Call& call, const Side& side, const Arithmetic& arithmetic) {
  constexpr int64_t kMost = 20'000;
  Arithmetic contracted = arithmetic, written = arithmetic;
  contracted.contracted = true;
  written.contracted = false;
  if (!call.contracts(contracted)) return std::nullopt;
  const Version version(call, arithmetic);
  int64_t nearer = 0;  // elements that are nearer to the contracted evaluation, less those nearer to the written one
  for (const Gradient gradient : call.gradients()) {
    const Tensor& recorded = side.of(gradient);
    if (gradient.scattered() || !recorded) continue;
    const int64_t elements = recorded.elements(), step = std::max<int64_t>(1, elements / kMost);
    for (int64_t flat = 0; flat < elements; flat += step) {
      const double value = recorded.at(flat);
      const double from_contracted = std::abs(value - version->value_in(contracted, gradient, flat));
      const double from_written = std::abs(value - version->value_in(written, gradient, flat));
      nearer += (from_contracted < from_written) - (from_written < from_contracted);
    }
  }
  return nearer == 0 ? std::nullopt : std::optional(nearer > 0);
}

Cause cause_of(const Call& call, const ElementId& id, const Arithmetic& observed, const Arithmetic& expected) {
  if (id.gradient.scattered()) {
    return observed.version_of(call).arithmetic_name() == expected.version_of(call).arithmetic_name() &&
                   expected.mode != MSDA_MODE_FLOAT64
               ? Cause::kAccumulationOrder
               : Cause::kIllConditioned;
  }
  bool differs = false;
  const auto landing = [&](const Arithmetic& by, const Axis& axis) {
    const msda_dtype type = by.mode == MSDA_MODE_FLOAT64 ? MSDA_FLOAT64 : call.arithmetic();
    const auto ways = by.version_of(call).evaluations(axis, type);
    return (by.contracted ? ways.back() : ways.front()).landing;  // contracted, if that differs
  };
  for (const Axis& axis : call.axes(id)) {
    const Landing a = landing(observed, axis), b = landing(expected, axis);
    if (a == b) continue;
    // If several axes differ, prefers one in which the cells differ (causes/crossing.cpp).
    if (a.low != b.low || a.skipped != b.skipped) return Cause::kCellBoundary;
    differs = true;
  }
  return differs ? Cause::kBorderClamp : Cause::kIllConditioned;
}

Simulator::Simulator(const Plan& plan) : plan_(plan) {
  const Call& outline = *plan.slices.outline;
  if (!plan.every_element && !plan.criterion.factor) screen_ = outline.screen(plan.observed, plan.expected);
  const auto inputs = outline.inputs();
  drawn_.resize(inputs.size());
  stored_.resize(inputs.size());
}

const Call& Simulator::draw_slice(int64_t run, int64_t slice) {
  const auto inputs = plan_.slices.outline->inputs();
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& shaped = inputs[i].tensor;
    const int64_t count = shaped.elements();
    drawn_[i].resize(static_cast<size_t>(count) + 1);  // never empty: a tensor without data is none
    draw(plan_.inputs[i], seed_of(plan_.seed, run, slice, static_cast<int64_t>(i)), count, drawn_[i].data(), bits_);
    Tensor tensor = shaped;
    tensor.data = drawn_[i].data();
    if (shaped.dtype != MSDA_FLOAT32) {
      stored_[i].resize(static_cast<size_t>((count + 1) * kernels::bytes_of(shaped.dtype)));
      for (int64_t at = 0; at < count; ++at) {
        store(stored_[i].data(), shaped.dtype, at, static_cast<double>(drawn_[i][static_cast<size_t>(at)]));
      }
      tensor.data = stored_[i].data();
    }
    tensors.push_back(tensor);
  }
  call_ = plan_.slices.outline->with_values(tensors);
  const auto silenced = plan_.mask.silenced(*call_);
  for (size_t i = 0; i < inputs.size() && !silenced.empty(); ++i) {
    if (std::string_view(inputs[i].name) != "grad_output") continue;
    void* data = tensors[i].dtype == MSDA_FLOAT32 ? static_cast<void*>(drawn_[i].data()) : stored_[i].data();
    for (const int64_t flat : silenced) store(data, tensors[i].dtype, flat, 0);
  }
  return *call_;
}

void compute(const Call& call, const Arithmetic& by, uint64_t seed, int threads, Gradients& result) {
  std::vector<Tensor> results;
  for (const Gradient gradient : call.gradients()) {
    const size_t at = gradient.place();
    // A float64 reference stays in float64.
    const msda_dtype type = by.mode == MSDA_MODE_FLOAT64 ? MSDA_FLOAT64 : call.inputs().front().tensor.dtype;
    Tensor tensor{nullptr, type, call.shape_of(gradient)};
    result.memory[at].resize(static_cast<size_t>((tensor.elements() + 1) * kernels::bytes_of(type)));
    tensor.data = result.memory[at].data();
    result.tensors[at] = tensor;
    results.push_back(tensor);
  }
  msda_options options{};
  options.mode = by.mode;
  options.threads = threads;
  options.seed = seed;
  const Version version(call, by);
  compute_gradients(*version, options, results);
  if (!call.contracts(by)) return;
  for (const Gradient gradient : call.gradients()) {
    if (gradient.scattered()) continue;
    const Tensor& tensor = result.tensors[gradient.place()];
    for (int64_t flat = 0; flat < tensor.elements(); ++flat) {
      store(result.memory[gradient.place()].data(), tensor.dtype, flat, version->value_in(by, gradient, flat));
    }
  }
}

namespace {

// The largest error of each gradient, against float64.
using Errors = std::array<double, kMostGradients>;
void add_errors(const Call& call, const Mask& mask, const Gradients& gradients, const Gradients& exact,
                Errors& errors) {
  for (const Gradient gradient : call.gradients()) {
    const size_t at = gradient.place();
    for (int64_t flat = 0; flat < exact.tensors[at].elements(); ++flat) {
      const double error = std::abs(gradients.tensors[at].at(flat) - exact.tensors[at].at(flat));
      if (error <= errors[at] || mask.hides(call, {gradient, flat, {}})) continue;
      errors[at] = std::isnan(error) ? INFINITY : error;
    }
  }
}

}  // namespace

int64_t count_misses(const Call& call, const Arithmetic& observed, const Arithmetic& expected,
                     const Criterion& criterion, const Mask& mask, uint64_t seed, int threads) {
  Gradients o, e, exact;
  compute(call, observed, seed, threads, o);
  compute(call, expected, seed, threads, e);
  int64_t misses = 0;
  if (criterion.factor) {
    compute(call, {"float64", MSDA_MODE_FLOAT64}, 0, threads, exact);
    Errors of_observed{}, of_expected{};
    add_errors(call, mask, o, exact, of_observed);
    add_errors(call, mask, e, exact, of_expected);
    for (size_t at = 0; at < kMostGradients; ++at) misses += !(of_observed[at] <= *criterion.factor * of_expected[at]);
    return misses;
  }
  for (const Gradient gradient : call.gradients()) {
    const Tensor &a = o.tensors[gradient.place()], &b = e.tensors[gradient.place()];
    for (int64_t flat = 0; flat < a.elements(); ++flat) {
      if (criterion.tolerance.holds(a.at(flat), b.at(flat))) continue;
      misses += !mask.hides(call, {gradient, flat, {}});
    }
  }
  return misses;
}

int64_t count_recorded_misses(const Call& call, const Side& recorded, const Arithmetic& expected,
                              const Tolerance& tolerance, int threads) {
  Gradients e;
  compute(call, expected, 0, threads, e);
  int64_t misses = 0;
  for (const Gradient gradient : call.gradients()) {
    const Tensor &a = recorded.of(gradient), &b = e.tensors[gradient.place()];
    for (int64_t flat = 0; a && flat < a.elements(); ++flat) misses += !tolerance.holds(a.at(flat), b.at(flat));
  }
  return misses;
}

void Simulator::compare_element(const Call& call, Gradient gradient, int64_t flat, double observed, double expected,
                                int64_t slice, Run& result) {
  const Tolerance& tolerance = plan_.criterion.tolerance;
  const double difference = std::abs(observed - expected), magnitude = std::abs(expected);
  const double over_atol = difference - tolerance.rtol * magnitude;
  const double over_rtol = difference > tolerance.atol ? (difference - tolerance.atol) / magnitude : 0;
  const bool misses = !tolerance.holds(observed, expected);
  if (!misses && !(over_atol > result.needed_atol) && !(over_rtol > result.needed_rtol)) return;
  const ElementId id{gradient, flat, {}};
  if (plan_.mask.hides(call, id)) return;
  result.needed_atol = std::max(result.needed_atol, std::isnan(over_atol) ? INFINITY : over_atol);
  result.needed_rtol = std::max(result.needed_rtol, std::isnan(over_rtol) ? INFINITY : over_rtol);
  if (!misses) return;
  result.fails = result.failing[gradient.place()] = true;
  ++result.missed;
  if (result.misses.size() >= kMostMisses) return;
  result.misses.push_back(
      {gradient, slice, flat, observed, expected, cause_of(call, id, plan_.observed, plan_.expected)});
}

void Simulator::compare_all(const Call& call, const std::array<bool, kMostGradients>& wanted, int64_t run,
                            int64_t slice, Run& result) {
  const uint64_t seed = seed_of(plan_.seed, run, slice, -1);
  compute(call, plan_.observed, seed, 1, observed_);
  compute(call, plan_.expected, seed, 1, expected_);
  for (const Gradient gradient : call.gradients()) {
    if (!wanted[gradient.place()]) continue;
    const Tensor &o = observed_.tensors[gradient.place()], &e = expected_.tensors[gradient.place()];
    for (int64_t flat = 0; flat < o.elements(); ++flat) {
      const double a = o.at(flat), b = e.at(flat);
      if (a != b) compare_element(call, gradient, flat, a, b, slice, result);
    }
  }
}

void Simulator::compare_some(const Call& call, Gradient gradient, const std::vector<int64_t>& elements, int64_t slice,
                             Run& result) {
  const Version observed(call, plan_.observed), expected(call, plan_.expected);
  for (const int64_t flat : elements) {
    compare_element(call, gradient, flat, observed->value_in(plan_.observed, gradient, flat),
                    expected->value_in(plan_.expected, gradient, flat), slice, result);
  }
}

void Simulator::run_anchored(int64_t number, Run& result) {
  const Arithmetic truth{"float64", MSDA_MODE_FLOAT64};
  Errors observed{}, expected{};
  for (int64_t slice = 0; slice < plan_.slices.count; ++slice) {
    const Call& call = draw_slice(number, slice);
    const uint64_t seed = seed_of(plan_.seed, number, slice, -1);
    compute(call, plan_.observed, seed, 1, observed_);
    compute(call, plan_.expected, seed, 1, expected_);
    compute(call, truth, seed, 1, exact_);
    add_errors(call, plan_.mask, observed_, exact_, observed);
    add_errors(call, plan_.mask, expected_, exact_, expected);
  }
  for (const Gradient gradient : plan_.slices.outline->gradients()) {
    const size_t at = gradient.place();
    result.failing[at] = !(observed[at] <= *plan_.criterion.factor * expected[at]);
    result.fails = result.fails || result.failing[at];
    result.missed += result.failing[at];
  }
}

void Simulator::compare_slice(int64_t run, int64_t slice, const Tolerance& look, Run& result) {
  const Call& call = draw_slice(run, slice);
  if (!screen_) {
    compare_all(call, {true, true, true}, run, slice, result);
    return;
  }
  screen_->find(call, look, suspects_);
  if (std::ranges::find(suspects_.all, true) != suspects_.all.end()) {
    compare_all(call, suspects_.all, run, slice, result);
  }
  for (const Gradient gradient : call.gradients()) {
    if (suspects_.all[gradient.place()]) continue;
    compare_some(call, gradient, suspects_.elements[gradient.place()], slice, result);
  }
}

Run Simulator::run(int64_t number) {
  Run result;
  if (plan_.criterion.factor) {
    run_anchored(number, result);
    return result;
  }
  const Tolerance look{std::min(plan_.criterion.tolerance.atol, plan_.look.atol),
                       std::min(plan_.criterion.tolerance.rtol, plan_.look.rtol)};
  result.needed_atol = look.atol;
  result.needed_rtol = look.rtol;
  for (int64_t slice = 0; slice < plan_.slices.count; ++slice) {
    const double by_others = std::exchange(result.needed_atol, look.atol);
    compare_slice(number, slice, look, result);
    if (result.needed_atol > look.atol) result.slices_needed_atol.push_back(result.needed_atol);
    result.needed_atol = std::max(result.needed_atol, by_others);
  }
  return result;
}

}  // namespace msda::analysis::stress
