#include "analysis/stress/stress.h"

#include <algorithm>
#include <functional>
#include <set>

#include "kernels/parallel.h"

namespace msda::analysis::stress {
namespace {

constexpr int64_t kBatch = 64;
constexpr size_t kMostExamples = 20, kMostNeeded = 100'000;

void count(const Plan& plan, const Run& run, int64_t number, const std::vector<double>& atols,
           const std::vector<double>& rtols, Tally& tally) {
  ++tally.runs;
  tally.failures += run.fails;
  tally.elements += run.missed;
  std::set<std::string> causes;
  for (const Miss& miss : run.misses) causes.insert(name_of(miss.cause));
  for (const std::string& cause : causes) ++tally.by_cause[cause];
  if (number < Tally::kMostListed) {
    if (run.fails) tally.failing.push_back(number);
    for (const std::string& cause : causes) tally.failing_by_cause[cause].push_back(number);
  }
  for (const Gradient gradient : plan.slices.outline->gradients()) {
    tally.by_tensor[gradient.name()] += run.failing[gradient.place()];
  }
  const auto count_all = [](const std::vector<double>& limits, double needed, std::vector<int64_t>& counts) {
    counts.resize(limits.size());
    for (size_t i = 0; i < limits.size(); ++i) counts[i] += needed > limits[i];
  };
  count_all(atols, run.needed_atol, tally.by_atol);
  count_all(rtols, run.needed_rtol, tally.by_rtol);
  tally.needed_atol.insert(tally.needed_atol.end(), run.slices_needed_atol.begin(), run.slices_needed_atol.end());
  if (tally.needed_atol.size() > 2 * kMostNeeded) {
    std::ranges::nth_element(tally.needed_atol, tally.needed_atol.begin() + kMostNeeded, std::greater<>());
    tally.needed_atol.resize(kMostNeeded);
  }
  for (const Miss& miss : run.misses) {
    if (tally.examples.size() >= kMostExamples) break;
    tally.examples.push_back({number, miss, plan.slices.outline->element_id(miss.gradient, miss.flat).index});
  }
}

}  // namespace

void stress(const Plan& plan, const Effort& effort, const std::vector<double>& atols, const std::vector<double>& rtols,
            Tally& tally) {
  const int64_t end = effort.first + effort.most_runs;
  for (int64_t first = effort.first; first < end; first += kBatch) {
    const int64_t batch = std::min(kBatch, end - first);
    const int threads = kernels::thread_count(effort.threads, batch);
    std::vector<Run> runs(static_cast<size_t>(batch));
    std::vector<char> done(static_cast<size_t>(batch));
    std::vector<std::unique_ptr<Simulator>> simulators(static_cast<size_t>(threads));
    kernels::parallel_for(batch, threads, [&](int64_t i, int worker) {
      if (effort.stop && effort.stop()) return;
      auto& simulator = simulators[static_cast<size_t>(worker)];
      if (!simulator) simulator = std::make_unique<Simulator>(plan);
      runs[static_cast<size_t>(i)] = simulator->run(first + i);
      done[static_cast<size_t>(i)] = 1;
    });
    // Only runs without a gap count: which ones an interrupt cut off must not depend on what they gave.
    const int64_t finished = std::ranges::find(done, 0) - done.begin();
    for (int64_t i = 0; i < finished; ++i) count(plan, runs[static_cast<size_t>(i)], first + i, atols, rtols, tally);
    if (effort.progress) effort.progress(tally);
    if (finished < batch) return;
    const Proportion known = proportion(tally.failures, tally.runs, effort.confidence);
    if (tally.runs >= effort.least_runs && known.high - known.low <= effort.width) return;
  }
}

}  // namespace msda::analysis::stress
