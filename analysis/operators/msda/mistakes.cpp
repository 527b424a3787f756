// The mistakes that are tried on elements of deformable attention's gradients.
#include <fmt/format.h>

#include <utility>

#include "analysis/operators/msda/call.h"
#include "analysis/operators/sampling/reads.h"

namespace msda::analysis {
namespace {

constexpr const char* kCornerNames[] = {"(y0,x0)", "(y0,x1)", "(y1,x0)", "(y1,x1)"};

// Mistakes in the gradients of one sample.
std::vector<Mistake> sample_mistakes(const MsdaCall& call, const ElementId& id, const Place& place,
                                     const Element& exact, const Precisions& precisions, Cache& cache) {
  const int64_t sample = call.sample_of(id.gradient, id.flat);
  const int axis = call.axis_of(id.gradient, id.flat);
  const LevelSize& level = call.level_of(sample);
  SampledImage pyramid = call.image_of(call.family_of_sample(sample));
  Reads right = reads(call, pyramid, place, axis);
  pyramid.first -= pyramid.step * level.start;
  for (Read& read : right) {
    if (read.pixel >= 0) read.pixel += level.start;
  }
  const double attention = call.factor_of(sample);
  std::vector<Mistake> mistakes;
  const auto add = [&](const std::string& text, const Reads& wrong) {
    mistakes.push_back({text, call.value_of_reads(id, place, pyramid, wrong)});
  };
  if (axis >= 0) {
    const double slope = place[static_cast<size_t>(axis)].slope;
    if (attention != 0) mistakes.push_back({"the attention weight were not multiplied in", exact.value / attention});
    if (slope != 0) mistakes.push_back({"the level's size were not multiplied in", exact.value / slope});
    const ElementId across{id.gradient, id.flat + (axis == 0 ? 1 : -1), {}};
    mistakes.push_back(
        {"it were the gradient along the other axis", call.element(across, place, precisions, nullptr, cache).value});
  } else {
    mistakes.push_back({"the attention weight were multiplied in", exact.value * attention});
  }
  for (size_t a = 0; a < right.size(); ++a) {
    for (size_t b = a + 1; b < right.size(); ++b) {
      Reads swapped = right;
      std::swap(swapped[a].pixel, swapped[b].pixel);
      add(fmt::format("the corners {} and {} were swapped", kCornerNames[a], kCornerNames[b]), swapped);
    }
  }
  // Reads pixels of the pyramid that lie `step` after the right ones.
  const auto add_moved = [&](const std::string& text, int64_t step) {
    Reads moved = right;
    bool inside = true;
    for (Read& read : moved) {
      if (read.pixel < 0) continue;
      read.pixel += step;  // one before the pyramid reads 0
      inside = inside && read.pixel >= -1 && read.pixel < call.S;
    }
    if (inside) add(text, moved);
  };
  for (size_t l = 0; l < call.levels.size(); ++l) {
    if (&call.levels[l] == &level) continue;
    add_moved(fmt::format("it read at the offset of level {}", l), call.levels[l].start - level.start);
  }
  for (const int64_t step : {-1, 1}) add_moved(fmt::format("it read one pixel {}", step < 0 ? "early" : "late"), step);
  return mistakes;
}

}  // namespace

std::string MsdaCall::text_of_contribution(int64_t sample, size_t tap) const {
  return fmt::format("{} {}", text_of_sample(sample), kCornerNames[tap]);
}

std::vector<Mistake> MsdaCall::mistakes(const ElementId& id, const Place& place, const Element& exact,
                                        const Precision& precision, Cache& cache) const {
  const Precisions precisions{precision, precision};
  if (!id.gradient.scattered()) return sample_mistakes(*this, id, place, exact, precisions, cache);
  std::vector<Mistake> mistakes = pixel_mistakes(id, exact, precision, cache, "attention weights");
  const Index at = kernels::index_of(image.shape, id.flat);
  const int64_t own = level_at(at[1]), pixel = at[1] - levels[static_cast<size_t>(own)].start;
  for (int64_t l = 0; l < L; ++l) {
    const LevelSize& size = levels[static_cast<size_t>(l)];
    if (l == own || pixel >= int64_t{size.height} * size.width) continue;
    const int64_t elsewhere = ((at[0] * S + size.start + pixel) * M + at[2]) * D + at[3];
    mistakes.push_back({fmt::format("it were the gradient of the same pixel of level {}", l),
                        element({id.gradient, elsewhere, {}}, {}, precisions, nullptr, cache).value});
  }
  return mistakes;
}

}  // namespace msda::analysis
