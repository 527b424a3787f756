// Batch invariance: whether a batch gives the same bits alone, or among other batches, as together with the rest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/calls/loaded_call.h"

namespace msda::replay {

// A batch of one call and a batch of another, with inputs of the same bits.
struct EqualBatches {
  int64_t a = 0, b = 0;
  // A gradient that both recorded, and how many of its elements have other bits.
  struct Gradient {
    std::string tensor;
    int64_t different = 0, total = 0;
  };
  std::vector<Gradient> gradients;
};

// Pairs each batch of `b` with the first batch of `a` that has its inputs. Returns none if sizes or conventions differ.
std::vector<EqualBatches> equal_batches(const analysis::Call& call_a, const analysis::Side& recorded_a,
                                        const analysis::Call& call_b, const analysis::Side& recorded_b);

// Replays of every batch alone, on the CPU, compared with the replay of the whole call.
struct ReplayedBatches {
  std::string mode;
  int64_t batches = 0;
  std::vector<int64_t> different;  // batches in which some gradient has other bits
};
std::vector<ReplayedBatches> replay_batches(const analysis::Call& call, const analysis::Side& recorded, uint64_t seed,
                                            int threads);

}  // namespace msda::replay
