// implementation_error: no cell within the coordinate's error, with all that rounding allows, gives the value that a
// side returned. Known mistakes are then tried on the element, to say which of them would give that value.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/causes/causes.h"

namespace msda::analysis {
namespace {

// A mistake that would explain the value, in words that follow "as if".
struct Mistake {
  std::string text;
  double value;  // what it would give
};

constexpr const char* kCornerNames[] = {"(y0,x0)", "(y0,x1)", "(y1,x0)", "(y1,x1)"};

// Mistakes in the gradients of one sample.
std::vector<Mistake> sample_mistakes(const Suspect& s, const Side& side, const Match& exact) {
  const Call& call = s.call;
  const auto precision = Precision::of(side.arithmetic_of(s.id.gradient));
  const auto& level = call.levels[static_cast<size_t>(s.id.sample.l)];
  const CornerRows rows = corner_rows(side.conventions, level, exact.x.low, exact.y.low);
  const auto with_rows = [&](const CornerRows& other) {
    return sample_element(call, s.id.sample, s.id.gradient, s.id.axis, exact.x, exact.y, other, precision).value;
  };
  const double attention = s.id.sample.attention(call);
  std::vector<Mistake> mistakes;
  if (s.id.gradient == Gradient::kSamplingLocations) {
    const double slope = s.id.axis == 0 ? exact.x.slope : exact.y.slope;
    if (attention != 0)
      mistakes.push_back({"the attention weight were not multiplied in", exact.element.value / attention});
    if (slope != 0) mistakes.push_back({"the level's size were not multiplied in", exact.element.value / slope});
    const auto other =
        sample_element(call, side.conventions, s.id.sample, s.id.gradient, 1 - s.id.axis, exact.x, exact.y, precision);
    mistakes.push_back({"it were the gradient along the other axis", other.value});
  } else {
    mistakes.push_back({"the attention weight were multiplied in", exact.element.value * attention});
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
    if (static_cast<int64_t>(l) == s.id.sample.l) continue;
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
std::vector<Mistake> pixel_mistakes(const Suspect& s, const Side& side, const Match& exact) {
  const Call& call = s.call;
  const PixelId& pixel = s.id.pixel;
  const auto precision = Precision::of(side.arithmetic_of(s.id.gradient));
  const auto contributions = s.cache.get(side.conventions, pixel.b, pixel.m, pixel.l, precision);
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
    mistakes.push_back({text("missing"), exact.element.value - contribution});
    mistakes.push_back({text("added twice"), exact.element.value + contribution});
    without_attention += addend.weight * go;
    without_weights += go * attention;
  }
  mistakes.push_back({"the attention weights were not multiplied in", without_attention});
  mistakes.push_back({"the interpolation weights were not multiplied in", without_weights});
  mistakes.push_back({"everything were added twice", 2 * exact.element.value});
  const int64_t within = pixel.s - call.levels[static_cast<size_t>(pixel.l)].start;
  for (size_t l = 0; l < call.levels.size(); ++l) {
    const auto& other = call.levels[l];
    if (static_cast<int64_t>(l) == pixel.l || within >= int64_t{other.height} * other.width) continue;
    PixelId elsewhere = pixel;
    elsewhere.l = static_cast<int64_t>(l);
    elsewhere.s = other.start + within;
    const auto there = s.cache.get(side.conventions, pixel.b, pixel.m, elsewhere.l, precision);
    mistakes.push_back({fmt::format("it were the gradient of the same pixel of level {}", l),
                        pixel_element(call, elsewhere, there->exact(elsewhere.s), precision).value});
  }
  return mistakes;
}

std::vector<std::string> matching_mistakes(const Suspect& s, const Side& side, const Explanation& explanation) {
  const Match& exact = explanation.exact();
  auto mistakes = s.id.is_pixel() ? pixel_mistakes(s, side, exact) : sample_mistakes(s, side, exact);
  mistakes.insert(mistakes.begin(),
                  {{"its sign were flipped", -exact.element.value}, {"it had never been computed", 0.0}});
  std::vector<std::string> texts;
  for (const Mistake& mistake : mistakes) {
    const double bound = exact.bound + Precision::of(side.of(s.id.gradient).dtype).unit * std::abs(mistake.value);
    const bool gives_it = std::abs(explanation.value - mistake.value) <= bound;
    const bool is_other = std::abs(mistake.value - exact.element.value) > 2 * bound;
    if (gives_it && is_other && std::ranges::find(texts, mistake.text) == texts.end()) texts.push_back(mistake.text);
  }
  constexpr size_t kMost = 4;
  if (texts.size() > kMost) texts.resize(kMost);
  return texts;
}

Evidence describe(const Explanation& explanation, const Side& side) {
  const Match& exact = explanation.exact();
  Evidence told = Evidence::object();
  told["side"] = side.name;
  told["explained"] = explanation.explained();
  told["error"] = number(explanation.value - exact.element.value);
  told["rounding_bound"] = number(exact.bound);
  return told;
}

}  // namespace

Diagnosis implementation_error(const Suspect& s) {
  // Where rounding explains each side, but not both together, the one is wrong that only another landing explains.
  const auto is_exact = [](const Explanation& of) { return std::ranges::find(of.matches, 0u) != of.matches.end(); };
  const bool observed_wrong = !s.of_observed.explained() ||
                              (s.of_expected.explained() && !(is_exact(s.of_observed) && !is_exact(s.of_expected)));
  const Side& side = observed_wrong ? s.observed : s.expected;
  const Explanation& explanation = observed_wrong ? s.of_observed : s.of_expected;
  Diagnosis diagnosis{Cause::kImplementationError, observed_wrong ? AtFault::kObserved : AtFault::kReference};
  if (!s.tells) return diagnosis;
  const Match& exact = explanation.exact();
  diagnosis.evidence["sides"] = {describe(s.of_observed, s.observed), describe(s.of_expected, s.expected)};
  const auto mistakes = matching_mistakes(s, side, explanation);
  diagnosis.evidence["as_if"] = mistakes;
  diagnosis.why = fmt::format(
      "{} returned {:.9g}, exact arithmetic gives {:.9g}; that is {:.3g} off, where rounding of any kind explains "
      "{:.3g} at most",
      side.name, explanation.value, exact.element.value, std::abs(explanation.value - exact.element.value),
      exact.bound);
  if (!mistakes.empty()) diagnosis.why += fmt::format("; it is as if {}", fmt::join(mistakes, ", or "));
  return diagnosis;
}

}  // namespace msda::analysis
