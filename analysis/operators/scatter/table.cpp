#include "analysis/operators/scatter/table.h"

#include <algorithm>

namespace msda::analysis {
namespace {

// Sorts what visit_all() visits by target: counted first, so that nothing is kept twice.
template <class VisitAll>
void sort_by_target(int64_t targets, const VisitAll& visit_all, std::vector<ScatterTable::Entry>& entries,
                    std::vector<int64_t>& begin) {
  begin.assign(static_cast<size_t>(targets) + 1, 0);
  visit_all([&](int64_t target, const ScatterTable::Entry&) { ++begin[static_cast<size_t>(target) + 1]; });
  for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  entries.resize(static_cast<size_t>(begin.back()));
  std::vector<int64_t> next(begin.begin(), begin.end() - 1);
  visit_all([&](int64_t target, const ScatterTable::Entry& entry) {
    entries[static_cast<size_t>(next[static_cast<size_t>(target)]++)] = entry;
  });
}

}  // namespace

double product_of(const Contribution& contribution, size_t factors, msda_dtype type) {
  if (factors == 0) return 1;
  double product = contribution.factors[0];
  for (size_t i = 1; i < factors; ++i) product = rounded_to(product * contribution.factors[i], type);
  return product;
}

ScatterTable::ScatterTable(const ScatterCall& call, const Precision& coordinates, int way) {
  const int64_t targets = call.to().places();
  const auto exactly = [&](const auto& put) {
    for (int64_t source = 0; source < call.from().places(); ++source) {
      call.send_exactly(source, coordinates, way, [&](const ExactContribution& contribution) {
        put(contribution.target, Entry{source, contribution.weight, contribution.error, contribution.is_signed});
      });
    }
  };
  sort_by_target(targets, exactly, exact_, exact_begin_);
  if (way != 0) return;
  const FactorArithmetic by = call.factor_arithmetics().front();
  const size_t factors = call.weight_names().size();
  const auto as_computed = [&](const auto& put) {
    for (int64_t sample = 0; sample < call.sample_count(); ++sample) {
      call.send(sample, by, [&](const Contribution& contribution) {
        put(contribution.target, Entry{contribution.source, product_of(contribution, factors, by.type)});
      });
    }
  };
  sort_by_target(targets, as_computed, computed_, computed_begin_);
}

const ScatterTable& ScatterCache::get(const Precision& coordinates, int way) {
  const std::lock_guard lock(mutex_);
  const std::pair key(coordinates.bits, way);
  const auto known = tables_.find(key);
  return known != tables_.end() ? known->second
                                : tables_.emplace(key, ScatterTable(call_, coordinates, way)).first->second;
}

}  // namespace msda::analysis
