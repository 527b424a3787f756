#include "replay/own/looked_at.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <cmath>
#include <mutex>

#include "analysis/operators/own/call.h"
#include "kernels/parallel.h"

namespace msda::replay {

using analysis::OwnCells;
using analysis::Tensor;

std::vector<OwnCells> reachable_cells(const analysis::OwnDefinition& definition, size_t output, int64_t flat) {
  std::vector<OwnCells> places{{}};
  const analysis::Axes axes = definition.axes(output, flat);
  if (axes.empty()) return places;
  // The definition outlives the call, which does not own it.
  const analysis::OwnCall call(std::shared_ptr<const analysis::OwnDefinition>(std::shared_ptr<void>(), &definition));
  const auto precision = analysis::Precision::of(call.arithmetic());
  for (const analysis::Axis& axis : axes) {
    std::vector<OwnCells> longer;
    for (const auto& landing : call.landings(axis, precision)) {
      for (OwnCells cells : places) {
        cells.push_back({landing.low, std::isfinite(landing.fraction) ? landing.fraction : 0});
        longer.push_back(cells);
      }
    }
    places = std::move(longer);
  }
  return places;
}

std::optional<std::string> first_fault(const analysis::OwnDefinition& definition, int threads,
                                       const FaultOfElement& fault_of) {
  constexpr int64_t kOfATask = 256;
  for (size_t output = 0; output < definition.schema().outputs().size(); ++output) {
    const Tensor shape{nullptr, MSDA_FLOAT32, definition.shape_of(output)};
    const int64_t elements = shape.elements(), tasks = (elements + kOfATask - 1) / kOfATask;
    std::atomic<int64_t> first = elements;  // of the elements with a fault, as every number of threads finds it
    std::string found;
    std::mutex mutex;
    kernels::parallel_for(tasks, kernels::thread_count(threads, tasks), [&](int64_t task, int) {
      for (int64_t flat = task * kOfATask; flat < std::min(elements, (task + 1) * kOfATask); ++flat) {
        if (flat > first) return;
        const auto fault = fault_of(output, flat);
        if (!fault) continue;
        const std::lock_guard lock(mutex);
        if (flat >= first) return;
        first = flat;
        found = *fault;
      }
    });
    if (first == elements) continue;
    return fmt::format("{}[{}]: {}", definition.schema().outputs()[output].name(),
                       fmt::join(shape.index_of(first), ","), found);
  }
  return std::nullopt;
}

}  // namespace msda::replay
