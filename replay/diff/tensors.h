// How the tensors of two calls differ, if the recorder kept the data or only its own digests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "replay/diff/differences.h"

namespace msda::replay {

// A tensor of a call: the capture holds its data, or the recorder's digest of it, or both.
struct HeldTensor {
  std::string name;
  const capture::TensorInfo* info = nullptr;
  std::string digest;  // the recorder's: "float32 4x5440x8x32 0123..."
};

// Returns the tensors of "inputs", "outputs_before" or "outputs", or those of a result if they are given.
std::vector<HeldTensor> held_tensors(const capture::Invocation& invocation, const std::string& section,
                                     const std::vector<capture::TensorInfo>& recorded);

// Returns nothing if they have the same bits.
std::optional<Difference> differing_tensors(const capture::IsolatedReader& reader_a, const HeldTensor& a,
                                            const capture::IsolatedReader& reader_b, const HeldTensor& b);

// Describes a tensor that the other side lacks.
std::string tensor_text(const HeldTensor& tensor);

}  // namespace msda::replay
