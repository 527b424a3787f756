// The arithmetic of ctc_loss's backward pass. A target of L labels has 2*L+1 positions: a blank, its first label, a
// blank, ..., a blank.
#pragma once

#include "kernels/ctc_loss.h"
#include "kernels/exp_log.h"

namespace msda::kernels {

// Sizes and conventions of a call whose tensors have been checked against one another.
struct CtcSizes {
  int64_t T, B, C;
  int64_t positions;  // of log_alpha
  int64_t blank;
  bool zero_infinity;
};

inline constexpr int kCtcLanes = 32;  // in which the probabilities of a step's blanks are summed

inline namespace MSDA_ISA {

// The logarithm of the probability of the rest of a target from a position on, given that of the next step's positions.
template <class Real>
MSDA_HOST_DEVICE inline Real log_beta(Real same, Real next, Real after_next, Real log_prob) {
  return log_sum_exp(same, next, after_next) + log_prob;
}
// The probability of being at a position.
template <class Real>
MSDA_HOST_DEVICE inline Real ctc_probability(Real log_alpha, Real log_beta, Real loss, Real log_prob) {
  return exp_of(((log_alpha + log_beta) + loss) - log_prob);
}
// `probability`: of being at any position of the label.
template <class Real>
MSDA_HOST_DEVICE inline Real ctc_gradient(Real log_prob, Real probability, Real grad_output) {
  return (exp_of(log_prob) - probability) * grad_output;
}
// What all elements of a sequence without a finite loss get.
template <class Real>
MSDA_HOST_DEVICE inline Real gradient_without_loss(bool zero_infinity) {
  return zero_infinity ? Real(0) : Real(NAN);
}

}  // namespace MSDA_ISA
}  // namespace msda::kernels
