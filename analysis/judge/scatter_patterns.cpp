#include "analysis/judge/scatter_patterns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>

#include "analysis/judge/lost_samples.h"
#include "analysis/judge/target_sums.h"

namespace msda::analysis {
namespace {

// The wrong values of a group, and what is tried for them.
class WrongSums {
 public:
  WrongSums(const Call& call, const Group& group, const Tensor& wrong, const Tensor& right)
      : call_(call), group_(group), wrong_(wrong), right_(right), flats_(some_of(group.runs, group.elements, kMost)) {
    std::mt19937_64 random(1);
    constexpr int kPairs = 1000;
    int close = 0;
    for (int i = 0; i < kPairs; ++i) {
      const int64_t flat = flats_[random() % flats_.size()];
      const auto elsewhere = static_cast<int64_t>(random() % static_cast<uint64_t>(right_.elements()));
      close += is_close(wrong_.at(flat), right_.at(elsewhere)) ? 1 : 0;
    }
    bits_ = std::log2((kPairs + 1.0) / (close + 1));
  }

  std::string launches() const {
    if (group_.patterns.size() != 1 || !group_.patterns[0].part.empty()) return {};
    const double ratio = group_.patterns[0].value, whole = std::round(ratio);
    const bool is_sum = group_.patterns[0].kind == Pattern::Kind::kRatio && whole >= 3 && whole <= 1000 &&
                        std::abs(ratio - whole) <= kClose / 20 * whole;
    if (!is_sum || TargetSums(call_, group_.gradient, some_of(group_.runs, group_.elements, 16)).may_divide_by(whole)) {
      return {};
    }
    return fmt::format("the sums of {} launches had been added up", whole);
  }

  std::string shifted_index() const {
    constexpr int64_t kFarthest = 64;
    const Index& shape = right_.shape;
    for (int64_t distance = 1; distance <= kFarthest; ++distance) {
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        for (const int64_t shift : {distance, -distance}) {
          if (distance >= shape[axis]) continue;
          const int64_t step = step_of(axis);
          const auto came_from = [&](int64_t flat) -> std::optional<int64_t> {
            const int64_t index = flat / step % shape[axis] - shift;
            if (index < 0 || index >= shape[axis]) return std::nullopt;
            return flat - shift * step;
          };
          if (!are_explained(came_from)) continue;
          return fmt::format("everything had been added at {0} {1} {2} in place of {0}", name_of_axis(axis),
                             shift > 0 ? '+' : '-', distance);
        }
      }
    }
    return {};
  }

  std::string swapped_axes() const {
    for (size_t a = 0; a < right_.shape.size(); ++a) {
      for (size_t b = a + 1; b < right_.shape.size(); ++b) {
        if (right_.shape[a] == 1 || right_.shape[b] == 1) continue;
        std::vector<size_t> order(right_.shape.size());
        std::iota(order.begin(), order.end(), 0);
        std::swap(order[a], order[b]);
        const auto came_from = [&](int64_t flat) { return std::optional(in_memory(right_.shape, order, flat)); };
        if (!are_explained(came_from)) continue;
        const std::string first = name_of_axis(a), second = name_of_axis(b);
        return first == second ? fmt::format("axes {} and {} were swapped", a, b)
                               : fmt::format("{} and {} were swapped", first, second);
      }
    }
    return {};
  }

  std::string read_as_contiguous() const {
    const std::vector<NamedTensor> inputs = call_.inputs();
    const TargetSums sums(call_, group_.gradient, some_of(group_.runs, group_.elements, 64));
    if (sums.empty()) return {};
    const auto source = std::ranges::find(inputs, sums.source_name(), &NamedTensor::name);
    if (source == inputs.end() || source->tensor.shape.size() > 5) return {};
    const Tensor& tensor = source->tensor;
    const OwnedTensor numbered = numbers_of_elements(tensor.shape);
    std::vector<Tensor> values;
    for (const NamedTensor& input : inputs) values.push_back(&input == &*source ? numbered.view() : input.tensor);
    const auto call_of_numbers = call_.with_values(values);
    std::vector<std::vector<TargetSums::Addend>> all;  // their numbers say which element of the source it is
    for (size_t i = 0; i < sums.size(); ++i) {
      all.push_back(sums.addends(i, *call_of_numbers));
      const auto is_that_element = [&](const auto& addend, const auto& numbered_addend) {
        const double flat = numbered_addend.number;
        return flat >= 0 && flat < static_cast<double>(tensor.elements()) &&
               tensor.at(static_cast<int64_t>(flat)) == addend.number;
      };
      if (!std::ranges::equal(sums.addends(i), all.back(), is_that_element)) return {};
    }
    std::vector<size_t> order(tensor.shape.size());
    std::iota(order.begin(), order.end(), 0);
    while (std::ranges::next_permutation(order).found) {
      const auto pair_of = [&](size_t i) {
        double expected = right_.at(sums.flat(i));
        for (const auto& addend : all[i]) {
          const auto flat = static_cast<int64_t>(addend.number);
          expected += addend.weight * (tensor.at(in_memory(tensor.shape, order, flat)) - tensor.at(flat));
        }
        return std::pair(wrong_.at(sums.flat(i)), expected);
      };
      if (!are_explained(sums.size(), pair_of)) continue;
      return fmt::format("{}, whose axes lie in memory in the order {}, had been read as if it were contiguous",
                         source->name, fmt::join(order, " "));
    }
    return {};
  }

 private:
  static constexpr int64_t kMost = 2000;

  static bool is_close(double wrong, double right) { return std::abs(wrong - right) <= kClose / 2 * std::abs(right); }

  int64_t step_of(size_t axis) const {
    int64_t step = 1;
    for (size_t i = axis + 1; i < right_.shape.size(); ++i) step *= right_.shape[i];
    return step;
  }

  // Returns what the index along an axis of the tensor counts: "row", or "pixel" if it counts rows and columns.
  std::string name_of_axis(size_t axis) const {
    const int64_t step = step_of(axis);
    const auto first = call_.text_of_place(group_.gradient, 0), next = call_.text_of_place(group_.gradient, step),
               last = call_.text_of_place(group_.gradient, (right_.shape[axis] - 1) * step);
    size_t differing = 0, named = first.size();
    for (size_t i = 0; i < first.size(); ++i) {
      differing += first[i] != last[i] ? 1 : 0;
      if (named == first.size() && first[i] != next[i]) named = i;
    }
    if (differing == 1 && named < first.size()) return first[named].substr(0, first[named].find(' '));
    const Coordinates from = call_.coordinates_of(group_.gradient, 0), to = call_.coordinates_of(group_.gradient, step);
    for (const Dimension dimension : call_.dimensions()) {
      if (to[dimension.place()] == from[dimension.place()] + 1) return name_of(dimension);
    }
    return fmt::format("axis {}", axis);
  }

  // Returns the element of a row-major tensor that lies at this place if its axes lie in memory in another order.
  static int64_t in_memory(const Index& shape, const std::vector<size_t>& order, int64_t flat) {
    Index index(shape.size());
    for (size_t i = order.size(); i-- > 0; flat /= shape[order[i]]) index[order[i]] = flat % shape[order[i]];
    int64_t found = 0;
    for (size_t i = 0; i < shape.size(); ++i) found = found * shape[i] + index[i];
    return found;
  }

  static OwnedTensor numbers_of_elements(const Index& shape) {
    OwnedTensor numbers("", MSDA_FLOAT64, shape);
    for (int64_t i = 0; i < numbers.view().elements(); ++i) {
      store(numbers.bytes.data(), MSDA_FLOAT64, i, static_cast<double>(i));
    }
    return numbers;
  }

  // Returns whether nine in ten of the wrong values are those that are expected, and so many that chance is excluded.
  // Where both are 0, nothing is shown.
  template <class Pair>
  bool are_explained(size_t count, Pair&& pair_of) const {
    constexpr double kFewest = 8, kLeastBits = 50;  // of one in 10^15 by chance
    size_t shown = 0, explained = 0, without = 0;
    for (size_t i = 0; i < count; ++i) {
      const std::optional<std::pair<double, double>> values = pair_of(i);
      without += values ? 0 : 1;
      if (!values || (values->first == 0 && values->second == 0)) continue;
      ++shown;
      explained += is_close(values->first, values->second) ? 1 : 0;
      if (10 * (shown - explained) > count) return false;
    }
    const auto matches = static_cast<double>(explained);
    return 5 * without <= 2 * count && 10 * explained >= 9 * shown && matches >= kFewest &&
           matches * bits_ >= kLeastBits;
  }
  template <class CameFrom>
  bool are_explained(CameFrom&& came_from) const {
    return are_explained(flats_.size(), [&](size_t i) -> std::optional<std::pair<double, double>> {
      const auto from = came_from(flats_[i]);
      if (!from) return std::nullopt;
      return std::pair(wrong_.at(flats_[i]), right_.at(*from));
    });
  }

  const Call& call_;
  const Group& group_;
  const Tensor &wrong_, &right_;
  std::vector<int64_t> flats_;
  double bits_ = 0;  // that a value like another by chance counts
};

}  // namespace

std::string scatter_mistake(const Call& call, const Group& group, const Tensor& wrong, const Tensor& right) {
  if (!group.gradient.scattered() || !wrong || !right) return {};
  const WrongSums sums(call, group, wrong, right);
  std::string mistake = sums.launches();
  if (!mistake.empty() || !group.patterns.empty()) return mistake;
  mistake = sums.shifted_index();
  if (mistake.empty()) mistake = sums.swapped_axes();
  if (mistake.empty()) mistake = lost_samples(call, group, wrong, right);
  if (mistake.empty()) mistake = sums.read_as_contiguous();
  return mistake;
}

}  // namespace msda::analysis
