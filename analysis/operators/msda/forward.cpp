// Deformable attention's forward pass in float64, one sample at a time.
#include <array>
#include <cmath>

#include "analysis/operators/msda/element.h"
#include "kernels/sample.h"

namespace msda::analysis {
namespace {

// What a sample reads: rows of value, -1 for zero, and their weights.
struct ForwardReading {
  CornerRows rows{-1, -1, -1, -1};
  std::array<double, 4> weights{};
};

ForwardReading read_at(const MsdaCall& call, int64_t l, double x, double y) {
  const LevelSize& level = call.levels[static_cast<size_t>(l)];
  const auto along_x = kernels::locate(call.conventions.dialect, call.conventions.padding,
                                       call.conventions.align_corners, x, level.width);
  const auto along_y = kernels::locate(call.conventions.dialect, call.conventions.padding,
                                       call.conventions.align_corners, y, level.height);
  ForwardReading reading;
  if (!along_x.sampled || !along_y.sampled) return reading;
  reading.rows = corner_rows(call.conventions, level, along_x.low, along_y.low);
  const double fx = along_x.fraction, fy = along_y.fraction;
  reading.weights = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
  return reading;
}

void add(Loss& loss, long double addend) {
  loss.value += addend;
  loss.magnitude += std::abs(addend);
}

}  // namespace

std::optional<size_t> MsdaCall::moved_axis(const ElementId& id) const {
  if (id.gradient != MsdaGradient::kSamplingLocations) return std::nullopt;
  return static_cast<size_t>(axis_of(id.gradient, id.flat));
}

Loss MsdaCall::loss_at(const ElementId& id, double number) const {
  Loss loss;
  if (id.gradient.scattered()) {
    const PixelId pixel = pixel_of(id.flat);
    for (int64_t q = 0; q < Q; ++q) {
      for (int64_t p = 0; p < P; ++p) {
        const SampleId sample{pixel.b, q, pixel.m, pixel.l, p};
        const ForwardReading reading = read_at(*this, pixel.l, sample.location(*this, 0), sample.location(*this, 1));
        const long double factor = static_cast<long double>(sample.attention(*this)) *
                                   grad_output.at(sample.grad_output_row(*this) + pixel.d) * number;
        for (size_t corner = 0; corner < 4; ++corner) {
          if (reading.rows[corner] == pixel.s) add(loss, factor * reading.weights[corner]);
        }
      }
    }
    return loss;
  }
  const SampleId sample = sample_of(id.gradient, id.flat);
  std::array<double, 2> at{sample.location(*this, 0), sample.location(*this, 1)};
  const auto moved = moved_axis(id);
  if (moved) at[*moved] = number;
  const double attention = moved ? sample.attention(*this) : number;
  const ForwardReading reading = read_at(*this, sample.l, at[0], at[1]);
  for (int64_t d = 0; d < D; ++d) {
    const long double factor = static_cast<long double>(attention) * grad_output.at(sample.grad_output_row(*this) + d);
    for (size_t corner = 0; corner < 4; ++corner) {
      if (reading.rows[corner] < 0) continue;
      add(loss, factor * reading.weights[corner] *
                    value.at(value_element(*this, sample.b, reading.rows[corner], sample.m, d)));
    }
  }
  return loss;
}

}  // namespace msda::analysis
