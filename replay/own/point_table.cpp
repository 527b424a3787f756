#include "replay/own/point_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "replay/base/errors.h"
#include "replay/own/bound_expressions.h"

namespace msda::replay {

using adapters::Expression;
using adapters::SumSpec;
using analysis::Bounded;

namespace {

constexpr int64_t kMostKeys = int64_t{1} << 26, kMostVisits = int64_t{1} << 28;

// What a condition says of the values of an axis that a point belongs to.
struct Bound {
  enum class Kind { kEqual, kNear, kAtLeast, kAtMost } kind;
  Expression key;                     // of integers, but for kNear
  const Expression* reach = nullptr;  // of kNear: values nearer to the key than this
  int64_t offset = 0;                 // of kAtLeast and kAtMost: what is added to the key
};

struct Key {
  size_t axis;
  std::vector<Bound> bounds;  // all of which hold
};

class TableMaker {
 public:
  TableMaker(const BoundExpressions& bound, const SumSpec& sum, const analysis::Precision& precision,
             const std::string& where)
      : bound_(bound), sum_(sum), precision_(precision), where_(where), evaluation_(bound) {}

  std::shared_ptr<const PointTable> make() {
    decided_.assign(sum_.where.size(), false);
    for (size_t i = 0; i < sum_.where.size(); ++i) take(i);
    if (keys_.empty()) return nullptr;
    table_->decided = decided_;
    for (const Key& key : keys_) table_->axes.push_back(key.axis);
    table_->axes.insert(table_->axes.end(), named_.begin(), named_.end());
    long double keys = 1, visits = static_cast<long double>(bound_.points_in(sum_));
    for (const size_t axis : table_->axes) {
      table_->sizes.push_back(bound_.sizes()[sum_.index[axis]]);
      keys *= static_cast<long double>(table_->sizes.back());
    }
    for (const size_t axis : named_) visits *= static_cast<long double>(bound_.sizes()[sum_.index[axis]]);
    if (keys > kMostKeys || visits > kMostVisits) return nullptr;
    table_->begin.assign(static_cast<size_t>(keys) + 1, 0);
    visit_all([&](size_t key, int64_t) { ++table_->begin[key + 1]; });
    for (size_t i = 1; i < table_->begin.size(); ++i) table_->begin[i] += table_->begin[i - 1];
    const auto is_interval = [](const Key& key) {
      return std::ranges::all_of(key.bounds, [](const Bound& bound) { return bound.kind >= Bound::Kind::kAtLeast; });
    };
    // Intervals may hold most points: then trying all of them is as well.
    if (table_->begin.back() > kMostVisits / 4 && std::ranges::all_of(keys_, is_interval)) return nullptr;
    if (table_->begin.back() > kMostVisits / 4) {
      throw BadInput(fmt::format("{}: its conditions let {} points through; 2^26 can be examined at most", where_,
                                 table_->begin.back()));
    }
    table_->points.resize(static_cast<size_t>(table_->begin.back()));
    std::vector<int64_t> next(table_->begin.begin(), table_->begin.end() - 1);
    visit_all([&](size_t key, int64_t point) {
      table_->points[static_cast<size_t>(next[key]++)] = static_cast<uint32_t>(point);
    });
    return table_;
  }

 private:
  // Uses a condition if it says where points belong.
  void take(size_t number) {
    const auto& [condition, is_real] = sum_.where[number];
    const Expression &left = condition.left(), &right = condition.right();
    if (!is_real || (condition.is_equality() && (left.is_integer_of_reals() || right.is_integer_of_reals()))) {
      if (const auto bound = bound_of(condition, /*is_on_left=*/true); bound && take(left, *bound))
        return decide(number);
      if (const auto bound = bound_of(condition, /*is_on_left=*/false); bound && take(right, *bound)) decide(number);
      return;
    }
    if (!condition.is_less()) return;
    if (const auto distance = left.distance()) {
      const bool is_number = right.references().empty() &&
                             std::ranges::all_of(right.loose_names(), [&](size_t name) { return !axis_of(name); });
      if (is_number) take(distance->first, {Bound::Kind::kNear, distance->second, &right});
    }
  }

  void decide(size_t condition) { decided_[condition] = true; }

  // Returns what a comparison says of the side that is an index.
  static std::optional<Bound> bound_of(const adapters::Condition& condition, bool is_on_left) {
    const std::string_view comparison = condition.comparison();
    const Expression& key = is_on_left ? condition.right() : condition.left();
    if (comparison == "==") return Bound{Bound::Kind::kEqual, key};
    if (comparison == "!=") return std::nullopt;
    const bool is_less = (comparison[0] == '<') == is_on_left, or_equal = comparison.size() == 2;
    if (is_less) return Bound{Bound::Kind::kAtMost, key, nullptr, or_equal ? 0 : -1};
    return Bound{Bound::Kind::kAtLeast, key, nullptr, or_equal ? 0 : 1};
  }

  bool take(const Expression& name, const Bound& bound) {
    const auto plain = name.plain_name();
    return plain && take(*plain, bound);
  }

  bool take(size_t name, const Bound& bound) {
    const auto axis = axis_of(name);
    if (!axis || named_.contains(*axis)) return false;
    std::set<size_t> named;
    bool has_coordinates = false;  // their cells are those of an element, and are not known here
    const auto look_at = [&](size_t used) {
      if (const auto a = axis_of(used)) named.insert(*a);
      has_coordinates = has_coordinates || bound_.is_of_coordinate(used);
    };
    for (const size_t used : bound.key.loose_names()) look_at(used);
    for (const auto& reference : bound.key.references()) {
      for (const auto& plain : reference.plain) {
        if (plain) look_at(*plain);
      }
    }
    const auto key_of = [&](size_t a) { return std::ranges::find(keys_, a, &Key::axis); };
    const auto has = [&](size_t a) { return key_of(a) != keys_.end(); };
    if (has_coordinates || named.contains(*axis) || std::ranges::any_of(named, has)) return false;
    if (!has(*axis)) keys_.push_back({*axis, {}});
    key_of(*axis)->bounds.push_back(bound);
    named_.insert(named.begin(), named.end());
    return true;
  }

  // Returns which axis of the tensor a name is an index of.
  std::optional<size_t> axis_of(size_t name) const {
    const auto found =
        std::ranges::find_if(sum_.index, [&](size_t index) { return bound_.name_of_index(index) == name; });
    return found == sum_.index.end() ? std::nullopt : std::optional(static_cast<size_t>(found - sum_.index.begin()));
  }

  // Visits each point with each key that it may have. A key outside of the tensor belongs nowhere.
  template <class Visit>
  void visit_all(const Visit& visit) {
    const size_t own = keys_.size();
    std::vector<int64_t> at(table_->axes.size(), 0), first(own), last(own);
    if (std::ranges::find(table_->sizes, 0) != table_->sizes.end()) return;
    do {
      for (size_t i = own; i < at.size(); ++i)
        evaluation_.set(bound_.name_of_index(sum_.index[table_->axes[i]]), at[i]);
      for (int64_t point = 0; point < bound_.points_in(sum_); ++point) {
        bound_.set_point(sum_, point, evaluation_);
        bool any = true;
        for (size_t i = 0; i < own && any; ++i) {
          std::tie(first[i], last[i]) = range_of(keys_[i], table_->sizes[i]);
          any = first[i] <= last[i];
        }
        if (!any) continue;
        std::ranges::copy(first, at.begin());
        do {
          visit(number_of(at), point);
        } while (next(std::span(at).first(own), first, last));
      }
    } while (next_of(std::span(at).subspan(own), std::span<const int64_t>(table_->sizes).subspan(own)));
  }

  // Returns the first and the last value of an axis that a point may belong to.
  std::pair<int64_t, int64_t> range_of(const Key& key, int64_t size) const {
    std::pair<int64_t, int64_t> range{0, size - 1};
    for (const Bound& bound : key.bounds) {
      const auto [first, last] = bound.kind == Bound::Kind::kNear ? range_near(bound, size) : range_of(bound, size);
      range = {std::max(range.first, first), std::min(range.second, last)};
    }
    return range;
  }

  std::pair<int64_t, int64_t> range_of(const Bound& bound, int64_t size) const {
    const int64_t value = bound.key.is_integer_of_reals()
                              ? static_cast<int64_t>(value_of(evaluation_.bounded(bound.key, precision_)).value())
                              : value_of(evaluation_.integer(bound.key));
    const int64_t limit = std::clamp<int64_t>(value, -1, size) + bound.offset;  // beyond the axis all are alike
    return {bound.kind == Bound::Kind::kAtMost ? 0 : limit, bound.kind == Bound::Kind::kAtLeast ? size - 1 : limit};
  }

  std::pair<int64_t, int64_t> range_near(const Bound& bound, int64_t size) const {
    const Bounded center = value_of(evaluation_.bounded(bound.key, precision_));
    const Bounded reach = value_of(evaluation_.bounded(*bound.reach, precision_));
    // The difference from the index is rounded, too.
    const double most = static_cast<double>(size) + std::abs(center.value());
    const double away = std::abs(reach.value()) + reach.error() + center.error() + 4 * precision_.unit * most;
    if (std::isnan(center.value()) || !(away < most + 1)) return {0, size - 1};  // it may be anywhere
    const double first = std::ceil(std::max(center.value() - away, 0.0)),
                 last = std::floor(std::min(center.value() + away, static_cast<double>(size - 1)));
    return first <= last ? std::pair(static_cast<int64_t>(first), static_cast<int64_t>(last))
                         : std::pair<int64_t, int64_t>(1, 0);
  }

  template <class T>
  T value_of(Evaluation::Result<T> result) const {
    if (const auto* fault = std::get_if<std::string>(&result)) throw BadInput(fmt::format("{}: {}", where_, *fault));
    return std::get<T>(result);
  }

  size_t number_of(std::span<const int64_t> at) const {
    int64_t number = 0;
    for (size_t i = 0; i < at.size(); ++i) number = number * table_->sizes[i] + at[i];
    return static_cast<size_t>(number);
  }

  static bool next(std::span<int64_t> at, std::span<const int64_t> first, std::span<const int64_t> last) {
    for (size_t i = at.size(); i-- > 0;) {
      if (++at[i] <= last[i]) return true;
      at[i] = first[i];
    }
    return false;
  }
  static bool next_of(std::span<int64_t> at, std::span<const int64_t> sizes) {
    for (size_t i = at.size(); i-- > 0;) {
      if (++at[i] < sizes[i]) return true;
      at[i] = 0;
    }
    return false;
  }

  const BoundExpressions& bound_;
  const SumSpec& sum_;
  const analysis::Precision precision_;
  const std::string& where_;
  Evaluation evaluation_;
  std::vector<Key> keys_;
  std::vector<bool> decided_;
  std::set<size_t> named_;  // axes that keys depend on
  std::shared_ptr<PointTable> table_ = std::make_shared<PointTable>();
};

}  // namespace

size_t PointTable::key(std::span<const int64_t> at) const {
  int64_t number = 0;
  for (size_t i = 0; i < axes.size(); ++i) number = number * sizes[i] + at[axes[i]];
  return static_cast<size_t>(number);
}

std::shared_ptr<const PointTable> find_points(const BoundExpressions& bound, const SumSpec& sum,
                                              const analysis::Precision& precision, const std::string& where) {
  return TableMaker(bound, sum, precision, where).make();
}

}  // namespace msda::replay
