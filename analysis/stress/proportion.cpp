#include "analysis/stress/proportion.h"

#include <boost/math/distributions/beta.hpp>

namespace msda::analysis::stress {

Proportion proportion(int64_t hits, int64_t runs, double confidence) {
  Proportion result;
  result.hits = hits;
  result.runs = runs;
  if (runs == 0) return result;
  const double k = static_cast<double>(hits), n = static_cast<double>(runs), tail = (1 - confidence) / 2;
  result.estimate = k / n;
  result.low = hits == 0 ? 0 : quantile(boost::math::beta_distribution<>(k, n - k + 1), tail);
  result.high = hits == runs ? 1 : quantile(complement(boost::math::beta_distribution<>(k + 1, n - k), tail));
  return result;
}

}  // namespace msda::analysis::stress
