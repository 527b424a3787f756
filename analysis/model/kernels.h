// Optional: the operator's own ways to compute its gradients. Without them evaluate() computes these by the operator's
// definition, element by element, and knows no mode `mixed`.
#pragma once

#include <memory>
#include <span>

#include "analysis/model/device_call.h"
#include "analysis/numbers/tensor.h"
#include "kernels/msda.h"

namespace msda::analysis {

class Kernels {
 public:
  virtual ~Kernels() = default;

  // Intermediate tensors whose precision the mode `mixed` chooses, in the order of msda_options::float64_stages.
  virtual std::span<const char* const> float64_stages() const { return {}; }
  // Computes the gradients into `results`, by place, on the CPU. Throws std::bad_alloc, or std::runtime_error with
  // libmsda's message.
  virtual void run_kernels(const msda_options& options, std::span<const Tensor> results) const = 0;
  // Returns the same for a GPU; null if there are no kernels for one.
  virtual std::unique_ptr<DeviceCall> device_call(const msda_options&, std::span<const Tensor>) const {
    return nullptr;
  }
};

}  // namespace msda::analysis
