// A recorded call made smaller: its inputs, and what each side's gradients then are.
//
// An element of a gradient that depends only on unchanged inputs keeps its recorded bits: that is exact. If an input
// that it depends on was cut or changed, the side's own arithmetic is run again on the smaller call: nobody knows what
// the recorded kernel would have returned.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/model/call.h"
#include "analysis/model/material.h"
#include "analysis/model/owned_side.h"

namespace msda::analysis {

// How the gradients are computed that lose their recorded bits.
struct Replayed {
  // Stages in float64, as msda_options has them: kernels may round less than ours, by fused multiply-adds.
  uint32_t recorded_stages = 0, reference_stages = 0;
  msda_mode mode = MSDA_MODE_DETERMINISTIC;  // or atomic: of the recorded side, without such stages
  uint64_t seed = 0;
  bool adds_before = false;  // the recorded kernel adds to what the buffer of a scattered gradient held
};

// Returns the options with which the side is computed again.
msda_options options_of(const Replayed& replayed, const Side& side);

// From the recorded call to a smaller one.
struct Recipe {
  Kept kept;                     // by cut
  std::optional<Inputs> inputs;  // in place of what `kept` leaves of the inputs: with other numbers, smaller images
  bool moved = false;            // elements of these inputs are no longer those of the recorded call, one by one
  Replayed replayed;
};

// Elements of a tensor of the smaller call that were computed again.
struct ReplayedElements {
  std::string side, tensor;
  int64_t elements = 0, total = 0;
  std::vector<int64_t> whole;  // their numbers in the whole call, unless they have moved
};

// Owns everything that its material refers to. Not to be copied or moved.
struct SmallCall {
  Inputs inputs;
  std::vector<OwnedTensor> tensors;  // of gradients
  std::vector<OwnedSide> replays;
  Material material;
  std::vector<ReplayedElements> replayed;  // without those of which there are none
  Tensor before(Gradient gradient) const { return material.before[gradient.place()]; }
};

// Returns `threads`, but 1 for a small call: threads take longer to begin than it takes.
int threads_for(const Inputs& inputs, int threads);

// Makes smaller calls of one recorded call, whose material must outlive it.
class SmallCalls {
 public:
  SmallCalls(const Material& whole, int threads) : whole_(whole), threads_(threads), cache_(whole.call->new_cache()) {}

  Recipe unchanged() const;
  std::unique_ptr<SmallCall> make(const Recipe& recipe) const;
  // From now on only calls are made that are smaller than this one, or have rounder numbers: what lost its recorded
  // bits in it has lost them for good.
  void only_smaller_than(const SmallCall& small);
  // Returns the number of an element of the whole call in the smaller one. -1: it was cut, or the elements have moved.
  int64_t small_flat(const Recipe& recipe, Gradient gradient, int64_t flat) const;

 private:
  struct Unchanged;
  Unchanged unchanged_inputs(const Recipe& recipe, const SmallCall& small) const;
  Side make_side(const Recipe& recipe, const Side& whole, const Unchanged& unchanged, SmallCall& small) const;
  bool keeps_bits(const Side& side, const ElementId& id, const Unchanged& unchanged) const;

  const Material& whole_;
  int threads_;
  std::unique_ptr<Cache> cache_;
  std::map<std::pair<std::string, std::string>, std::vector<bool>> lost_;  // by side and tensor: elements of the whole
};

}  // namespace msda::analysis
