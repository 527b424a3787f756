#include "kernels/cpu/grid_trace.h"

#include <vector>

#include "kernels/grid_point.h"
#include "kernels/parallel.h"
#include "kernels/stages.h"
#include "kernels/tree_sum.h"

namespace msda::kernels {
namespace {

// A sample, with numbers that are floats or doubles exactly.
template <int kAxes>
struct TracedPlace {
  GridTaps<double> taps[kAxes];
  double scale[kAxes];
  bool sampled = true;
};

template <class Real>
GridTaps<double> widened(const GridTaps<Real>& taps) {
  GridTaps<double> wide{};
  for (int i = 0; i < kMostTaps; ++i) {
    wide.pixel[i] = taps.pixel[i];
    wide.weight[i] = double(taps.weight[i]);
    wide.slope[i] = double(taps.slope[i]);
  }
  return wide;
}

template <class Real>
GridTaps<Real> narrowed(const GridTaps<double>& taps) {
  GridTaps<Real> narrow{};
  for (int i = 0; i < kMostTaps; ++i) {
    narrow.pixel[i] = taps.pixel[i];
    narrow.weight[i] = as<Real>(taps.weight[i]);
    narrow.slope[i] = as<Real>(taps.slope[i]);
  }
  return narrow;
}

template <int kAxes, class In>
TracedPlace<kAxes> trace_place(const cpu::GridProblem<In>& p, uint32_t float64_stages, const In* at) {
  TracedPlace<kAxes> place{};
  for (int i = 0; i < kAxes; ++i) {
    GridAxis<double> axis{};
    in_precision(float64_stages, MSDA_GRID_STAGE_PIXEL_COORDINATES, [&]<class Real>(Real) {
      const auto found = locate_grid(p, static_cast<Real>(at[i]), p.sides[i]);
      axis = {double(found.fraction), double(found.scale), found.low, found.sampled};
    });
    place.scale[i] = axis.scale;
    place.sampled = place.sampled && axis.sampled;
    if (!axis.sampled) continue;
    in_precision(float64_stages, MSDA_GRID_STAGE_INTERPOLATION_WEIGHTS, [&]<class Real>(Real) {
      place.taps[i] = widened(grid_taps(p, as<Real>(axis.fraction), axis.low, p.sides[i]));
    });
  }
  return place;
}

template <int kAxes>
double trace_weight(uint32_t float64_stages, const TracedPlace<kAxes>& place, const int (&tap)[3]) {
  return in_precision(float64_stages, MSDA_GRID_STAGE_INTERPOLATION_WEIGHTS, [&]<class Real>(Real) {
    GridTaps<Real> taps[kAxes];
    for (int i = 0; i < kAxes; ++i) taps[i] = narrowed<Real>(place.taps[i]);
    return double(image_weight(taps, tap));
  });
}

template <int kAxes, int kTaps, class In>
void trace_grad_grid(const cpu::GridProblem<In>& p, uint32_t float64_stages, int64_t sample, double* gradient) {
  const In* image = p.input + sample / p.samples * p.pixels * p.C;
  const auto place = trace_place<kAxes>(p, float64_stages, p.grid + sample * kAxes);
  for (int axis = 0; axis < kAxes; ++axis) gradient[axis] = 0;
  if (!place.sampled || kTaps == 1) return;
  in_precision(float64_stages, MSDA_GRID_STAGE_GRAD_GRID, [&]<class Real>(Real) {
    GridTaps<Real> taps[kAxes];
    for (int i = 0; i < kAxes; ++i) taps[i] = narrowed<Real>(place.taps[i]);
    for (int axis = 0; axis < kAxes; ++axis) {
      Real lanes[kLanes] = {};
      for (int64_t c = 0; c < p.C; ++c) {
        const Real slope = slope_along<kAxes, kTaps>(taps, axis, [&](const int(&tap)[3]) {
          const int64_t pixel = image_pixel(taps, p.sides, tap);
          return pixel < 0 ? Real(0) : static_cast<Real>(image[pixel * p.C + c]);
        });
        Real& lane = lanes[c % kLanes];
        lane = fma(static_cast<Real>(p.grad_output[sample * p.C + c]), slope, lane);
      }
      gradient[axis] = double(sum_lanes(lanes) * as<Real>(place.scale[axis]));
    }
  });
}

// The addends of one pixel, all channels of an addend in a row.
struct PixelAddends {
  std::vector<int64_t> samples;
  std::vector<double> weights;
};

template <int kAxes, int kTaps, class In>
void trace_grad_input(const cpu::GridProblem<In>& p, uint32_t float64_stages, int64_t n, double* grad_input) {
  std::vector<PixelAddends> pixels(static_cast<size_t>(p.pixels));
  for (int64_t i = 0; i < p.samples; ++i) {
    const auto place = trace_place<kAxes>(p, float64_stages, p.grid + (n * p.samples + i) * kAxes);
    if (!place.sampled) continue;
    for_each_tap<kAxes, kTaps>([&](int, const int(&tap)[3]) {
      const int64_t pixel = image_pixel(place.taps, p.sides, tap);
      if (pixel < 0) return;
      pixels[static_cast<size_t>(pixel)].samples.push_back(i);
      pixels[static_cast<size_t>(pixel)].weights.push_back(trace_weight(float64_stages, place, tap));
    });
  }
  for (size_t pixel = 0; pixel < pixels.size(); ++pixel) {
    const auto& [samples, weights] = pixels[pixel];
    double* row = grad_input + (n * p.pixels + static_cast<int64_t>(pixel)) * p.C;
    in_precision(float64_stages, MSDA_GRID_STAGE_GRAD_INPUT, [&]<class Sum>(Sum) {
      for (int64_t c = 0; c < p.C; ++c) {
        TreeSum<Sum> sum;
        for (size_t i = 0; i < samples.size(); ++i) {
          const double grad_output = p.grad_output[(n * p.samples + samples[i]) * p.C + c];
          sum.add(as<Sum>(in_precision(float64_stages, MSDA_GRID_STAGE_INPUT_CONTRIBUTIONS, [&]<class Real>(Real) {
            return double(as<Real>(weights[i]) * as<Real>(grad_output));
          })));
        }
        row[c] = samples.empty() ? 0 : double(Sum(0) + sum.sum());
      }
    });
  }
}

template <int kAxes, int kTaps, class In>
void trace(const cpu::GridProblem<In>& p, uint32_t float64_stages, int threads, double* grad_input, double* grad_grid) {
  if (grad_grid != nullptr) {
    parallel_for_each(p.N * p.samples, 256, threads,
                      [&](int64_t i) { trace_grad_grid<kAxes, kTaps>(p, float64_stages, i, grad_grid + i * kAxes); });
  }
  if (grad_input == nullptr) return;
  parallel_for(p.N, thread_count(threads, p.N),
               [&](int64_t n, int) { trace_grad_input<kAxes, kTaps>(p, float64_stages, n, grad_input); });
}

}  // namespace

template <class In>
void trace_grid(const cpu::GridProblem<In>& p, uint32_t float64_stages, int threads, double* grad_input,
                double* grad_grid) {
  const auto run = [&](auto function) { function(p, float64_stages, threads, grad_input, grad_grid); };
  if (p.axes == 2) {
    if (p.interpolation == MSDA_BILINEAR) return run(trace<2, 2, In>);
    if (p.interpolation == MSDA_NEAREST) return run(trace<2, 1, In>);
    return run(trace<2, 4, In>);
  }
  if (p.interpolation == MSDA_BILINEAR) return run(trace<3, 2, In>);
  run(trace<3, 1, In>);
}

template void trace_grid(const cpu::GridProblem<float>&, uint32_t, int, double*, double*);
template void trace_grid(const cpu::GridProblem<double>&, uint32_t, int, double*, double*);

}  // namespace msda::kernels
