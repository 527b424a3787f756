#include "kernels/trace.h"

#include <algorithm>
#include <vector>

#include "kernels/sample.h"

namespace msda::kernels {
namespace {

bool wide(uint32_t float64_stages, msda_stage_id stage) { return (float64_stages >> stage) & 1u; }

// Runs compute(Real{}) in the arithmetic of a stage.
template <class Compute>
auto in_precision(bool float64, Compute&& compute) {
  return float64 ? compute(double{}) : compute(float{});
}

// A stage's inputs may be wider than its arithmetic; rounding them is the first thing such a stage does.
template <class Real>
Real as(double x) {
  return static_cast<Real>(x);
}

struct AxisTrace {
  double pixel, slope, fraction;
  int32_t low;
  bool sampled;
};

template <class In>
AxisTrace trace_axis(const cpu::Problem<In>& p, uint32_t float64_stages, In location, int32_t size) {
  const auto located = in_precision(wide(float64_stages, MSDA_STAGE_PIXEL_COORDINATES), [&]<class Real>(Real) {
    const auto axis = locate(p.dialect, p.padding, p.align_corners, Real(location), size);
    return AxisTrace{double(axis.pixel), double(axis.slope), double(axis.fraction), axis.low, axis.sampled};
  });
  return located;
}

template <class Real>
double lane_sum(const std::vector<Real>& lanes) {
  return double(sum_lanes(lanes.data()));
}

// Sums runs of kRun rows of `columns` numbers each until one row is left (sample.h): trace_scatter's tree.
template <class Real>
std::vector<double> tree_sum(std::vector<std::vector<double>> rows) {
  while (rows.size() > 1) {
    std::vector<std::vector<double>> next;
    for (size_t first = 0; first < rows.size(); first += kRun) {
      std::vector<double> sum = rows[first];
      for (size_t i = first + 1; i < std::min(first + kRun, rows.size()); ++i) {
        for (size_t d = 0; d < sum.size(); ++d) sum[d] = double(as<Real>(sum[d]) + as<Real>(rows[i][d]));
      }
      next.push_back(std::move(sum));
    }
    rows = std::move(next);
  }
  for (double& x : rows[0]) x = double(as<Real>(x));
  return rows[0];
}

}  // namespace

template <class In>
void trace_sample(const cpu::Problem<In>& p, uint32_t float64_stages, int64_t b, int64_t q, int64_t m, int64_t l,
                  int64_t point, SampleTrace& trace) {
  const cpu::Level& level = p.levels[l];
  const int64_t head = (b * p.Q + q) * p.M + m, sample = (head * p.L + l) * p.P + point;
  const auto x = trace_axis(p, float64_stages, p.sampling_locations[2 * sample], level.width);
  const auto y = trace_axis(p, float64_stages, p.sampling_locations[2 * sample + 1], level.height);
  trace.sampled = x.sampled && y.sampled;
  trace.pixel[0] = x.pixel;
  trace.pixel[1] = y.pixel;
  trace.cell[0] = x.low;
  trace.cell[1] = y.low;
  for (int corner = 0; corner < 4; ++corner) {
    const int32_t row = corner_pixel(p.dialect, p.padding, y.low, corner / 2, level.height);
    const int32_t column = corner_pixel(p.dialect, p.padding, x.low, corner % 2, level.width);
    trace.pixels[corner] = row < 0 || column < 0 ? -1 : int64_t{row} * level.width + column;
  }
  trace.grad_attention_weight = trace.grad_sampling_location[0] = trace.grad_sampling_location[1] = 0;
  std::fill_n(trace.weights, 4, 0.0);
  std::fill_n(trace.sampled_value, p.D, 0.0);
  std::fill_n(trace.corner_values, 4 * p.D, 0.0);
  std::fill_n(trace.value_contributions, 4 * p.D, 0.0);
  if (!trace.sampled) return;

  const In* grad_output = p.grad_output + head * p.D;
  const double attention = p.attention_weights[sample];
  in_precision(wide(float64_stages, MSDA_STAGE_INTERPOLATION_WEIGHTS), [&]<class Real>(Real) {
    const auto weights = corner_weights(as<Real>(y.fraction), as<Real>(x.fraction));
    for (int i = 0; i < 4; ++i) trace.weights[i] = double(weights.w[i]);
  });
  for (int corner = 0; corner < 4; ++corner) {
    if (trace.pixels[corner] < 0) continue;
    const In* row = p.value + ((b * p.S + level.start + trace.pixels[corner]) * p.M + m) * p.D;
    std::copy_n(row, p.D, trace.corner_values + corner * p.D);
  }
  const double *v00 = trace.corner_values, *v01 = v00 + p.D, *v10 = v01 + p.D, *v11 = v10 + p.D;
  in_precision(wide(float64_stages, MSDA_STAGE_SAMPLED_VALUE), [&]<class Real>(Real) {
    CornerWeights<Real> weights;
    for (int i = 0; i < 4; ++i) weights.w[i] = as<Real>(trace.weights[i]);
    for (int64_t d = 0; d < p.D; ++d) {
      trace.sampled_value[d] =
          double(interpolate(weights, as<Real>(v00[d]), as<Real>(v01[d]), as<Real>(v10[d]), as<Real>(v11[d])));
    }
  });
  in_precision(wide(float64_stages, MSDA_STAGE_GRAD_ATTENTION_WEIGHTS), [&]<class Real>(Real) {
    std::vector<Real> lanes(kLanes, Real(0));
    for (int64_t d = 0; d < p.D; ++d) {
      Real& lane = lanes[d % kLanes];
      lane = fma(as<Real>(grad_output[d]), as<Real>(trace.sampled_value[d]), lane);
    }
    trace.grad_attention_weight = lane_sum(lanes);
  });
  in_precision(wide(float64_stages, MSDA_STAGE_GRAD_SAMPLING_LOCATIONS), [&]<class Real>(Real) {
    std::vector<Real> lanes_x(kLanes, Real(0)), lanes_y(kLanes, Real(0));
    for (int64_t d = 0; d < p.D; ++d) {
      const Real go = as<Real>(grad_output[d]);
      const Real a = as<Real>(v00[d]), c = as<Real>(v01[d]), e = as<Real>(v10[d]), g = as<Real>(v11[d]);
      lanes_x[d % kLanes] = fma(go, slope_across(a, c, e, g, as<Real>(y.fraction)), lanes_x[d % kLanes]);
      lanes_y[d % kLanes] = fma(go, slope_across(a, e, c, g, as<Real>(x.fraction)), lanes_y[d % kLanes]);
    }
    trace.grad_sampling_location[0] =
        double(location_gradient(as<Real>(lane_sum(lanes_x)), as<Real>(attention), as<Real>(x.slope)));
    trace.grad_sampling_location[1] =
        double(location_gradient(as<Real>(lane_sum(lanes_y)), as<Real>(attention), as<Real>(y.slope)));
  });
  in_precision(wide(float64_stages, MSDA_STAGE_VALUE_CONTRIBUTIONS), [&]<class Real>(Real) {
    for (int64_t d = 0; d < p.D; ++d) {
      const Real weighted = as<Real>(grad_output[d]) * as<Real>(attention);
      for (int corner = 0; corner < 4; ++corner) {
        if (trace.pixels[corner] < 0) continue;
        trace.value_contributions[corner * p.D + d] =
            double(value_contribution(as<Real>(trace.weights[corner]), weighted));
      }
    }
  });
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
      if (!trace.sampled || *std::max_element(trace.pixels, trace.pixels + 4) < 0) continue;
      Addend& addend = addends.emplace_back();
      addend.cell = static_cast<int64_t>(trace.cell[1] + 1) * (int64_t{level.width} + 1) +
                    static_cast<int64_t>(trace.cell[0] + 1);
      std::copy_n(trace.pixels, 4, addend.pixels);
      addend.contributions = contributions;
    }
  }
  std::stable_sort(addends.begin(), addends.end(), [](const Addend& x, const Addend& y) { return x.cell < y.cell; });
  const int64_t stride = p.M * p.D;
  double* level_grad = grad_value + ((b * p.S + level.start) * p.M + m) * p.D;
  for (int64_t i = 0; i < int64_t{level.height} * level.width; ++i) std::fill_n(level_grad + i * stride, p.D, 0.0);
  in_precision(wide(float64_stages, MSDA_STAGE_GRAD_VALUE), [&]<class Real>(Real) {
    for (size_t first = 0, last; first < addends.size(); first = last) {
      for (last = first + 1; last < addends.size() && addends[last].cell == addends[first].cell;) ++last;
      std::vector<std::vector<double>> rows;
      for (size_t i = first; i < last; ++i) rows.push_back(addends[i].contributions);
      const auto sums = tree_sum<Real>(std::move(rows));
      for (int corner = 0; corner < 4; ++corner) {
        if (addends[first].pixels[corner] < 0) continue;
        double* target = level_grad + addends[first].pixels[corner] * stride;
        for (int64_t d = 0; d < p.D; ++d) target[d] = double(as<Real>(target[d]) + as<Real>(sums[corner * p.D + d]));
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
