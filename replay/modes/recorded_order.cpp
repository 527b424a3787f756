#include "replay/modes/recorded_order.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "analysis/order/find_orders.h"
#include "kernels/names.h"
#include "recorder/capture/digest.h"
#include "replay/base/errors.h"

namespace msda::replay {

using analysis::Tensor;

namespace {

// Fills in one gradient.
void replay_one(const LoadedCall& loaded, analysis::Gradient gradient, const analysis::OrderMaterial& material,
                const analysis::OrderReport& report, OrderedReplay& replay) {
  const Tensor& recorded = loaded.recorded().of(gradient);
  const size_t at = gradient.place();
  const auto element = static_cast<size_t>(kernels::bytes_of(recorded.dtype));
  const size_t bytes = static_cast<size_t>(recorded.elements()) * element;
  auto& memory = replay.owned.memory[at];
  memory = std::make_unique<std::byte[]>(bytes);
  analysis::replay_orders(material, report, [&](int64_t flat, double value) {
    analysis::store(memory.get(), recorded.dtype, flat, value);
  });
  Tensor& tensor = replay.owned.side.tensors[at];
  tensor = {memory.get(), recorded.dtype, recorded.shape};
  replay.owned.side.arithmetic[at] = loaded.call().arithmetic();
  replay.digests[at] = capture::digest({memory.get(), bytes});
  RecordedOrder found{gradient, report.counts.elements, report.counts.explained + report.counts.in_parts, 0,
                      recorded.elements()};
  const auto* const was = static_cast<const std::byte*>(recorded.data);
  for (size_t i = 0; i < bytes; i += element) found.equal += std::memcmp(memory.get() + i, was + i, element) == 0;
  replay.found.push_back(found);
}

}  // namespace

OrderedReplay replay_in_recorded_order(const LoadedCall& loaded, const std::string& kernel, int threads, uint64_t seed,
                                       const std::function<void(const std::string&)>& progress) {
  OrderedReplay replay;
  replay.owned.side.name = "recorded_order";
  const auto refuse = [&](const std::string& why) {
    throw Unavailable(fmt::format("{}: --mode recorded_order: {}", loaded.where(), why));
  };
  for (const auto gradient : loaded.call().gradients()) {
    const Tensor& recorded = loaded.recorded().of(gradient);
    if (!gradient.scattered() || !recorded) continue;
    const analysis::OrderMaterial material{loaded.call(), gradient, recorded, loaded.before(gradient), kernel};
    analysis::OrderSettings settings;
    settings.threads = threads;
    settings.limits.seed = seed;
    settings.faults = false;
    const auto report = analysis::find_orders(
        material, settings, [&](double share) { progress(fmt::format("recorded_order, {:.0f} %", 100 * share)); });
    if (!report) refuse("the operator does not list its additions");
    if (!report->arithmetic.found) {
      refuse("no arithmetic that is known explains the recorded bits; msda-replay order says more");
    }
    replay_one(loaded, gradient, material, *report, replay);
  }
  if (replay.found.empty()) refuse("no gradient that adds up samples was recorded");
  return replay;
}

}  // namespace msda::replay
