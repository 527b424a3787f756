#include "replay/export/tensorboard.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "replay/export/error_images.h"
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

// Adds to one step, with tags that begin alike.
class Step {
 public:
  Step(EventFile& events, const Curve& curve) : events_(events), curve_(curve) {}

  void scalar(const std::string& tag, double value) { events_.add_scalar(curve_.step, curve_.prefix + tag, value); }
  void histogram(const std::string& tag, const std::vector<double>& numbers) {
    events_.add_histogram(curve_.step, curve_.prefix + tag, histogram_of(numbers));
  }
  void image(const std::string& tag, const ColourImage& image) {
    events_.add_image(curve_.step, curve_.prefix + tag, image);
  }
  void text(const std::string& tag, const std::string& text) {
    events_.add_text(curve_.step, curve_.prefix + tag, text);
  }

 private:
  EventFile& events_;
  const Curve& curve_;
};

// Extremes and norm are those of the finite numbers.
void add_tensor(Step& step, const std::string& name, const analysis::Tensor& tensor) {
  if (!tensor) return;
  std::vector<double> finite;
  int64_t nan = 0, infinite = 0;
  double squares = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const double x = tensor.at(i);
    nan += std::isnan(x);
    infinite += std::isinf(x);
    if (!std::isfinite(x)) continue;
    finite.push_back(x);
    squares += x * x;
  }
  const std::string tag = "tensors/" + name;
  step.scalar(tag + "/NaN", static_cast<double>(nan));
  step.scalar(tag + "/infinite", static_cast<double>(infinite));
  if (finite.empty()) return;
  const auto [lowest, highest] = std::ranges::minmax(finite);
  step.scalar(tag + "/lowest", lowest);
  step.scalar(tag + "/highest", highest);
  step.scalar(tag + "/norm", std::sqrt(squares));
  step.histogram(tag, finite);
}

void add_stage_errors(Step& step, const Json& stages) {
  for (const Json& stage : stages) {
    const std::string tag = "stages/" + text_at(stage, "stage");
    const Json& apart = stage["max_abs"];
    if (apart.is_number()) step.scalar(tag + "/largest difference from float64", apart.get<double>());
    step.scalar(tag + "/differing NaN and infinities", stage["differing_finiteness"].get<double>());
  }
}

// Adds the largest error of each level, if the call has levels.
void add_levels(Step& step, const std::string& what, const analysis::Call& call, Gradient gradient,
                const analysis::Tensor& observed, const analysis::Tensor& expected) {
  const auto dimensions = call.dimensions();
  const auto level = std::ranges::find_if(
      dimensions, [](const auto& dimension) { return std::string_view(dimension.name()) == "level"; });
  if (level == dimensions.end()) return;
  std::map<int64_t, double> largest;
  for (int64_t i = 0; i < observed.elements(); ++i) {
    const double error = std::abs(observed.at(i) - expected.at(i));
    double& most = largest[call.coordinates_of(gradient, i)[level->place()]];
    if (std::isfinite(error)) most = std::max(most, error);
  }
  for (const auto& [at, error] : largest) step.scalar(fmt::format("{}/largest error/level {}", what, at), error);
}

void add_errors(Step& step, const InvocationResult& result, const LoadedCall& loaded, const Side& expected) {
  for (const Gradient gradient : loaded.call().gradients()) {
    const analysis::Tensor &observed = loaded.recorded().of(gradient), &right = expected.of(gradient);
    if (!observed || !right) continue;
    std::vector<double> errors;
    for (int64_t i = 0; i < observed.elements(); ++i) {
      const double error = observed.at(i) - right.at(i);
      if (std::isfinite(error)) errors.push_back(error);
    }
    const std::string what = fmt::format("{}/recorded against {}", gradient.name(), expected.name);
    step.histogram(what + "/error", errors);
    const auto tolerance = result.tolerance.value_or(analysis::customary_tolerance(observed.dtype));
    for (const ErrorImage& drawn : error_images(loaded.call(), gradient, observed, right, tolerance))
      step.image(fmt::format("{}/error in tolerances/{}", what, drawn.name), drawn.image);
    add_levels(step, what, loaded.call(), gradient, observed, right);
  }
}

void add_comparisons(Step& step, const InvocationResult& result) {
  for (const analysis::NamedComparison& named : result.report.comparisons) {
    const std::string tag = fmt::format("{}/{} against {}/", named.gradient.name(), named.observed, named.expected);
    step.scalar(tag + "elements out of tolerance", static_cast<double>(named.comparison.mismatched));
    step.scalar(tag + "largest absolute difference", named.comparison.max_abs);
    step.scalar(tag + "largest relative difference", named.comparison.max_rel);
    step.scalar(tag + "largest difference in ULP", static_cast<double>(named.comparison.max_ulp));
  }
}

}  // namespace

void add_to_events(EventFile& events, const Curve& curve, const InvocationResult& result, const LoadedCall& loaded,
                   const Replays& replays, const Json& stages) {
  Step step(events, curve);
  for (const auto& input : loaded.call().inputs()) add_tensor(step, input.name, input.tensor);
  for (const Gradient gradient : loaded.call().gradients())
    add_tensor(step, gradient.name(), loaded.recorded().of(gradient));
  add_comparisons(step, result);
  if (loaded.reference() != nullptr) add_errors(step, result, loaded, *loaded.reference());
  add_errors(step, result, loaded, replays.float64());
  add_stage_errors(step, stages);
  for (const auto& [cause, count] : result.report.verdict.causes) {
    step.scalar(fmt::format("causes/{}", name_of(cause)), static_cast<double>(count));
  }
  std::string text = result.report.verdict.summary + "\n";
  for (const analysis::Group& group : result.report.groups) {
    const analysis::Finding& finding = result.report.findings[group.farthest];
    text += fmt::format("\n- {} of {}, at fault {}: {} and {} more: {}", name_of(group.cause), group.gradient.name(),
                        name_of(group.at_fault), element_name(finding), group.elements - 1, finding.why);
  }
  step.text("verdict", text);
}

}  // namespace msda::replay
