// The C ABI of grid_sample on the CPU.
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "kernels/checked/grid_call.h"
#include "kernels/cpu/grid_trace.h"
#include "kernels/cpu/random.h"
#include "kernels/guarded.h"
#include "kernels/names.h"
#include "kernels/parallel.h"

namespace msda::kernels {
namespace {

// The inputs as contiguous `In`, channels last, in the structure that the loops take.
template <class In>
class GridInputs {
 public:
  GridInputs(const CheckedGridCall& checked, const msda_grid_sample_call& call, const msda_tensor& grad_output)
      : input_(channels_last(call.input)), grid_(call.grid), grad_output_(channels_last(grad_output)) {
    static_cast<cpu::GridConventions&>(problem_) = checked;
    problem_.N = checked.N;
    problem_.C = checked.C;
    problem_.pixels = checked.pixels;
    problem_.samples = checked.samples;
    problem_.axes = checked.axes;
    std::copy_n(checked.sides, 3, problem_.sides);
    problem_.input = input_.data();
    problem_.grid = grid_.data();
    problem_.grad_output = grad_output_.data();
  }
  const cpu::GridProblem<In>& problem() const { return problem_; }

 private:
  ContiguousInput<In> input_, grid_, grad_output_;
  cpu::GridProblem<In> problem_{};
};

// The addends of one batch's grad_input, grouped by pixel.
template <class Real>
struct GroupedAddends {
  std::vector<int64_t> begin;  // where each pixel's addends begin, and the end
  std::vector<cpu::GridAddend<Real>> addends;
};

// Groups addends in the order of the samples, or in an order drawn from the seed.
template <class In, class Real>
GroupedAddends<Real> group_addends(const cpu::GridProblem<In>& p, int64_t n, const msda_options& options) {
  std::vector<int64_t> order;
  if (options.mode == MSDA_MODE_ATOMIC) {
    order.resize(static_cast<size_t>(p.samples));
    std::iota(order.begin(), order.end(), int64_t{0});
    cpu::SplitMix64 random(cpu::SplitMix64(options.seed).next() + static_cast<uint64_t>(n));
    cpu::shuffle(order.data(), p.samples, random);
  }
  const auto& loops = cpu::grid_table().loops<In, Real>();
  int64_t pixels[cpu::kMostTapsOfSample];
  Real weights[cpu::kMostTapsOfSample];
  GroupedAddends<Real> grouped;
  grouped.begin.resize(static_cast<size_t>(p.pixels) + 1);
  for (int64_t sample = 0; sample < p.samples; ++sample) {
    const int count = loops.addends(p, n, sample, pixels, weights);
    for (int i = 0; i < count; ++i) ++grouped.begin[static_cast<size_t>(pixels[i]) + 1];
  }
  std::partial_sum(grouped.begin.begin(), grouped.begin.end(), grouped.begin.begin());
  grouped.addends.resize(static_cast<size_t>(grouped.begin.back()));
  std::vector<int64_t> next(grouped.begin.begin(), grouped.begin.end() - 1);
  for (int64_t i = 0; i < p.samples; ++i) {
    const int64_t sample = order.empty() ? i : order[static_cast<size_t>(i)];
    const int count = loops.addends(p, n, sample, pixels, weights);
    for (int tap = 0; tap < count; ++tap) {
      grouped.addends[static_cast<size_t>(next[static_cast<size_t>(pixels[tap])]++)] = {sample, weights[tap]};
    }
  }
  return grouped;
}

template <class In, class Real>
void grad_input_of_batch(const cpu::GridProblem<In>& p, int64_t n, const msda_options& options, int threads,
                         Real* grad_input) {
  const GroupedAddends<Real> grouped = group_addends<In, Real>(p, n, options);
  const auto& loops = cpu::grid_table().loops<In, Real>();
  constexpr int64_t kPixelsOfATask = 256;
  const int64_t tasks = (p.pixels + kPixelsOfATask - 1) / kPixelsOfATask;
  parallel_for(tasks, thread_count(threads, tasks), [&](int64_t task, int) {
    std::vector<Real> memory;
    for (int64_t pixel = task * kPixelsOfATask; pixel < std::min(p.pixels, (task + 1) * kPixelsOfATask); ++pixel) {
      const int64_t first = grouped.begin[static_cast<size_t>(pixel)];
      const int64_t count = grouped.begin[static_cast<size_t>(pixel) + 1] - first;
      const auto wanted = static_cast<size_t>((cpu::tree_depth(count) + 1) * p.C);
      if (memory.size() < wanted) memory.resize(wanted);
      loops.sum(p, n, grouped.addends.data() + first, count, options.mode == MSDA_MODE_ATOMIC, memory.data(),
                grad_input + (n * p.pixels + pixel) * p.C);
    }
  });
}

template <class In, class Real>
void grid_backward(const CheckedGridCall& checked, const msda_grid_sample_call& call, const msda_tensor& grad_output,
                   const msda_options& options, const msda_tensor* grad_input, const msda_tensor* grad_grid) {
  const GridInputs<In> inputs(checked, call, grad_output);
  const cpu::GridProblem<In>& p = inputs.problem();
  if (grad_grid != nullptr) {
    ContiguousOutput<Real> result(*grad_grid);
    constexpr int64_t kSamplesOfATask = 64;
    const int64_t blocks = (p.samples + kSamplesOfATask - 1) / kSamplesOfATask, tasks = p.N * blocks;
    parallel_for(tasks, thread_count(options.threads, tasks), [&](int64_t task, int) {
      const int64_t begin = task % blocks * kSamplesOfATask;
      cpu::grid_table().loops<In, Real>().grad_grid(p, task / blocks, begin,
                                                    std::min(begin + kSamplesOfATask, p.samples), result.data());
    });
    result.store();
  }
  if (grad_input == nullptr) return;
  ContiguousOutput<Real> result(channels_last(*grad_input));
  const int threads = thread_count(options.threads, std::max(p.N, p.pixels));
  const bool by_batch = p.N >= threads;  // else the threads share the pixels of a batch
  parallel_for(p.N, by_batch ? threads : 1, [&](int64_t n, int) {
    grad_input_of_batch<In, Real>(p, n, options, by_batch ? 1 : threads, result.data());
  });
  result.store();
}

template <class In>
void mixed_grid_backward(const CheckedGridCall& checked, const msda_grid_sample_call& call,
                         const msda_tensor& grad_output, const msda_options& options, const msda_tensor* grad_input,
                         const msda_tensor* grad_grid) {
  const GridInputs<In> inputs(checked, call, grad_output);
  std::optional<ContiguousOutput<double>> input, grid;
  if (grad_input != nullptr) input.emplace(channels_last(*grad_input));
  if (grad_grid != nullptr) grid.emplace(*grad_grid);
  trace_grid(inputs.problem(), checked.float64_inputs ? kAllGridStages : options.float64_stages, options.threads,
             input ? input->data() : nullptr, grid ? grid->data() : nullptr);
  if (input) input->store();
  if (grid) grid->store();
}

}  // namespace
}  // namespace msda::kernels

using namespace msda::kernels;

msda_status msda_grid_sample_backward(const msda_grid_sample_call* call, const msda_tensor* grad_output,
                                      const msda_options* options, const msda_tensor* grad_input,
                                      const msda_tensor* grad_grid) {
  return guarded([&] {
    if (call == nullptr) throw InvalidArgument("call is a null pointer");
    if (grad_output == nullptr) throw InvalidArgument("grad_output is a null pointer");
    const msda_options chosen = checked_options(options, MSDA_GRID_STAGE_COUNT);
    const CheckedGridCall checked = check_grid_call(*call, *grad_output);
    if (grad_input != nullptr) check_result("grad_input", *grad_input, shape_of(call->input));
    if (grad_grid != nullptr) check_result("grad_grid", *grad_grid, shape_of(call->grid));
    const auto run = [&](auto function) { function(checked, *call, *grad_output, chosen, grad_input, grad_grid); };
    if (chosen.mode == MSDA_MODE_MIXED) {
      return checked.float64_inputs ? run(mixed_grid_backward<double>) : run(mixed_grid_backward<float>);
    }
    if (checked.float64_inputs) return run(grid_backward<double, double>);
    if (chosen.mode == MSDA_MODE_FLOAT64) return run(grid_backward<float, double>);
    run(grid_backward<float, float>);
  });
}

const char* msda_interpolation_name(msda_interpolation interpolation) { return name_of(interpolation); }

const char* msda_grid_padding_name(msda_grid_padding padding) { return name_of(padding); }

const char* msda_grid_stage_name(msda_grid_stage_id stage) { return name_of(stage); }
