// From ctc_loss's C structures to checked sizes, or an error that names what is wrong.
#pragma once

#include "kernels/checked/call.h"
#include "kernels/ctc_sum.h"

namespace msda::kernels {

// A sequence: its steps; the labels of its target, and where they are in `targets`.
struct CtcSequence {
  int32_t steps, labels;
  int64_t first;
};

struct CheckedCtcLoss : CtcSizes {
  std::vector<CtcSequence> sequences;
  int64_t target_step;  // from label to label, in elements
  int32_t most_labels;
  bool float64_inputs;
};

// Throws InvalidArgument.
CheckedCtcLoss check_ctc_loss(const msda_ctc_loss_call& call, const msda_tensor& grad_output,
                              const msda_tensor& grad_log_probs);

}  // namespace msda::kernels
