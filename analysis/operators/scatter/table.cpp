#include "analysis/operators/scatter/table.h"

#include <algorithm>

namespace msda::analysis {

double product_of(const Contribution& contribution, size_t factors, msda_dtype type) {
  if (factors == 0) return 1;
  double product = contribution.factors[0];
  for (size_t i = 1; i < factors; ++i) product = rounded_to(product * contribution.factors[i], type);
  return product;
}

// Counts the entries of each target first, so that nothing is kept twice.
ScatterTable::ScatterTable(int64_t targets, const std::function<void(const Put&)>& visit_all)
    : begin_(static_cast<size_t>(targets) + 1) {
  visit_all([&](int64_t target, const Entry&) { ++begin_[static_cast<size_t>(target) + 1]; });
  for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  entries_.resize(static_cast<size_t>(begin_.back()));
  std::vector<int64_t> next(begin_.begin(), begin_.end() - 1);
  visit_all([&](int64_t target, const Entry& entry) {
    entries_[static_cast<size_t>(next[static_cast<size_t>(target)]++)] = entry;
  });
}

const ScatterTable& ScatterTables::exact(const ScatterCall& call, const Precision& coordinates, int way) {
  const std::lock_guard lock(mutex_);
  const std::pair key(coordinates.bits, way);
  if (const auto known = exact_.find(key); known != exact_.end()) return known->second;
  const auto visit_all = [&](const ScatterTable::Put& put) {
    for (int64_t source = 0; source < call.from().places(); ++source) {
      const int64_t first = call.from().of_place(source);
      call.send_exactly(source, coordinates, way, [&](const ExactContribution& contribution) {
        put(contribution.target, {source, first, contribution.weight, contribution.error, contribution.is_signed});
      });
    }
  };
  return exact_.emplace(key, ScatterTable(call.to().places(), visit_all)).first->second;
}

const ScatterTable& ScatterTables::computed(const ScatterCall& call) {
  const std::lock_guard lock(mutex_);
  if (computed_) return *computed_;
  const FactorArithmetic by = call.factor_arithmetics().front();
  const size_t factors = call.names().weights.size();
  const auto visit_all = [&](const ScatterTable::Put& put) {
    for (int64_t sample = 0; sample < call.sample_count(); ++sample) {
      call.send(sample, by, [&](const Contribution& contribution) {
        const int64_t first = call.from().of_place(contribution.source);
        put(contribution.target, {contribution.source, first, product_of(contribution, factors, by.type)});
      });
    }
  };
  return computed_.emplace(call.to().places(), visit_all);
}

}  // namespace msda::analysis
