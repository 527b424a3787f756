// Tensors of the analysis as the capture's writer takes them.
#pragma once

#include <vector>

#include "analysis/model/call.h"
#include "recorder/capture/capture.h"

namespace msda::replay {

// Refers to the tensor's memory.
capture::TensorView view_of(const char* name, const analysis::Tensor& tensor);

// Returns the gradients that exist; `tensors` by gradient.
std::vector<capture::TensorView> gradients_of(const analysis::Call& call, const analysis::Tensor* tensors);

}  // namespace msda::replay
