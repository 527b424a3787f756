// The sides of a comparison: gradients of one call, from several sources.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "analysis/model/call.h"
#include "analysis/model/narrowing.h"

namespace msda::analysis {

// Where gradients come from. The name does not decide it, because results in a capture may have any name.
enum class Source { kRecorded, kStored, kReplay };

// Gradients from one source: "recorded", "reference", "deterministic", "float64", a dialect, ...
struct Side {
  std::string name;
  Source source = Source::kReplay;
  std::shared_ptr<const Call> alternative;  // the call under the conventions of the side; null: under the recorded
  Tensor tensors[kMostGradients];           // by Gradient; without data: the side does not have it
  msda_dtype arithmetic[kMostGradients] = {MSDA_FLOAT32, MSDA_FLOAT32, MSDA_FLOAT32};  // in which it computes each
  std::optional<FoundNarrowing> narrowing[kMostGradients];  // of less precision than that, if found

  const Tensor& of(Gradient gradient) const { return tensors[gradient.place()]; }
  msda_dtype arithmetic_of(Gradient gradient) const { return arithmetic[gradient.place()]; }
  const FoundNarrowing* narrowing_of(Gradient gradient) const {
    const auto& found = narrowing[gradient.place()];
    return found ? &*found : nullptr;
  }
  // Returns the side as if it computed the gradient in this arithmetic.
  Side in(msda_dtype dtype, Gradient gradient) const {
    Side side = *this;
    side.arithmetic[gradient.place()] = dtype;
    return side;
  }
  bool is_replay(std::string_view mode) const { return source == Source::kReplay && name == mode; }
  // Returns whether the side is what tests compare with (Dialects::in_dialect_of_tests()), and not a mode.
  bool is_replay_beside() const { return source == Source::kReplay && alternative != nullptr; }
  // Returns the call under the conventions of the side.
  const Call& version_of(const Call& recorded) const { return alternative ? *alternative : recorded; }
  bool is_deterministic() const { return is_replay("deterministic"); }
};

}  // namespace msda::analysis
