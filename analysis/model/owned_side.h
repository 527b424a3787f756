// Gradients of a call computed on the CPU, by the operator's kernels or by its definition.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "analysis/model/side.h"

namespace msda::analysis {

// A side that owns its tensors.
struct OwnedSide {
  Side side;
  std::array<std::unique_ptr<std::byte[]>, kMostGradients> memory;
};

// Bytes of a tensor's elements.
size_t bytes_of(const Tensor& tensor);

// Returns the type of a replay's gradient: float64 replays stay float64, others are rounded to the recorded kernel's
// type; that of the gradient's input where nothing was recorded.
msda_dtype result_type(const Call& call, const Side& recorded, Gradient gradient, msda_mode mode);

// Returns memory for every gradient, not yet computed: in the types of `types` where that has tensors. `alternative`:
// the call under other conventions, by which it is to be computed.
OwnedSide uncomputed_side(const Call& call, const std::string& name, msda_mode mode, const Side& types,
                          std::shared_ptr<const Call> alternative = nullptr);

// Computes the side's gradients under its conventions. Throws as Kernels::run_kernels().
void compute_on_cpu(const Call& call, const msda_options& options, OwnedSide& owned);

}  // namespace msda::analysis
