// The mode recorded_order: the gradients that add up samples, added in the order that is read from the recorded bits.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "replay/calls/loaded_call.h"
#include "replay/modes/replays.h"

namespace msda::replay {

// How far it came, of one gradient.
struct RecordedOrder {
  analysis::Gradient gradient;
  int64_t pixels = 0, in_order = 0;  // those with additions; those whose order was found
  int64_t equal = 0, total = 0;      // elements with the recorded bits; all
};

struct OrderedReplay {
  OwnedSide owned;  // "recorded_order", with those gradients alone
  std::vector<RecordedOrder> found;
  std::array<std::string, 3> digests;  // by gradient
};

// On the CPU. Pixels whose order is not found are added in the order of the samples. Throws Unavailable if nothing was
// recorded that has an order, or if the kernel's arithmetic is not known.
OrderedReplay replay_in_recorded_order(const LoadedCall& loaded, const std::string& kernel, int threads, uint64_t seed,
                                       const std::function<void(const std::string&)>& progress);

}  // namespace msda::replay
