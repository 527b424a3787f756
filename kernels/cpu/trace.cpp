#include "kernels/cpu/trace.h"

#include <algorithm>
#include <vector>

#include "kernels/tree_sum.h"

namespace msda::kernels {
namespace {

// Returns the sums over the lanes, added by the tree (sample.h, kLanes).
TracedSums sum_of(uint32_t float64_stages, TracedSums (&lanes)[kLanes]) {
  for (int count = kLanes; count > 1; count /= 2) {
    for (int i = 0; i < count / 2; ++i) lanes[i] = add_traced(float64_stages, lanes[2 * i], lanes[2 * i + 1]);
  }
  return lanes[0];
}

}  // namespace

template <class In>
void trace_sample(const cpu::Problem<In>& p, uint32_t float64_stages, int64_t b, int64_t q, int64_t m, int64_t l,
                  int64_t point, SampleTrace& trace) {
  const cpu::Level& level = p.levels[l];
  const int64_t head = (b * p.Q + q) * p.M + m, sample = (head * p.L + l) * p.P + point;
  TracedSpot& spot = trace;
  spot = trace_spot(p, float64_stages, p.sampling_locations[2 * sample], p.sampling_locations[2 * sample + 1], level);
  trace.grad_attention_weight = trace.grad_sampling_location[0] = trace.grad_sampling_location[1] = 0;
  std::fill_n(trace.sampled_value, p.D, 0.0);
  std::fill_n(trace.corner_values, 4 * p.D, 0.0);
  std::fill_n(trace.value_contributions, 4 * p.D, 0.0);
  if (!spot.sampled) return;

  const In* grad_output = p.grad_output + head * p.D;
  const double attention = p.attention_weights[sample];
  for (int corner = 0; corner < 4; ++corner) {
    if (spot.pixels[corner] < 0) continue;
    const In* row = p.value + ((b * p.S + level.start + spot.pixels[corner]) * p.M + m) * p.D;
    std::copy_n(row, p.D, trace.corner_values + corner * p.D);
    for (int64_t d = 0; d < p.D; ++d) {
      trace.value_contributions[corner * p.D + d] =
          trace_contribution(float64_stages, spot.weights[corner], grad_output[d], attention);
    }
  }
  TracedSums lanes[kLanes] = {};
  for (int64_t d = 0; d < p.D; ++d) {
    double v[4];
    for (int corner = 0; corner < 4; ++corner) v[corner] = trace.corner_values[corner * p.D + d];
    trace.sampled_value[d] = trace_sampled_value(spot, float64_stages, v);
    trace_channel(spot, float64_stages, grad_output[d], v, trace.sampled_value[d], lanes[d % kLanes]);
  }
  const TracedSums sums = sum_of(float64_stages, lanes);
  trace.grad_attention_weight = sums.attention;
  trace_location_gradient(spot, float64_stages, attention, sums, trace.grad_sampling_location);
}

template <class In>
void trace_scatter(const cpu::Problem<In>& p, uint32_t float64_stages, int64_t b, int64_t m, int64_t l,
                   double* grad_value) {
  const cpu::Level& level = p.levels[l];
  std::vector<double> corner_values(4 * p.D), sampled_value(p.D), contributions(4 * p.D);
  SampleTrace trace{};
  trace.corner_values = corner_values.data();
  trace.sampled_value = sampled_value.data();
  trace.value_contributions = contributions.data();

  struct Addend {
    int64_t cell;
    int64_t pixels[4];
    std::vector<double> contributions;
  };
  std::vector<Addend> addends;
  for (int64_t q = 0; q < p.Q; ++q) {
    for (int64_t point = 0; point < p.P; ++point) {
      trace_sample(p, float64_stages, b, q, m, l, point, trace);
      const int64_t cell = traced_cell(trace, level);
      if (cell < 0) continue;
      Addend& addend = addends.emplace_back();
      addend.cell = cell;
      std::copy_n(trace.pixels, 4, addend.pixels);
      addend.contributions = contributions;
    }
  }
  std::stable_sort(addends.begin(), addends.end(), [](const Addend& x, const Addend& y) { return x.cell < y.cell; });
  const int64_t stride = p.M * p.D;
  double* level_grad = grad_value + ((b * p.S + level.start) * p.M + m) * p.D;
  for (int64_t i = 0; i < int64_t{level.height} * level.width; ++i) std::fill_n(level_grad + i * stride, p.D, 0.0);
  in_precision(float64_stages, MSDA_STAGE_GRAD_VALUE, [&]<class Real>(Real) {
    std::vector<TreeSum<Real>> sums;
    for (size_t first = 0, last; first < addends.size(); first = last) {
      sums.assign(static_cast<size_t>(4 * p.D), {});
      for (last = first; last < addends.size() && addends[last].cell == addends[first].cell; ++last) {
        for (size_t i = 0; i < sums.size(); ++i) sums[i].add(as<Real>(addends[last].contributions[i]));
      }
      for (int corner = 0; corner < 4; ++corner) {
        if (addends[first].pixels[corner] < 0) continue;
        double* target = level_grad + addends[first].pixels[corner] * stride;
        for (int64_t d = 0; d < p.D; ++d) target[d] = double(as<Real>(target[d]) + sums[corner * p.D + d].sum());
      }
    }
  });
}

template void trace_sample(const cpu::Problem<float>&, uint32_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                           SampleTrace&);
template void trace_sample(const cpu::Problem<double>&, uint32_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                           SampleTrace&);
template void trace_scatter(const cpu::Problem<float>&, uint32_t, int64_t, int64_t, int64_t, double*);
template void trace_scatter(const cpu::Problem<double>&, uint32_t, int64_t, int64_t, int64_t, double*);

}  // namespace msda::kernels
