// How the tensors of two calls differ, of which the recorder kept the data or only its own digests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "replay/diff/differences.h"

namespace msda::replay {

// A tensor of a call: its data are in the capture, or the recorder's digest of it, or both.
struct HeldTensor {
  std::string name;
  const capture::TensorInfo* info = nullptr;
  std::string digest;  // the recorder's: "float32 4x5440x8x32 0123..."
};

// Those of "inputs", "outputs_before" or "outputs", and of a result if its tensors are given.
std::vector<HeldTensor> held_tensors(const capture::Invocation& invocation, const std::string& section,
                                     const std::vector<capture::TensorInfo>& recorded);

// Nothing if they have the same bits.
std::optional<Difference> differing_tensors(const capture::IsolatedReader& reader_a, const HeldTensor& a,
                                            const capture::IsolatedReader& reader_b, const HeldTensor& b);

// One that the other side lacks.
std::string tensor_text(const HeldTensor& tensor);

}  // namespace msda::replay
