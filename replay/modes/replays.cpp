#include "replay/modes/replays.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analysis/model/dialects.h"
#include "analysis/model/kernels.h"
#include "analysis/numbers/compare.h"
#include "recorder/capture/digest.h"
#include "replay/base/errors.h"

namespace msda::replay {

using analysis::Gradient;
using analysis::Tensor;

namespace {

std::string digest_of(const Tensor& tensor) {
  return capture::digest({static_cast<const std::byte*>(tensor.data), analysis::bytes_of(tensor)});
}

}  // namespace

OwnedSide Replays::run(const LoadedCall& loaded, const Plan& plan, Devices& devices, GpuReplay* gpu) {
  const analysis::Call& call = loaded.call();
  OwnedSide owned = analysis::uncomputed_side(call, plan.name, plan.options.mode, loaded.recorded(), plan.alternative);
  const Devices::Ran ran = compute(loaded, plan, devices, gpu, owned);
  const std::lock_guard lock(mutex_);
  Whereabouts& whereabouts = whereabouts_[plan.name];
  whereabouts.devices.insert(ran.device);
  if (!ran.why_moved.empty()) whereabouts.why_moved = ran.why_moved;
  return owned;
}

Devices::Ran Replays::compute(const LoadedCall& loaded, const Plan& plan, Devices& devices, GpuReplay* gpu,
                              OwnedSide& owned) {
  const analysis::Call& call = loaded.call();
  const analysis::Kernels* kernels = owned.side.version_of(call).kernels();
  const auto on_gpu = kernels == nullptr ? nullptr : kernels->device_call(plan.options, owned.side.tensors);
  const auto on_cpu = [&] { analysis::compute_on_cpu(call, plan.options, owned); };
  return devices.run(on_gpu.get(), on_cpu, gpu, loaded.where() + ": " + plan.name);
}

Replays::Replays(const LoadedCall& loaded, const ReplaySettings& settings, Devices& devices,
                 const std::function<void(const std::string&)>& progress) {
  const analysis::Call& call = loaded.call();
  std::vector<Plan> plans;
  const auto plan = [&](const std::string& name, msda_mode mode) -> Plan& {
    msda_options options{};
    options.mode = mode;
    options.threads = settings.threads;
    return plans.emplace_back(name, nullptr, options);
  };
  plan("float64", MSDA_MODE_FLOAT64);
  for (const msda_mode mode : settings.modes) {
    if (mode == MSDA_MODE_FLOAT64) continue;
    msda_options& options = plan(msda_mode_name(mode), mode).options;
    options.float64_stages = settings.float64_stages;
    options.seed = settings.seed;
  }
  if (const auto beside = call.dialects() == nullptr ? nullptr : call.dialects()->in_dialect_of_tests()) {
    plan(beside->arithmetic_name(), MSDA_MODE_DETERMINISTIC).alternative = beside;
  }

  others_.resize(plans.size() - 1);
  devices.for_each(plans.size(), loaded.where(), [&](size_t i, GpuReplay* gpu) {
    const std::string& name = plans[i].name;
    progress(name);
    OwnedSide& owned = i == 0 ? float64_ : others_[i - 1];
    owned = run(loaded, plans[i], devices, gpu);
    if (plans[i].alternative) return;
    std::array<std::string, 3> digests;
    for (const Gradient gradient : call.gradients()) digests[gradient.place()] = digest_of(owned.side.of(gradient));
    const std::lock_guard lock(mutex_);
    digests_[name] = digests;
  });
  if (settings.repeat > 1) repeat(loaded, settings, plans, devices, progress);
}

// Runs each mode except float64 again, and compares the results with the first run's.
void Replays::repeat(const LoadedCall& loaded, const ReplaySettings& settings, const std::vector<Plan>& plans,
                     Devices& devices, const std::function<void(const std::string&)>& progress) {
  std::vector<size_t> repeated;
  std::map<std::string, std::array<std::set<std::string>, 3>> seen;
  for (size_t i = 1; i < plans.size(); ++i) {
    const std::string& name = plans[i].name;
    if (plans[i].alternative) continue;
    repeated.push_back(i);
    repeats_[name].runs = settings.repeat;
    for (size_t at = 0; at < loaded.call().gradients().size(); ++at) seen[name][at].insert(digests_[name][at]);
  }
  const auto again = static_cast<size_t>(settings.repeat - 1);
  devices.for_each(repeated.size() * again, loaded.where(), [&](size_t i, GpuReplay* gpu) {
    const size_t number = repeated[i / again];
    Plan plan = plans[number];
    plan.options.seed += 1 + i % again;
    progress(plan.name + " " + std::to_string(2 + i % again));
    const OwnedSide owned = run(loaded, plan, devices, gpu);
    for (size_t at = 0; at < loaded.call().gradients().size(); ++at) {
      const Tensor& tensor = owned.side.tensors[at];
      const std::string digest = digest_of(tensor);
      {
        const std::lock_guard lock(mutex_);
        if (!seen[plan.name][at].insert(digest).second) continue;
      }
      const auto compared = analysis::compare(tensor, others_[number - 1].side.tensors[at], {},
                                              analysis::NonFinite::kAsTorch, 0, settings.threads);
      const std::lock_guard lock(mutex_);
      double& spread = repeats_[plan.name].spread[at];
      spread = std::max(spread, compared.max_abs);
    }
  });
  for (auto& [name, digests] : seen) {
    for (size_t at = 0; at < loaded.call().gradients().size(); ++at)
      repeats_[name].distinct[at] = static_cast<int64_t>(digests[at].size());
  }
}

void Replays::add(const OriginalResult& original, const LoadedCall& loaded) {
  analysis::Side& side = original_.emplace();
  side.name = "original";
  for (const OriginalTensor& tensor : original.tensors) {
    const auto gradients = loaded.call().gradients();
    const auto gradient =
        std::ranges::find_if(gradients, [&](Gradient candidate) { return tensor.name == name_of(candidate); });
    if (gradient == gradients.end()) continue;
    const auto at = gradient->place();
    side.tensors[at] = {tensor.first.get(), tensor.type, tensor.shape};
    side.arithmetic[at] = loaded.call().arithmetic();
    digests_["original"][at] = tensor.digest;
    if (original.runs < 2) continue;
    Repeats& repeats = repeats_["original"];
    repeats.runs = original.runs;
    repeats.distinct[at] = tensor.distinct;
    repeats.spread[at] = tensor.spread;
  }
}

std::vector<analysis::Side> Replays::others() const {
  std::vector<analysis::Side> sides;
  if (original_) sides.push_back(*original_);
  for (const OwnedSide& owned : others_) sides.push_back(owned.side);
  return sides;
}

}  // namespace msda::replay
