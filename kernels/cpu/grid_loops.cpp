// The CPU's inner loops of grid_sample. Compiled once per instruction set, under the rules of loops.cpp.
#include "kernels/atomic_sum.h"
#include "kernels/cpu/grid_table.h"
#include "kernels/cpu/run_tree.h"
#include "kernels/grid_point.h"

namespace msda::kernels::cpu {
inline namespace MSDA_ISA {
namespace {

template <int kAxes, class Real, class In>
GridPlace<kAxes, Real> place_of(const GridProblem<In>& p, const In* location) {
  Real at[kAxes];
  for (int i = 0; i < kAxes; ++i) at[i] = Real(location[i]);
  return GridPlace<kAxes, Real>(p, at, p.sides);
}

template <int kAxes, int kTaps, class In, class Real>
void sample_grad_grid(const GridProblem<In>& p, const In* image, const GridPlace<kAxes, Real>& place,
                      const In* grad_output, Real* gradient) {
  static constexpr In kZeros[kLanes] = {};
  const In* rows[taps_of_sample(kAxes, kTaps)];
  for_each_tap<kAxes, kTaps>([&](int number, const int(&tap)[3]) {
    const int64_t pixel = image_pixel(place.taps, p.sides, tap);
    rows[number] = pixel < 0 ? nullptr : image + pixel * p.C;
  });
  Real lanes[kAxes][kLanes];
  for (auto& axis : lanes) {
    for (Real& lane : axis) lane = Real(0);
  }
  for (int64_t first = 0; first < p.C; first += kLanes) {
    const int count = static_cast<int>(p.C - first < kLanes ? p.C - first : kLanes);
    const In* at[taps_of_sample(kAxes, kTaps)];
    for (int i = 0; i < taps_of_sample(kAxes, kTaps); ++i) at[i] = rows[i] ? rows[i] + first : kZeros;
    for (int axis = 0; axis < kAxes; ++axis) {
      for (int j = 0; j < count; ++j) {
        const Real slope = slope_along<kAxes, kTaps>(place.taps, axis, [&](const int(&tap)[3]) {
          return Real(at[(tap[2] * kTaps + tap[1]) * kTaps + tap[0]][j]);
        });
        lanes[axis][j] = fma(Real(grad_output[first + j]), slope, lanes[axis][j]);
      }
    }
  }
  for (int axis = 0; axis < kAxes; ++axis) gradient[axis] = sum_lanes(lanes[axis]) * place.scale[axis];
}

template <int kAxes, int kTaps, class In, class Real>
void grad_grid_of(const GridProblem<In>& p, int64_t n, int64_t begin, int64_t end, Real* grad_grid) {
  const In* image = p.input + n * p.pixels * p.C;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t sample = n * p.samples + i;
    Real* gradient = grad_grid + sample * kAxes;
    for (int axis = 0; axis < kAxes; ++axis) gradient[axis] = Real(0);
    if constexpr (kTaps > 1) {  // interpolation by the nearest pixel has no slope
      const auto place = place_of<kAxes, Real>(p, p.grid + sample * kAxes);
      if (place.sampled) {
        sample_grad_grid<kAxes, kTaps>(p, image, place, p.grad_output + sample * p.C, gradient);
      }
    }
  }
}

template <int kAxes, int kTaps, class In, class Real>
int addends_of(const GridProblem<In>& p, int64_t n, int64_t sample, int64_t* pixels, Real* weights) {
  const auto place = place_of<kAxes, Real>(p, p.grid + (n * p.samples + sample) * kAxes);
  if (!place.sampled) return 0;
  int count = 0;
  for_each_tap<kAxes, kTaps>([&](int, const int(&tap)[3]) {
    const int64_t pixel = image_pixel(place.taps, p.sides, tap);
    if (pixel < 0) return;
    pixels[count] = pixel;
    weights[count++] = image_weight(place.taps, tap);
  });
  return count;
}

// Calls run(axes, taps) with both as types whose `value` is constant.
template <int kValue>
struct Constant {
  static constexpr int value = kValue;
};
template <class In, class Run>
auto with_shape(const GridProblem<In>& p, Run&& run) {
  if (p.axes == 2) {
    if (p.interpolation == MSDA_BILINEAR) return run(Constant<2>{}, Constant<2>{});
    if (p.interpolation == MSDA_NEAREST) return run(Constant<2>{}, Constant<1>{});
    return run(Constant<2>{}, Constant<4>{});
  }
  if (p.interpolation == MSDA_BILINEAR) return run(Constant<3>{}, Constant<2>{});
  return run(Constant<3>{}, Constant<1>{});
}

template <class In, class Real>
void grad_grid(const GridProblem<In>& p, int64_t n, int64_t begin, int64_t end, Real* result) {
  with_shape(
      p, [&]<class Axes, class Taps>(Axes, Taps) { grad_grid_of<Axes::value, Taps::value>(p, n, begin, end, result); });
}

template <class In, class Real>
int addends(const GridProblem<In>& p, int64_t n, int64_t sample, int64_t* pixels, Real* weights) {
  return with_shape(p, [&]<class Axes, class Taps>(Axes, Taps) {
    return addends_of<Axes::value, Taps::value>(p, n, sample, pixels, weights);
  });
}

template <class In, class Real>
void sum(const GridProblem<In>& p, int64_t n, const GridAddend<Real>* all, int64_t count, bool in_turn, Real* memory,
         Real* grad_input) {
  const In* grad_output = p.grad_output + n * p.samples * p.C;
  const auto add = [&](const GridAddend<Real>& addend, bool starts, Real* __restrict to) {
    const In* __restrict row = grad_output + addend.sample * p.C;
    const Real weight = addend.weight;
    if (starts) {
      for (int64_t c = 0; c < p.C; ++c) to[c] = weight * Real(row[c]);
    } else {
      for (int64_t c = 0; c < p.C; ++c) to[c] = to[c] + weight * Real(row[c]);
    }
  };
  if (in_turn || count == 0) {
    for (int64_t c = 0; c < p.C; ++c) grad_input[c] = Real(0);
    for (int64_t i = 0; i < count; ++i) {
      const In* __restrict row = grad_output + all[i].sample * p.C;
      for (int64_t c = 0; c < p.C; ++c) grad_input[c] = atomic_sum(grad_input[c], all[i].weight * Real(row[c]));
    }
    return;
  }
  RunTree<Real> tree(memory, p.C);
  tree.begin(count);
  for (int64_t i = 0; i < count; ++i) {
    add(all[i], tree.starts_run(), tree.run());
    tree.added();
  }
  const Real* total = tree.sum();
  for (int64_t c = 0; c < p.C; ++c) grad_input[c] = Real(0) + total[c];
}

template <class In, class Real>
constexpr GridLoops<In, Real> loops() {
  return {&grad_grid<In, Real>, &addends<In, Real>, &sum<In, Real>};
}

}  // namespace

extern const GridTable kGridTable;
const GridTable kGridTable = {loops<float, float>(), loops<float, double>(), loops<double, double>()};

}  // namespace MSDA_ISA
}  // namespace msda::kernels::cpu
