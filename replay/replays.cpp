#include "replay/replays.h"

#include <algorithm>
#include <set>

#include "analysis/compare.h"
#include "recorder/capture/digest.h"
#include "replay/errors.h"

namespace msda::replay {

using analysis::Gradient;
using analysis::Tensor;

namespace {

size_t bytes_of(const Tensor& tensor) {
  const size_t element = tensor.dtype == MSDA_FLOAT64 ? 8 : tensor.dtype == MSDA_FLOAT32 ? 4 : 2;
  return static_cast<size_t>(tensor.elements()) * element;
}

std::string digest_of(const Tensor& tensor) {
  return capture::digest({static_cast<const std::byte*>(tensor.data), bytes_of(tensor)});
}

// The type of a replay's gradient: float64 replays keep all they computed, others round as the recorded kernel did.
msda_dtype result_type(const LoadedCall& loaded, Gradient gradient, msda_mode mode) {
  if (mode == MSDA_MODE_FLOAT64) return MSDA_FLOAT64;
  if (const Tensor& recorded = loaded.recorded().of(gradient)) return recorded.dtype;
  switch (gradient) {
    case Gradient::kValue:
      return loaded.call().value.dtype;
    case Gradient::kSamplingLocations:
      return loaded.call().sampling_locations.dtype;
    default:
      return loaded.call().attention_weights.dtype;
  }
}

OwnedSide run(const LoadedCall& loaded, const std::string& name, const analysis::Conventions& conventions,
              const msda_options& options) {
  const analysis::Call& call = loaded.call();
  OwnedSide owned;
  owned.side.name = name;
  owned.side.conventions = conventions;
  msda_tensor results[3];
  for (const Gradient gradient : analysis::kGradients) {
    const auto at = static_cast<size_t>(gradient);
    Tensor& tensor = owned.side.tensors[at];
    tensor.dtype = result_type(loaded, gradient, options.mode);
    tensor.shape = gradient == Gradient::kValue               ? call.value.shape
                   : gradient == Gradient::kSamplingLocations ? call.sampling_locations.shape
                                                              : call.attention_weights.shape;
    owned.memory[at].reset(new std::byte[bytes_of(tensor)]);  // not make_unique: the kernel writes every byte
    tensor.data = owned.memory[at].get();
    owned.side.arithmetic[at] = options.mode == MSDA_MODE_FLOAT64 ? MSDA_FLOAT64 : call.arithmetic();
    results[at] = abi_tensor(tensor);
  }
  const analysis::AbiCall abi = abi_call(call, conventions);
  const msda_status status =
      msda_backward(&abi.call, &abi.grad_output, &options, &results[0], &results[1], &results[2]);
  if (status == MSDA_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status != MSDA_OK) throw std::runtime_error(msda_last_error());
  return owned;
}

}  // namespace

Replays::Replays(const LoadedCall& loaded, const ReplaySettings& settings,
                 const std::function<void(const std::string&)>& progress) {
  const analysis::Call& call = loaded.call();
  msda_options options{};
  options.threads = settings.threads;

  const auto add_digests = [&](const std::string& mode, const analysis::Side& side) {
    std::ranges::transform(side.tensors, digests_[mode].begin(), digest_of);
  };

  options.mode = MSDA_MODE_FLOAT64;
  progress("float64");
  float64_ = run(loaded, "float64", call.conventions, options);
  add_digests("float64", float64_.side);

  std::vector<msda_mode> modes = settings.modes;
  std::erase(modes, MSDA_MODE_FLOAT64);
  for (const msda_mode mode : modes) {
    const std::string name = msda_mode_name(mode);
    options.mode = mode;
    options.float64_stages = settings.float64_stages;
    options.seed = settings.seed;
    progress(name);
    others_.push_back(run(loaded, name, call.conventions, options));
    const analysis::Side& first = others_.back().side;
    add_digests(name, first);
    if (settings.repeat < 2) continue;
    Repeats& repeats = repeats_[name];
    std::array<std::set<std::string>, 3> seen;
    for (size_t i = 0; i < 3; ++i) seen[i].insert(digests_[name][i]);
    for (repeats.runs = 1; repeats.runs < settings.repeat; ++repeats.runs) {
      ++options.seed;
      progress(name + " " + std::to_string(repeats.runs + 1));
      const OwnedSide again = run(loaded, name, call.conventions, options);
      for (size_t i = 0; i < 3; ++i) {
        if (!seen[i].insert(digest_of(again.side.tensors[i])).second) continue;
        const auto compared = analysis::compare(again.side.tensors[i], first.tensors[i], {},
                                                analysis::NonFinite::kAsTorch, 0, settings.threads);
        repeats.spread[i] = std::max(repeats.spread[i], compared.max_abs);
      }
    }
    for (size_t i = 0; i < 3; ++i) repeats.distinct[i] = static_cast<int64_t>(seen[i].size());
  }

  if (call.conventions.dialect != MSDA_GRID_SAMPLE) {
    analysis::Conventions grid_sample = call.conventions;
    grid_sample.dialect = MSDA_GRID_SAMPLE;
    options = {};
    options.threads = settings.threads;
    progress("grid_sample");
    others_.push_back(run(loaded, "grid_sample", grid_sample, options));
  }
}

void Replays::add(const OriginalResult& original, const LoadedCall& loaded) {
  analysis::Side& side = original_.emplace();
  side.name = "original";
  side.conventions = loaded.call().conventions;
  for (const OriginalTensor& tensor : original.tensors) {
    const auto gradient =
        std::ranges::find_if(analysis::kGradients, [&](Gradient one) { return tensor.name == name_of(one); });
    if (gradient == std::end(analysis::kGradients)) continue;
    const auto at = static_cast<size_t>(*gradient);
    side.tensors[at] = {tensor.first.get(), dtype_of(tensor.type), tensor.shape};
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
