// The CPU's inner loops. Compiled once per instruction set, with MSDA_ISA naming the copy: nothing here may have a name
// outside that namespace, and no function of the standard library may be used that the compiler does not inline.
//
// Vectorizing over channels changes no bit: lanes of a sum are separate variables, and a fused multiply-add is one
// rounding in whatever register it happens.
#include "kernels/atomic_sum.h"
#include "kernels/cpu/cell_sums.h"
#include "kernels/cpu/random.h"
#include "kernels/cpu/table.h"
#include "kernels/cpu/vectors.h"
#include "kernels/sample.h"

namespace msda::kernels::cpu {
inline namespace MSDA_ISA {
namespace {

template <class In, class Real>
Spot<Real> locate_sample(const Problem<In>& p, const Level& level, const In* location) {
  return locate_at(p, level, Real(location[0]), Real(location[1]));
}

// The channels of one head at the four corners; zero for a corner outside the level.
template <class In>
struct Corners {
  const In* row[4];
  static constexpr In kZeros[kLanes] = {};

  Corners() = default;
  Corners(const Problem<In>& p, const Level& level, const In* level_value, int32_t low_y, int32_t low_x) {
    int64_t pixels[4];
    corner_pixels(p, level, low_y, low_x, pixels);
    for (int i = 0; i < 4; ++i) row[i] = pixels[i] < 0 ? nullptr : level_value + pixels[i] * p.M * p.D;
  }
  // Prefetches the first cache lines of each row.
  void prefetch(int64_t channels) const {
    constexpr int64_t kLine = 64 / sizeof(In), kMost = 4 * kLine;
    const int64_t wanted = channels < kMost ? channels : kMost;
    for (const In* start : row) {
      if (!start) continue;
      for (int64_t i = 0; i < wanted; i += kLine) __builtin_prefetch(start + i);
      __builtin_prefetch(start + wanted - 1);  // a row may begin in the middle of a cache line
    }
  }
  const In* at(int corner, int64_t channel) const { return row[corner] ? row[corner] + channel : kZeros; }
};

template <class In, class Real>
void forward(const Problem<In>& p, int64_t b, int64_t begin, int64_t end, Real* output) {
  for (int64_t q = begin; q < end; ++q) {
    for (int64_t m = 0; m < p.M; ++m) {
      const int64_t head = (b * p.Q + q) * p.M + m;
      Real* out = output + head * p.D;
      for (int64_t d = 0; d < p.D; ++d) out[d] = Real(0);
      for (int64_t l = 0; l < p.L; ++l) {
        const Level& level = p.levels[l];
        const In* level_value = p.value + ((b * p.S + level.start) * p.M + m) * p.D;
        for (int64_t point = 0; point < p.P; ++point) {
          const int64_t sample = (head * p.L + l) * p.P + point;
          const auto spot = locate_sample<In, Real>(p, level, p.sampling_locations + 2 * sample);
          if (!spot.sampled) continue;
          const auto weights = corner_weights(spot.y.fraction, spot.x.fraction);
          const Real attention(p.attention_weights[sample]);
          const Corners<In> corners(p, level, level_value, spot.y.low, spot.x.low);
          for (int64_t first = 0; first < p.D; first += kLanes) {
            const In *v00 = corners.at(0, first), *v01 = corners.at(1, first);
            const In *v10 = corners.at(2, first), *v11 = corners.at(3, first);
            const int count = static_cast<int>(p.D - first < kLanes ? p.D - first : kLanes);
            for (int j = 0; j < count; ++j) {
              const Real sampled = interpolate(weights, Real(v00[j]), Real(v01[j]), Real(v10[j]), Real(v11[j]));
              out[first + j] = fma(attention, sampled, out[first + j]);
            }
          }
        }
      }
    }
  }
}

template <class In, class Real>
inline void add_channels(ChannelSums<kLanes, Real>& sums, int count, const CornerWeights<Real>& weights,
                         Real fraction_y, Real fraction_x, const In* grad_output, const In* v00, const In* v01,
                         const In* v10, const In* v11) {
  for (int j = 0; j < count; ++j) {
    sums.add(j, Real(grad_output[j]), weights, fraction_y, fraction_x, Real(v00[j]), Real(v01[j]), Real(v10[j]),
             Real(v11[j]));
  }
}

// The gradients of one sample.
template <class Real>
struct SampleGradients {
  Real attention, x, y;
};

template <class In, class Real>
SampleGradients<Real> sample_gradients(const Problem<In>& p, const Spot<Real>& spot, const Corners<In>& corners,
                                       const In* grad_output, Real attention) {
  const auto weights = corner_weights(spot.y.fraction, spot.x.fraction);
  ChannelSums<kLanes, Real> sums;
  for (int64_t first = 0; first < p.D; first += kLanes) {
    const In *v00 = corners.at(0, first), *v01 = corners.at(1, first);
    const In *v10 = corners.at(2, first), *v11 = corners.at(3, first);
    // With a constant trip count the compiler keeps the lanes in registers.
    if (p.D - first >= kLanes) {
      add_channels(sums, kLanes, weights, spot.y.fraction, spot.x.fraction, grad_output + first, v00, v01, v10, v11);
    } else {
      add_channels(sums, static_cast<int>(p.D - first), weights, spot.y.fraction, spot.x.fraction, grad_output + first,
                   v00, v01, v10, v11);
    }
  }
  return {sum_lanes(sums.attention), location_gradient(sum_lanes(sums.x), attention, spot.x.slope),
          location_gradient(sum_lanes(sums.y), attention, spot.y.slope)};
}

template <class In, class Real>
void backward(const Problem<In>& p, int64_t b, int64_t begin, int64_t end, Real* grad_sampling_locations,
              Real* grad_attention_weights) {
  // Samples are located a few ahead of their turn, so that the memory that they read is prefetched.
  constexpr int64_t kAhead = 16;
  Spot<Real> spots[kAhead];
  Corners<In> corners[kAhead];
  const int64_t samples = p.L * p.P;
  for (int64_t q = begin; q < end; ++q) {
    for (int64_t m = 0; m < p.M; ++m) {
      const int64_t head = (b * p.Q + q) * p.M + m;
      const In* grad_output = p.grad_output + head * p.D;
      for (int64_t first = 0; first < samples; first += kAhead) {
        const int64_t count = samples - first < kAhead ? samples - first : kAhead;
        for (int64_t i = 0; i < count; ++i) {
          const Level& level = p.levels[(first + i) / p.P];
          const In* level_value = p.value + ((b * p.S + level.start) * p.M + m) * p.D;
          const int64_t sample = head * samples + first + i;
          spots[i] = locate_sample<In, Real>(p, level, p.sampling_locations + 2 * sample);
          if (!spots[i].sampled) continue;
          corners[i] = Corners<In>(p, level, level_value, spots[i].y.low, spots[i].x.low);
          corners[i].prefetch(p.D);
        }
        for (int64_t i = 0; i < count; ++i) {
          const int64_t sample = head * samples + first + i;
          SampleGradients<Real> gradients{};
          if (spots[i].sampled) {
            gradients = sample_gradients(p, spots[i], corners[i], grad_output, Real(p.attention_weights[sample]));
          }
          if (grad_attention_weights) grad_attention_weights[sample] = one_nan<Real>(gradients.attention);
          if (grad_sampling_locations) {
            grad_sampling_locations[2 * sample] = one_nan<Real>(gradients.x);
            grad_sampling_locations[2 * sample + 1] = one_nan<Real>(gradients.y);
          }
        }
      }
    }
  }
}

// Lists the samples that contribute to one level, in the order of (query, point), each with its cell.
template <class In, class Real>
int64_t list_samples(const Problem<In>& p, int64_t b, int64_t m, int64_t l, Sample<Real>* samples) {
  const Level& level = p.levels[l];
  int64_t count = 0;
  for (int64_t q = 0; q < p.Q; ++q) {
    const int64_t first = (((b * p.Q + q) * p.M + m) * p.L + l) * p.P;
    for (int64_t i = first; i < first + p.P; ++i) {
      const auto spot = locate_sample<In, Real>(p, level, p.sampling_locations + 2 * i);
      const int64_t cell = cell_of(spot, level);
      if (cell < 0) continue;
      samples[count++] = {q, Real(p.attention_weights[i]), spot.y.fraction, spot.x.fraction, cell};
    }
  }
  return count;
}

template <class In, class Real>
void scatter_level(const Problem<In>& p, int64_t b, int64_t m, int64_t l, bool atomic, uint64_t seed,
                   const ScatterScratch<Real>& scratch, Real* grad_value) {
  const Level& level = p.levels[l];
  const int64_t pixel_stride = p.M * p.D, query_stride = p.M * p.D;
  Real* level_grad = grad_value + ((b * p.S + level.start) * p.M + m) * p.D;
  const In* grad_output = p.grad_output + (b * p.Q * p.M + m) * p.D;
  for (int64_t pixel = 0; pixel < int64_t{level.height} * level.width; ++pixel) {
    for (int64_t d = 0; d < p.D; ++d) level_grad[pixel * pixel_stride + d] = Real(0);
  }
  const int64_t count = list_samples(p, b, m, l, scratch.samples);
  const int64_t columns = int64_t{level.width} + 1;
  int64_t pixels[4];

  if (atomic) {
    SplitMix64 random(
        SplitMix64(SplitMix64(SplitMix64(seed).next() + static_cast<uint64_t>(b)).next() + static_cast<uint64_t>(m))
            .next() +
        static_cast<uint64_t>(l));
    shuffle(scratch.samples, count, random);
    for (int64_t i = 0; i < count; ++i) {
      const Sample<Real>& sample = scratch.samples[i];
      const auto weights = corner_weights(sample.fraction_y, sample.fraction_x);
      corner_pixels(p, level, static_cast<int32_t>(sample.cell / columns) - 1,
                    static_cast<int32_t>(sample.cell % columns) - 1, pixels);
      const In* row = grad_output + sample.query * query_stride;
      for (int corner = 0; corner < 4; ++corner) {
        if (pixels[corner] < 0) continue;
        Real* target = level_grad + pixels[corner] * pixel_stride;
        for (int64_t d = 0; d < p.D; ++d) {
          const Real addend = value_contribution(weights.w[corner], Real(row[d]) * sample.attention);
          target[d] = one_nan<Real>(atomic_sum(target[d], addend));
        }
      }
    }
    return;
  }

  // A stable counting sort brings the samples of a cell together and keeps their order.
  const int64_t cells = cells_of(level);
  for (int64_t i = 0; i <= cells; ++i) scratch.cell_begin[i] = 0;
  for (int64_t i = 0; i < count; ++i) ++scratch.cell_begin[scratch.samples[i].cell + 1];
  for (int64_t i = 0; i < cells; ++i) scratch.cell_begin[i + 1] += scratch.cell_begin[i];
  for (int64_t i = count - 1; i >= 0; --i) {
    // From the back, decrementing the end of each cell's range: afterwards cell_begin[c + 1] is where cell c begins.
    scratch.sorted[--scratch.cell_begin[scratch.samples[i].cell + 1]] = scratch.samples[i];
  }
  CellSums<In, Real> cell_sums(scratch.sums, p.D, grad_output, query_stride);
  for (int64_t first = 0; first < count;) {
    const int64_t cell = scratch.sorted[first].cell;
    int64_t last = first + 1;
    while (last < count && scratch.sorted[last].cell == cell) ++last;
    corner_pixels(p, level, static_cast<int32_t>(cell / columns) - 1, static_cast<int32_t>(cell % columns) - 1, pixels);
    CornerRows<Real> rows;
    for (int i = 0; i < 4; ++i) rows.row[i] = pixels[i] < 0 ? nullptr : level_grad + pixels[i] * pixel_stride;
    cell_sums.add_to(rows, scratch.sorted + first, last - first);
    first = last;
  }
}

template <class In, class Real>
constexpr Loops<In, Real> loops() {
  return {&forward<In, Real>, &backward<In, Real>, &scatter_level<In, Real>};
}

}  // namespace

#define MSDA_STRING_OF(x) #x
#define MSDA_STRING(x) MSDA_STRING_OF(x)
extern const Table kTable;
const Table kTable = {{loops<float, float>(), loops<float, double>(), loops<double, double>()}, MSDA_STRING(MSDA_ISA)};

}  // namespace MSDA_ISA
}  // namespace msda::kernels::cpu
