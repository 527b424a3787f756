// The C ABI: checks a call, gives the work to the loops, and turns exceptions into error codes.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "kernels/checked/call.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/trace.h"
#include "kernels/guarded.h"
#include "kernels/msda.h"
#include "kernels/names.h"
#include "kernels/parallel.h"

namespace msda::kernels {
namespace {

// The inputs as contiguous `In`, in the structure that the loops take.
template <class In>
class Inputs {
 public:
  Inputs(const CheckedCall& checked, const msda_call& call, const msda_tensor* grad_output)
      : value_(call.value), locations_(call.sampling_locations), weights_(call.attention_weights) {
    if (grad_output != nullptr) grad_output_.emplace(*grad_output);
    problem_ = {checked.B,
                checked.S,
                checked.M,
                checked.D,
                checked.L,
                checked.Q,
                checked.P,
                checked.dialect,
                checked.padding,
                checked.align_corners,
                checked.levels.data(),
                value_.data(),
                locations_.data(),
                weights_.data(),
                grad_output_ ? grad_output_->data() : nullptr};
  }
  const cpu::Problem<In>& problem() const { return problem_; }

 private:
  ContiguousInput<In> value_, locations_, weights_;
  std::optional<ContiguousInput<In>> grad_output_;
  cpu::Problem<In> problem_{};
};

// Queries of one batch in a task: few enough to keep all threads busy, enough to make starting a task worthwhile.
constexpr int64_t kQueriesPerTask = 16;

template <class In, class Real>
void forward(const CheckedCall& checked, const msda_call& call, const msda_options& options,
             const msda_tensor& output) {
  const Inputs<In> inputs(checked, call, nullptr);
  ContiguousOutput<Real> result(output);
  const int64_t blocks = (checked.Q + kQueriesPerTask - 1) / kQueriesPerTask, tasks = checked.B * blocks;
  parallel_for(tasks, thread_count(options.threads, tasks), [&](int64_t task, int) {
    const int64_t begin = task % blocks * kQueriesPerTask;
    cpu::table().loops<In, Real>().forward(inputs.problem(), task / blocks, begin,
                                           std::min(begin + kQueriesPerTask, checked.Q), result.data());
  });
  result.store();
}

// Scratch memory of one thread, grown to the largest level it meets.
template <class Real>
class Scratch {
 public:
  cpu::ScatterScratch<Real> fit(const CheckedCall& checked, const cpu::Level& level) {
    const int64_t samples = checked.Q * checked.P;
    grow(samples_, samples_size_, samples);
    grow(sorted_, sorted_size_, samples);
    grow(cells_, cells_size_, cpu::cells_of(level) + 1);
    grow(sums_, sums_size_, cpu::sum_size(samples, checked.D));
    return {samples_.get(), sorted_.get(), cells_.get(), sums_.get()};
  }

 private:
  template <class T>
  static void grow(std::unique_ptr<T[]>& memory, int64_t& size, int64_t wanted) {
    if (wanted <= size) return;
    memory.reset();
    memory.reset(new T[static_cast<size_t>(wanted)]);  // not make_unique: which would initialize it
    size = wanted;
  }
  std::unique_ptr<cpu::Sample<Real>[]> samples_, sorted_;
  std::unique_ptr<int64_t[]> cells_;
  std::unique_ptr<Real[]> sums_;
  int64_t samples_size_ = 0, sorted_size_ = 0, cells_size_ = 0, sums_size_ = 0;
};

template <class In, class Real>
void backward(const CheckedCall& checked, const msda_call& call, const msda_tensor& grad_output,
              const msda_options& options, const msda_tensor* grad_value, const msda_tensor* grad_locations,
              const msda_tensor* grad_weights) {
  const Inputs<In> inputs(checked, call, &grad_output);
  const auto& loops = cpu::table().loops<In, Real>();
  std::optional<ContiguousOutput<Real>> value, locations, weights;
  if (grad_value != nullptr) value.emplace(*grad_value);
  if (grad_locations != nullptr) locations.emplace(*grad_locations);
  if (grad_weights != nullptr) weights.emplace(*grad_weights);

  // The sums of grad_value, a level of a head each, come first, the largest level of every head before all: they take
  // longest, and the short tasks of the queries then leave no thread idle.
  const int64_t heads = checked.B * checked.M, levels = value ? heads * checked.L : 0;
  const int64_t blocks = locations || weights ? (checked.Q + kQueriesPerTask - 1) / kQueriesPerTask : 0;
  const int64_t tasks = levels + checked.B * blocks;
  const int threads = thread_count(options.threads, tasks);
  std::vector<Scratch<Real>> scratch(static_cast<size_t>(threads));
  parallel_for(tasks, threads, [&](int64_t task, int worker) {
    if (task < levels) {
      const int64_t l = task / heads, head = task % heads;
      loops.scatter_level(inputs.problem(), head / checked.M, head % checked.M, l, options.mode == MSDA_MODE_ATOMIC,
                          options.seed, scratch[static_cast<size_t>(worker)].fit(checked, checked.levels[l]),
                          value->data());
    } else {
      const int64_t block = task - levels, begin = block % blocks * kQueriesPerTask;
      loops.backward(inputs.problem(), block / blocks, begin, std::min(begin + kQueriesPerTask, checked.Q),
                     locations ? locations->data() : nullptr, weights ? weights->data() : nullptr);
    }
  });
  for (auto* result : {&value, &locations, &weights}) {
    if (*result) (*result)->copy_back();
  }
}

// A trace with the memory it points to.
class TraceBuffer {
 public:
  explicit TraceBuffer(int64_t channels)
      : corner_values_(4 * channels), sampled_value_(channels), contributions_(4 * channels) {
    trace.corner_values = corner_values_.data();
    trace.sampled_value = sampled_value_.data();
    trace.value_contributions = contributions_.data();
  }
  SampleTrace trace{};

 private:
  std::vector<double> corner_values_, sampled_value_, contributions_;
};

// Calls visit(sample number, trace) for every sample, samples of one query in order on one thread.
template <class In, class Visit>
void for_each_trace(const cpu::Problem<In>& p, const msda_options& options, uint32_t float64_stages, Visit&& visit) {
  const int64_t tasks = p.B * p.Q;
  parallel_for(tasks, thread_count(options.threads, tasks), [&](int64_t task, int) {
    TraceBuffer buffer(p.D);
    for (int64_t i = 0; i < p.M * p.L * p.P; ++i) {
      trace_sample(p, float64_stages, task / p.Q, task % p.Q, i / (p.L * p.P), i / p.P % p.L, i % p.P, buffer.trace);
      visit(task * p.M * p.L * p.P + i, buffer.trace);
    }
  });
}

template <class In>
void traced_grad_value(const cpu::Problem<In>& p, const msda_options& options, uint32_t float64_stages,
                       const msda_tensor& grad_value) {
  ContiguousOutput<double> result(grad_value);
  const int64_t tasks = p.L * p.B * p.M;
  parallel_for(tasks, thread_count(options.threads, tasks), [&](int64_t task, int) {
    const int64_t head = task % (p.B * p.M);
    trace_scatter(p, float64_stages, head / p.M, head % p.M, task / (p.B * p.M), result.data());
  });
  result.store();
}

template <class In>
void mixed_backward(const CheckedCall& checked, const msda_call& call, const msda_tensor& grad_output,
                    const msda_options& options, uint32_t float64_stages, const msda_tensor* grad_value,
                    const msda_tensor* grad_locations, const msda_tensor* grad_weights) {
  const Inputs<In> inputs(checked, call, &grad_output);
  if (grad_locations != nullptr || grad_weights != nullptr) {
    std::optional<ContiguousOutput<double>> locations, weights;
    if (grad_locations != nullptr) locations.emplace(*grad_locations);
    if (grad_weights != nullptr) weights.emplace(*grad_weights);
    for_each_trace(inputs.problem(), options, float64_stages, [&](int64_t sample, const SampleTrace& trace) {
      if (locations) std::copy_n(trace.grad_sampling_location, 2, locations->data() + 2 * sample);
      if (weights) weights->data()[sample] = trace.grad_attention_weight;
    });
    if (locations) locations->store();
    if (weights) weights->store();
  }
  if (grad_value != nullptr) traced_grad_value(inputs.problem(), options, float64_stages, *grad_value);
}

// A result of msda_stages that has numbers for each sample, and which numbers of a trace those are.
struct StageResult {
  int64_t per_sample;
  const double* (*numbers_in)(const SampleTrace&);
  ContiguousOutput<double> out;
};

StageResult stage_result(const CheckedCall& checked, msda_stage_id stage, const msda_tensor& tensor) {
  const auto from = [&](const double* (*numbers_in)(const SampleTrace&)) {
    const auto shape = checked.stage_shape(stage);
    const size_t rank_of_samples = checked.weights_shape().size();
    return StageResult{elements_of(std::span(shape).subspan(rank_of_samples)), numbers_in,
                       ContiguousOutput<double>(tensor)};
  };
  switch (stage) {
    case MSDA_STAGE_PIXEL_COORDINATES:
      return from([](const SampleTrace& t) { return t.pixel; });
    case MSDA_STAGE_CELL:
      return from([](const SampleTrace& t) { return t.cell; });
    case MSDA_STAGE_INTERPOLATION_WEIGHTS:
      return from([](const SampleTrace& t) { return t.weights; });
    case MSDA_STAGE_CORNER_VALUES:
      return from([](const SampleTrace& t) { return static_cast<const double*>(t.corner_values); });
    case MSDA_STAGE_SAMPLED_VALUE:
      return from([](const SampleTrace& t) { return static_cast<const double*>(t.sampled_value); });
    case MSDA_STAGE_GRAD_ATTENTION_WEIGHTS:
      return from([](const SampleTrace& t) { return &t.grad_attention_weight; });
    case MSDA_STAGE_GRAD_SAMPLING_LOCATIONS:
      return from([](const SampleTrace& t) { return t.grad_sampling_location; });
    default:
      return from([](const SampleTrace& t) { return static_cast<const double*>(t.value_contributions); });
  }
}

template <class In>
void stage_tensors(const CheckedCall& checked, const msda_call& call, const msda_tensor& grad_output,
                   const msda_options& options, const msda_tensor* const results[MSDA_STAGE_COUNT]) {
  const Inputs<In> inputs(checked, call, &grad_output);
  const uint32_t float64_stages = float64_stages_of(checked, options);
  std::vector<StageResult> of_samples;
  for (int i = 0; i < MSDA_STAGE_COUNT; ++i) {
    if (results[i] == nullptr) continue;
    if (i == MSDA_STAGE_GRAD_VALUE) {
      traced_grad_value(inputs.problem(), options, float64_stages, *results[i]);
    } else {
      of_samples.push_back(stage_result(checked, static_cast<msda_stage_id>(i), *results[i]));
    }
  }
  if (of_samples.empty()) return;
  for_each_trace(inputs.problem(), options, float64_stages, [&](int64_t sample, const SampleTrace& trace) {
    for (auto& [per_sample, numbers_in, out] : of_samples) {
      std::copy_n(numbers_in(trace), per_sample, out.data() + sample * per_sample);
    }
  });
  for (auto& result : of_samples) result.out.store();
}

void backward_stages(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
                     const msda_tensor* const results[MSDA_STAGE_COUNT]) {
  if (call == nullptr || grad_output == nullptr) throw InvalidArgument("call or grad_output is a null pointer");
  const CheckedCall checked = check_call(*call, grad_output);
  const msda_options chosen = checked_options(options);
  check_stages(checked, chosen, results);
  if (checked.float64_inputs) return stage_tensors<double>(checked, *call, *grad_output, chosen, results);
  stage_tensors<float>(checked, *call, *grad_output, chosen, results);
}

}  // namespace
}  // namespace msda::kernels

using namespace msda::kernels;  // NOLINT: the functions below are C

msda_tensor msda_contiguous(void* data, msda_dtype dtype, int32_t rank, const int64_t* shape) {
  msda_tensor tensor{};
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.rank = rank;
  int64_t stride = 1;
  for (int i = std::min<int32_t>(rank, MSDA_MAX_RANK) - 1; i >= 0; --i) {
    tensor.shape[i] = shape[i];
    tensor.stride[i] = stride;
    if (__builtin_mul_overflow(stride, std::max<int64_t>(shape[i], 1), &stride)) stride = 0;  // its shape is refused
  }
  return tensor;
}

msda_status msda_forward(const msda_call* call, const msda_options* options, const msda_tensor* output) {
  return guarded([&] {
    if (call == nullptr || output == nullptr) throw InvalidArgument("call or output is a null pointer");
    const CheckedCall checked = check_call(*call, nullptr);
    const msda_options chosen = checked_options(options);
    check_result("output", *output, checked.output_shape());
    if (chosen.mode == MSDA_MODE_MIXED) throw InvalidArgument("the mode mixed exists for the backward pass only");
    if (elements_of(checked.output_shape()) == 0) return;
    if (checked.float64_inputs) return forward<double, double>(checked, *call, chosen, *output);
    if (chosen.mode == MSDA_MODE_FLOAT64) return forward<float, double>(checked, *call, chosen, *output);
    forward<float, float>(checked, *call, chosen, *output);
  });
}

msda_status msda_backward(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
                          const msda_tensor* grad_value, const msda_tensor* grad_sampling_locations,
                          const msda_tensor* grad_attention_weights) {
  return guarded([&] {
    if (call == nullptr || grad_output == nullptr) throw InvalidArgument("call or grad_output is a null pointer");
    const CheckedCall checked = check_call(*call, grad_output);
    const msda_options chosen = checked_options(options);
    if (grad_value != nullptr) check_result("grad_value", *grad_value, checked.value_shape());
    if (grad_sampling_locations != nullptr) {
      check_result("grad_sampling_locations", *grad_sampling_locations, checked.locations_shape());
    }
    if (grad_attention_weights != nullptr) {
      check_result("grad_attention_weights", *grad_attention_weights, checked.weights_shape());
    }
    const auto run = [&](auto backward_of) {
      backward_of(checked, *call, *grad_output, chosen, grad_value, grad_sampling_locations, grad_attention_weights);
    };
    if (chosen.mode == MSDA_MODE_MIXED) {
      const uint32_t stages = float64_stages_of(checked, chosen);
      if (checked.float64_inputs) {
        return mixed_backward<double>(checked, *call, *grad_output, chosen, stages, grad_value, grad_sampling_locations,
                                      grad_attention_weights);
      }
      return mixed_backward<float>(checked, *call, *grad_output, chosen, stages, grad_value, grad_sampling_locations,
                                   grad_attention_weights);
    }
    if (checked.float64_inputs) return run(backward<double, double>);
    if (chosen.mode == MSDA_MODE_FLOAT64) return run(backward<float, double>);
    run(backward<float, float>);
  });
}

msda_status msda_stages(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
                        const msda_tensor* const results[MSDA_STAGE_COUNT]) {
  return guarded([&] {
    if (results == nullptr) throw InvalidArgument("results is a null pointer");
    backward_stages(call, grad_output, options, results);
  });
}

msda_status msda_stage(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
                       msda_stage_id stage, const msda_tensor* result) {
  return guarded([&] {
    if (result == nullptr) throw InvalidArgument("result is a null pointer");
    if (stage < 0 || stage >= MSDA_STAGE_COUNT) {
      throw InvalidArgument(fmt::format("no such stage: {}", static_cast<int>(stage)));
    }
    const msda_tensor* results[MSDA_STAGE_COUNT] = {};
    results[stage] = result;
    backward_stages(call, grad_output, options, results);
  });
}

const char* msda_dialect_name(msda_dialect dialect) { return msda::kernels::name_of(dialect); }

const char* msda_padding_name(msda_padding padding) { return msda::kernels::name_of(padding); }

const char* msda_stage_name(msda_stage_id stage) { return msda::kernels::name_of(stage); }

const char* msda_mode_name(msda_mode mode) { return msda::kernels::name_of(mode); }

const char* msda_dtype_name(msda_dtype dtype) { return msda::kernels::name_of(dtype); }

const char* msda_cpu_isa(void) { return cpu::table().name; }
