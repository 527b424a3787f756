// The mistakes that are tried on elements of deformable attention's gradients.
#include <fmt/format.h>

#include <utility>

#include "analysis/operators/msda/element.h"

namespace msda::analysis {
namespace {

constexpr const char* kCornerNames[] = {"(y0,x0)", "(y0,x1)", "(y1,x0)", "(y1,x1)"};

// Mistakes in the gradients of one sample.
std::vector<Mistake> sample_mistakes(const MsdaCall& call, const ElementId& id, const Place& place,
                                     const Element& exact, const Precision& precision) {
  const SampleId sample = call.sample_of(id.gradient, id.flat);
  const int axis = call.axis_of(id.gradient, id.flat);
  const Landing &x = place[0], &y = place[1];
  const LevelSize& level = call.level_of(sample);
  const CornerRows rows = corner_rows(call.conventions, level, x.low, y.low);
  const auto with_rows = [&](const CornerRows& read_rows) {
    return sample_element(call, sample, id.gradient, axis, x, y, read_rows, precision).value;
  };
  const double attention = sample.attention(call);
  std::vector<Mistake> mistakes;
  if (id.gradient == MsdaGradient::kSamplingLocations) {
    const double slope = axis == 0 ? x.slope : y.slope;
    if (attention != 0) mistakes.push_back({"the attention weight were not multiplied in", exact.value / attention});
    if (slope != 0) mistakes.push_back({"the level's size were not multiplied in", exact.value / slope});
    const auto other_axis = sample_element(call, sample, id.gradient, 1 - axis, x, y, precision);
    mistakes.push_back({"it were the gradient along the other axis", other_axis.value});
  } else {
    mistakes.push_back({"the attention weight were multiplied in", exact.value * attention});
  }
  for (size_t a = 0; a < 4; ++a) {
    for (size_t b = a + 1; b < 4; ++b) {
      CornerRows swapped = rows;
      std::swap(swapped[a], swapped[b]);
      mistakes.push_back(
          {fmt::format("the corners {} and {} were swapped", kCornerNames[a], kCornerNames[b]), with_rows(swapped)});
    }
  }
  for (size_t l = 0; l < call.levels.size(); ++l) {
    if (static_cast<int64_t>(l) == sample.l) continue;
    CornerRows moved = rows;
    bool inside = true;
    for (int64_t& row : moved) {
      if (row >= 0) row += call.levels[l].start - level.start;
      inside = inside && row < call.S;
    }
    if (inside) mistakes.push_back({fmt::format("it read at the offset of level {}", l), with_rows(moved)});
  }
  for (const int64_t step : {-1, 1}) {
    CornerRows moved = rows;
    bool inside = true;
    for (int64_t& row : moved) {
      if (row >= 0) row += step;
      inside = inside && row >= -1 && row < call.S;
    }
    if (inside)
      mistakes.push_back({fmt::format("it read one pixel {}", step < 0 ? "early" : "late"), with_rows(moved)});
  }
  return mistakes;
}

// Mistakes in the scatter sum.
std::vector<Mistake> pixel_mistakes(const MsdaCall& call, const PixelId& pixel, const Element& exact,
                                    const Precision& precision, ContributionCache& cache) {
  const auto contributions = cache.get(call.conventions, pixel.b, pixel.m, pixel.l, precision);
  std::vector<Mistake> mistakes;
  double without_attention = 0, without_weights = 0;
  for (const auto& addend : contributions->exact(pixel.s)) {
    const SampleId sample{pixel.b, addend.q, pixel.m, pixel.l, addend.p()};
    const double go = call.grad_output.at(sample.grad_output_row(call) + pixel.d), attention = sample.attention(call);
    const double contribution = addend.weight * go * attention;
    const auto text = [&](const char* what) {
      return fmt::format("the contribution of query {}, point {}, corner {} were {}", addend.q, addend.p(),
                         kCornerNames[addend.corner()], what);
    };
    mistakes.push_back({text("missing"), exact.value - contribution});
    mistakes.push_back({text("added twice"), exact.value + contribution});
    without_attention += addend.weight * go;
    without_weights += go * attention;
  }
  mistakes.push_back({"the attention weights were not multiplied in", without_attention});
  mistakes.push_back({"the interpolation weights were not multiplied in", without_weights});
  mistakes.push_back({"everything were added twice", 2 * exact.value});
  const int64_t within = pixel.s - call.levels[static_cast<size_t>(pixel.l)].start;
  for (size_t l = 0; l < call.levels.size(); ++l) {
    const auto& size = call.levels[l];
    if (static_cast<int64_t>(l) == pixel.l || within >= int64_t{size.height} * size.width) continue;
    PixelId elsewhere = pixel;
    elsewhere.l = static_cast<int64_t>(l);
    elsewhere.s = size.start + within;
    const auto there = cache.get(call.conventions, pixel.b, pixel.m, elsewhere.l, precision);
    mistakes.push_back({fmt::format("it were the gradient of the same pixel of level {}", l),
                        pixel_element(call, elsewhere, there->exact(elsewhere.s), precision).value});
  }
  return mistakes;
}

}  // namespace

std::vector<Mistake> MsdaCall::mistakes(const ElementId& id, const Place& place, const Element& exact,
                                        const Precision& precision, Cache& cache) const {
  if (!id.gradient.scattered()) return sample_mistakes(*this, id, place, exact, precision);
  return pixel_mistakes(*this, pixel_of(id.flat), exact, precision, static_cast<ContributionCache&>(cache));
}

}  // namespace msda::analysis
