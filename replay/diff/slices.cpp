#include "replay/diff/slices.h"

#include <algorithm>

#include "analysis/model/owned_side.h"
#include "kernels/names.h"

namespace msda::replay {
namespace {

// Returns what keeps only this batch: the batch is the first of a call's cuts.
analysis::Kept only_batch(const analysis::Call& call, int64_t batch) {
  analysis::Kept kept;
  for (const auto& cut : call.cuts()) kept.push_back(analysis::all_indices(cut.size));
  kept.front() = {batch};
  return kept;
}

analysis::Inputs inputs_of(const analysis::Call& call, int64_t batch) {
  const analysis::Kept kept = only_batch(call, batch);
  analysis::Inputs inputs;
  for (const auto& [name, tensor] : call.all_inputs()) {
    inputs.push_back(analysis::sliced(name, tensor, call.kept_of(name, kept)));
  }
  return inputs;
}

bool are_equal(const analysis::Inputs& a, const analysis::Inputs& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape && x.bytes == y.bytes;
  });
}

analysis::OwnedTensor gradient_of(const analysis::Call& call, const analysis::Side& side, analysis::Gradient gradient,
                                  int64_t batch) {
  return analysis::sliced(gradient.name(), side.of(gradient), call.kept_of(gradient.name(), only_batch(call, batch)));
}

int64_t different_elements(const analysis::OwnedTensor& a, const analysis::OwnedTensor& b) {
  const auto size = static_cast<size_t>(kernels::bytes_of(a.dtype));
  int64_t different = 0;
  for (size_t at = 0; at < a.bytes.size(); at += size) {
    different += !std::equal(a.bytes.begin() + static_cast<std::ptrdiff_t>(at),
                             a.bytes.begin() + static_cast<std::ptrdiff_t>(at + size),
                             b.bytes.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return different;
}

}  // namespace

std::vector<EqualBatches> equal_batches(const analysis::Call& call_a, const analysis::Side& recorded_a,
                                        const analysis::Call& call_b, const analysis::Side& recorded_b) {
  std::vector<EqualBatches> all;
  std::vector<analysis::Inputs> batches_a;
  for (int64_t a = 0; a < call_a.cuts().front().size; ++a) batches_a.push_back(inputs_of(call_a, a));
  for (int64_t b = 0; b < call_b.cuts().front().size; ++b) {
    const analysis::Inputs inputs = inputs_of(call_b, b);
    const auto found = std::ranges::find_if(batches_a, [&](const auto& of_a) { return are_equal(of_a, inputs); });
    if (found == batches_a.end()) continue;
    EqualBatches& equal = all.emplace_back();
    equal.a = found - batches_a.begin();
    equal.b = b;
    for (const auto gradient : call_a.gradients()) {
      if (!recorded_a.of(gradient) || !recorded_b.of(gradient)) continue;
      const auto of_a = gradient_of(call_a, recorded_a, gradient, equal.a);
      const auto of_b = gradient_of(call_b, recorded_b, gradient, b);
      if (of_a.dtype != of_b.dtype) continue;
      equal.gradients.push_back({gradient.name(), different_elements(of_a, of_b), of_a.view().elements()});
    }
  }
  return all;
}

std::vector<ReplayedBatches> replay_batches(const analysis::Call& call, const analysis::Side& recorded, uint64_t seed,
                                            int threads) {
  std::vector<ReplayedBatches> all;
  for (const msda_mode mode : {MSDA_MODE_DETERMINISTIC, MSDA_MODE_ATOMIC}) {
    ReplayedBatches& replayed = all.emplace_back();
    replayed.mode = kernels::name_of(mode);
    replayed.batches = call.cuts().front().size;
    msda_options options{};
    options.mode = mode;
    options.seed = seed;
    options.threads = threads;
    const auto replay = [&](const analysis::Call& part) {
      auto side = uncomputed_side(part, replayed.mode, mode, recorded);
      compute_on_cpu(part, options, side);
      return side;
    };
    const analysis::OwnedSide whole = replay(call);
    for (int64_t batch = 0; batch < replayed.batches; ++batch) {
      const analysis::Inputs inputs = inputs_of(call, batch);
      const auto alone = call.with_inputs(inputs);
      const analysis::OwnedSide of_batch = replay(*alone);
      const bool differs = std::ranges::any_of(call.gradients(), [&](analysis::Gradient gradient) {
        return different_elements(gradient_of(call, whole.side, gradient, batch),
                                  gradient_of(*alone, of_batch.side, gradient, 0)) > 0;
      });
      if (differs) replayed.different.push_back(batch);
    }
  }
  return all;
}

}  // namespace msda::replay
