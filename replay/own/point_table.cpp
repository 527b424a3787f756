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

// A condition that says which values of an axis a point belongs to: `key`, or those nearer to it than `reach`.
struct Key {
  size_t condition, axis;
  Expression key;
  const Expression* reach;  // null: equal
};

class TableMaker {
 public:
  TableMaker(const BoundExpressions& bound, const SumSpec& sum, const analysis::Precision& precision,
             const std::string& where)
      : bound_(bound), sum_(sum), precision_(precision), where_(where), evaluation_(bound) {}

  std::shared_ptr<const PointTable> make() {
    for (size_t i = 0; i < sum_.where.size(); ++i) take(i);
    if (keys_.empty()) return nullptr;
    table_->decided.assign(sum_.where.size(), false);
    for (const Key& key : keys_) {
      table_->axes.push_back(key.axis);
      table_->decided[key.condition] = key.reach == nullptr;
    }
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
    if (!is_real && condition.is_equality()) {
      for (const auto& [name, key] :
           {std::pair{&condition.left(), &condition.right()}, std::pair{&condition.right(), &condition.left()}}) {
        if (const auto plain = name->plain_name(); plain && take(number, *plain, *key, nullptr)) return;
      }
    }
    if (!is_real || !condition.is_less()) return;
    if (const auto distance = condition.left().distance()) {
      const Expression& reach = condition.right();
      const bool is_number = reach.references().empty() &&
                             std::ranges::all_of(reach.loose_names(), [&](size_t name) { return !axis_of(name); });
      if (is_number) take(number, distance->first, distance->second, &reach);
    }
  }

  bool take(size_t condition, size_t name, const Expression& key, const Expression* reach) {
    const auto axis = axis_of(name);
    const auto has = [&](size_t a) { return std::ranges::find(keys_, a, &Key::axis) != keys_.end(); };
    if (!axis || has(*axis) || named_.contains(*axis)) return false;
    std::set<size_t> named;
    const auto look_at = [&](size_t used) {
      if (const auto a = axis_of(used)) named.insert(*a);
    };
    for (const size_t used : key.loose_names()) look_at(used);
    for (const auto& reference : key.references()) {
      for (const auto& plain : reference.plain) {
        if (plain) look_at(*plain);
      }
    }
    if (named.contains(*axis) || std::ranges::any_of(named, has)) return false;
    keys_.push_back({condition, *axis, key, reach});
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
    if (key.reach == nullptr) {
      const int64_t value = value_of(evaluation_.integer(key.key));
      return value >= 0 && value < size ? std::pair(value, value) : std::pair<int64_t, int64_t>(1, 0);
    }
    const Bounded center = value_of(evaluation_.bounded(key.key, precision_));
    const Bounded reach = value_of(evaluation_.bounded(*key.reach, precision_));
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
