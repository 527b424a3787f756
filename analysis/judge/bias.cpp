#include "analysis/judge/bias.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "analysis/causes/finding.h"

namespace msda::analysis {
namespace {

constexpr double kBits = 30;         // a false alarm in 10^9 gradients
constexpr double kShare = 15. / 16;  // of the errors: a few are another rounding's
constexpr double kShareOfInputs = 0.75;
// A factor that is rounded once, such as one over a count, moves all elements by one unit of roundoff at most.
constexpr double kUnits = 1.1;
constexpr double kMostUnits = 1000;  // of itself an error has: more is a jump, or what cancellation leaves
constexpr int64_t kMostErrors = 4096;
constexpr size_t kMostAddends = 4'000'000;  // of all errors together

// The errors of a result and of the control, and the exact value.
struct Error {
  double error, exact, control;
};

// Returns whether at least half of its addends but 0 are different numbers: the roundings of equal ones repeat each
// other.
bool has_own_addends(std::vector<double> values) {
  std::erase(values, 0);
  const size_t all = values.size();
  std::ranges::transform(values, values.begin(), [](double x) { return std::abs(x); });
  std::ranges::sort(values);
  const auto repeated = std::ranges::unique(values);
  return 2 * (all - repeated.size()) > all;
}

int64_t step_of(int64_t elements) { return std::max<int64_t>(1, elements / kMostErrors); }

// Returns what the element shares with others: the samples and weights that it adds up, or the sample that it is of.
int64_t unit_of(const Call& call, const ElementId& id) {
  if (!id.gradient.scattered()) return id.flat / std::max<int64_t>(1, static_cast<int64_t>(call.axes(id).size()));
  const bool weighted = (call.inner_steps(id.gradient) & kInterpolationWeights) != 0;
  return weighted ? call.weights_of(id.gradient, id.flat) : id.flat;
}

// Errors by what they share. Numbers of equal digits come once: they are equal, or off by a power of 2.
std::map<int64_t, std::vector<Error>> errors_of(const Material& material, const Side& side, const Side& control,
                                                Gradient gradient) {
  const Call& call = *material.call;
  const Tensor &values = side.of(gradient), &exact = material.float64.of(gradient);
  const double unit = Precision::of(values.dtype).unit;
  const double least = 2 * Precision::of(values.dtype).smallest_normal();  // below it some builds flush
  const auto cache = call.new_cache();
  std::set<int64_t> digits;
  std::map<int64_t, std::vector<Error>> errors;
  size_t addends = 0;
  const int64_t total = values.elements(), step = step_of(total);
  for (int64_t flat = 0; flat < total && addends < kMostAddends; flat += step) {
    const double value = values.at(flat), right = exact.at(flat);
    if (!(std::abs(right) > least) || !(std::abs(value - right) <= kMostUnits * unit * std::abs(right))) continue;
    int exponent = 0;
    if (!digits.insert(std::llround(0x1p40 * std::frexp(std::abs(right), &exponent))).second) continue;
    const ElementId id = call.element_id(gradient, flat);
    std::vector<double> added = side.version_of(call).addends(id, *cache).values;
    addends += added.size();
    if (!has_own_addends(std::move(added))) continue;
    errors[unit_of(call, id)].push_back({value - right, right, control.of(gradient).at(flat) - right});
  }
  return errors;
}

// Counts the units that have most of their errors above 0, and those that have most below.
struct Votes {
  int64_t above = 0, below = 0;
  void add(double sum) {
    above += sum > 0;
    below += sum < 0;
  }
  int64_t total() const { return above + below; }
  double share(bool up) const {
    return total() > 0 ? static_cast<double>(up ? above : below) / static_cast<double>(total()) : 0;
  }
};

double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

// Returns whether it is worth while to look at what the elements add up.
bool may_lean(const Tensor& values, const Tensor& exact) {
  Votes absolute, relative;
  const int64_t total = values.elements();
  for (int64_t flat = 0; flat < total; flat += step_of(total)) {
    const double error = values.at(flat) - exact.at(flat);
    absolute.add(error);
    relative.add(error * sign_of(exact.at(flat)));
  }
  const auto leans = [](const Votes& votes) {
    return std::max(votes.share(true), votes.share(false)) > kShareOfInputs;
  };
  return leans(absolute) || leans(relative);
}

}  // namespace

const char* name_of(Direction direction) {
  constexpr const char* kNames[] = {"away_from_zero", "towards_zero", "upwards", "downwards"};
  return kNames[static_cast<int>(direction)];
}

std::optional<Bias> find_bias(const Material& material, const Side& side, const Side& control, Gradient gradient) {
  if (is_16_bits(side.arithmetic_of(gradient))) return std::nullopt;
  if (!may_lean(side.of(gradient), material.float64.of(gradient))) return std::nullopt;
  const auto errors = errors_of(material, side, control, gradient);
  const double unit = Precision::of(side.of(gradient).dtype).unit;
  for (const bool relative : {true, false}) {
    Votes votes, of_control;
    double lean = 0, magnitude = 0;
    for (const auto& [key, all] : errors) {
      double sum = 0, sum_of_control = 0;
      for (const auto& [error, exact, controls] : all) {
        const double sign = relative ? sign_of(exact) : 1;
        sum += sign * sign_of(error);
        sum_of_control += sign * sign_of(controls);
        lean += sign * error;
        magnitude += std::abs(exact);
      }
      votes.add(sum);
      of_control.add(sum_of_control);
    }
    const bool up = votes.above > votes.below;
    const int64_t count = std::max(votes.above, votes.below);
    const double mean = (up ? lean : -lean) / magnitude / unit;
    if (votes.total() == 0 || votes.share(up) < kShare || of_control.share(up) >= kShareOfInputs) continue;
    if (!(mean > kUnits)) continue;
    const boost::math::binomial_distribution<> fair(static_cast<double>(votes.total()), 0.5);
    // The factor 4 pays for the two signs and the two kinds that are tried.
    const double bits = -std::log2(4 * cdf(fair, static_cast<double>(votes.total() - count)));
    if (!(bits >= kBits)) continue;
    const Direction direction = relative ? (up ? Direction::kAwayFromZero : Direction::kTowardsZero)
                                         : (up ? Direction::kUpwards : Direction::kDownwards);
    return Bias{gradient, direction, count, votes.total(), bits, mean};
  }
  return std::nullopt;
}

std::string text_of(const Bias& bias) {
  constexpr const char* kWords[] = {"away from 0", "towards 0", "upwards", "downwards"};
  return fmt::format(
      "The errors of {} lean: {} of {} independent ones are {}, by {:.2g} units of roundoff on average, as roundings "
      "of a right kernel are at most once in 10^{:.0f} calls. Look for a factor that is slightly off, or for "
      "truncation.",
      bias.gradient.name(), bias.count == bias.total ? "all" : thousands(bias.count), thousands(bias.total),
      kWords[static_cast<int>(bias.direction)], bias.mean, std::floor(bias.chance_bits * std::log10(2)));
}

}  // namespace msda::analysis
