#include "replay/commands/found_orders.h"

#include <fmt/format.h>

#include "replay/calls/load_operator.h"
#include "replay/calls/loaded_call.h"

namespace msda::replay {

const std::vector<AtomicPlace>& AtomicsOfKernels::of(const capture::Invocation& invocation) {
  if (!kernels_) kernels_ = reader_.kernels();
  const auto [at, is_new] = found_.try_emplace({invocation.facts.kernel_digest, invocation.facts.kernel});
  if (!is_new) return at->second;
  if (const auto code = capture::code_of(invocation.facts, *kernels_)) at->second = atomic_places(*code);
  return at->second;
}

void find_orders_in(const OrderOptions& options, const capture::IsolatedReader& reader, AtomicsOfKernels& atomics,
                    const capture::Invocation& invocation, const Progress& progress, std::vector<FoundOrders>& found,
                    std::vector<NoOrders>& none) {
  if (const std::string why = why_not_replayed(reader, invocation); !why.empty()) {
    none.push_back({invocation.id, why});
    return;
  }
  const LoadedCall loaded(options, reader, invocation);
  std::string why = "no gradient that adds up samples was recorded";
  for (const auto gradient : loaded.call().gradients()) {
    const analysis::Tensor& recorded = loaded.recorded().of(gradient);
    if (!gradient.scattered() || !recorded) continue;
    const analysis::OrderMaterial material{loaded.call(), gradient, recorded, loaded.before(gradient),
                                           invocation.facts.kernel};
    analysis::OrderSettings settings = options.search;
    settings.threads = static_cast<int>(options.threads);
    settings.limits.seed = options.seed;
    auto report = analysis::find_orders(material, settings, [&](double share) {
      progress.show(fmt::format("invocation {}: {}, {:.0f} %", invocation.id, gradient.name(), 100 * share));
    });
    if (report) {
      found.push_back({invocation.id, operator_of(invocation), invocation.facts.kernel, loaded.call().outline(),
                       gradient, *std::move(report), atomics.of(invocation), loaded.altered()});
      return;
    }
    why = fmt::format("the operator {} does not list its additions", operator_of(invocation));
  }
  none.push_back({invocation.id, why});
}

}  // namespace msda::replay
