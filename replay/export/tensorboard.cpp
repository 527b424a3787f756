#include "replay/export/tensorboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "replay/report/result_text.h"

namespace msda::replay {
namespace {

using analysis::Gradient;
using analysis::Side;

// Returns the histogram of the numbers that are finite, with buckets of equal width, as TensorBoard draws them.
Histogram histogram_of(const std::vector<double>& numbers) {
  constexpr int kBuckets = 30;
  Histogram found;
  found.lowest = std::numeric_limits<double>::infinity();
  found.highest = -found.lowest;
  for (const double x : numbers) {
    found.lowest = std::min(found.lowest, x);
    found.highest = std::max(found.highest, x);
    found.sum += x;
    found.sum_of_squares += x * x;
  }
  found.count = static_cast<double>(numbers.size());
  if (numbers.empty()) found.lowest = found.highest = 0;
  const double width = (found.highest - found.lowest) / kBuckets;
  for (int i = 1; i < kBuckets; ++i) found.limits.push_back(found.lowest + width * i);
  // Nothing lies beyond the last bucket, also where all numbers are one.
  found.limits.push_back(std::nextafter(found.highest, std::numeric_limits<double>::infinity()));
  found.counts.assign(kBuckets, 0);
  for (const double x : numbers) {
    const auto bucket = std::ranges::upper_bound(found.limits, x) - found.limits.begin();
    ++found.counts[std::min<size_t>(static_cast<size_t>(bucket), kBuckets - 1)];
  }
  return found;
}

// Returns how many of the tolerance an element is off; infinite where a side is not finite and they differ.
double off_in_tolerances(double observed, double expected, const analysis::Tolerance& tolerance) {
  if (observed == expected) return 0;
  const double off = std::abs(observed - expected), allowed = tolerance.atol + tolerance.rtol * std::abs(expected);
  if (!std::isfinite(off)) return std::numeric_limits<double>::infinity();
  return allowed > 0 ? off / allowed : off > 0 ? std::numeric_limits<double>::infinity() : 0;
}

// Adds maps of the errors in a gradient of an image's pixels: a pixel is white if one of its elements is at its
// tolerance or beyond it, and darker the nearer all of them are.
void add_error_maps(EventFile& events, const analysis::Call& call, Gradient gradient, const analysis::Tensor& observed,
                    const analysis::Tensor& expected, const analysis::Tolerance& tolerance, int64_t step,
                    const std::string& tag) {
  const auto dimensions = call.dimensions();
  const auto pixel_dimension = std::ranges::find_if(
      dimensions, [](const auto& dimension) { return std::string_view(dimension.name()) == "pixel"; });
  if (!gradient.scattered() || pixel_dimension == dimensions.end()) return;
  std::vector<double> worst;  // by pixel, those of all images in a row
  for (int64_t i = 0; i < observed.elements(); ++i) {
    const auto pixel = static_cast<size_t>(call.coordinates_of(gradient, i)[pixel_dimension->place()]);
    if (pixel >= worst.size()) worst.resize(pixel + 1);
    worst[pixel] = std::max(worst[pixel], off_in_tolerances(observed.at(i), expected.at(i), tolerance));
  }
  size_t first = 0;
  for (const analysis::Image& level : call.images()) {
    GreyImage image;
    image.width = static_cast<uint32_t>(level.sides.back());
    int64_t rows = 1;  // of a 3D image, one slice below the other
    for (size_t i = 0; i + 1 < level.sides.size(); ++i) rows *= level.sides[i];
    image.height = static_cast<uint32_t>(rows);
    const size_t count = size_t{image.width} * image.height;
    for (size_t i = first; i < first + count; ++i) {
      const double off = i < worst.size() ? std::min(worst[i], 1.0) : 0;
      image.pixels.push_back(static_cast<uint8_t>(std::lround(255 * off)));
    }
    first += count;
    events.add_image(step, fmt::format("{}/{}", tag, level.name), image);
  }
}

void add_errors(EventFile& events, const InvocationResult& result, const LoadedCall& loaded, const Side& expected) {
  for (const Gradient gradient : loaded.call().gradients()) {
    const analysis::Tensor &observed = loaded.recorded().of(gradient), &right = expected.of(gradient);
    if (!observed || !right) continue;
    std::vector<double> errors;
    for (int64_t i = 0; i < observed.elements(); ++i) {
      const double error = observed.at(i) - right.at(i);
      if (std::isfinite(error)) errors.push_back(error);
    }
    const std::string what = fmt::format("{}/recorded against {}", gradient.name(), expected.name);
    events.add_histogram(result.invocation.id, what + "/error", histogram_of(errors));
    const auto tolerance = result.tolerance.value_or(analysis::customary_tolerance(observed.dtype));
    add_error_maps(events, loaded.call(), gradient, observed, right, tolerance, result.invocation.id,
                   what + "/error in tolerances");
  }
}

void add_comparisons(EventFile& events, const InvocationResult& result) {
  const int64_t step = result.invocation.id;
  for (const analysis::NamedComparison& named : result.report.comparisons) {
    const std::string tag = fmt::format("{}/{} against {}/", named.gradient.name(), named.observed, named.expected);
    events.add_scalar(step, tag + "elements out of tolerance", static_cast<double>(named.comparison.mismatched));
    events.add_scalar(step, tag + "largest absolute difference", named.comparison.max_abs);
    events.add_scalar(step, tag + "largest relative difference", named.comparison.max_rel);
    events.add_scalar(step, tag + "largest difference in ULP", static_cast<double>(named.comparison.max_ulp));
  }
}

}  // namespace

void add_to_events(EventFile& events, const InvocationResult& result, const LoadedCall& loaded,
                   const Replays& replays) {
  const int64_t step = result.invocation.id;
  add_comparisons(events, result);
  if (loaded.reference() != nullptr) add_errors(events, result, loaded, *loaded.reference());
  add_errors(events, result, loaded, replays.float64());
  for (const auto& [cause, count] : result.report.verdict.causes) {
    events.add_scalar(step, fmt::format("causes/{}", name_of(cause)), static_cast<double>(count));
  }
  std::string text = result.report.verdict.summary + "\n";
  for (const analysis::Group& group : result.report.groups) {
    const analysis::Finding& finding = result.report.findings[group.farthest];
    text += fmt::format("\n- {} of {}, at fault {}: {} and {} more: {}", name_of(group.cause), group.gradient.name(),
                        name_of(group.at_fault), element_name(finding), group.elements - 1, finding.why);
  }
  events.add_text(step, "verdict", text);
}

}  // namespace msda::replay
