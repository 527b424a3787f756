#include "replay/original/poison_orders.h"

#include "analysis/order/find_orders.h"
#include "replay/calls/loaded_call.h"

namespace msda::replay {

FindOrders find_orders_of(const Options& options, const capture::IsolatedReader& reader,
                          const capture::Invocation& invocation) {
  return [&](const PoisonedOutput& output, const std::vector<std::byte>& bytes) -> std::optional<PoisonOrders> {
    if (!why_not_replayed(reader, invocation).empty()) return std::nullopt;
    const LoadedCall loaded(options, reader, invocation);
    for (const auto gradient : loaded.call().gradients()) {
      if (!gradient.scattered() || gradient.name() != output.name) continue;
      const analysis::Tensor result{bytes.data(), output.type, output.shape};
      const analysis::OrderMaterial material{loaded.call(), gradient, result, loaded.before(gradient),
                                             invocation.facts.kernel};
      analysis::OrderSettings settings;
      settings.threads = static_cast<int>(options.threads);
      settings.limits.seed = options.seed;
      settings.faults = false;
      const auto report = analysis::find_orders(material, settings, [](double) {});
      if (!report || !report->arithmetic.found) return std::nullopt;
      const analysis::OrderCounts& counts = report->counts;
      // Where the operator's channels are not added one at a time, orders for parts of them are none at all.
      const bool can_be_impossible = report->known.one_at_a_time;
      return PoisonOrders{counts.elements, counts.explained + counts.in_parts,
                          can_be_impossible ? counts.impossible - counts.in_parts : 0};
    }
    return std::nullopt;
  };
}

}  // namespace msda::replay
