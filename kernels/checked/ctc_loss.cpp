#include "kernels/checked/ctc_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kernels/names.h"

namespace msda::kernels {
namespace {

void check_ctc_types(const msda_ctc_loss_call& call, const msda_tensor& grad_output) {
  const msda_dtype dtype = call.log_probs.dtype;
  for (const auto& [name, tensor] : {std::pair{"log_probs", &call.log_probs},
                                     {"neg_log_likelihood", &call.neg_log_likelihood},
                                     {"log_alpha", &call.log_alpha},
                                     {"grad_output", &grad_output}}) {
    if (tensor->dtype == dtype && (dtype == MSDA_FLOAT32 || dtype == MSDA_FLOAT64)) continue;
    throw InvalidArgument(
        fmt::format("{} has type {}; the tensors must all be float32, or all float64", name, name_of(tensor->dtype)));
  }
  if (!is_index(call.targets.dtype)) {
    throw InvalidArgument(fmt::format("targets has type {}, not int32 or int64", name_of(call.targets.dtype)));
  }
  if (call.lengths.dtype != MSDA_INT64) throw InvalidArgument("lengths must be of type int64");
}

// Returns a length of the sequence, from 0 to `most`.
int32_t length_of(const msda_tensor& lengths, int64_t which, int64_t sequence, int64_t most) {
  const int64_t length = integer_at(lengths, which * lengths.stride[0] + sequence * lengths.stride[1]);
  if (length >= 0 && length <= most) return static_cast<int32_t>(length);
  throw InvalidArgument(fmt::format("lengths: sequence {} has {} {}; at most {} fit in {}", sequence, length,
                                    which == 0 ? "steps" : "labels", most, which == 0 ? "log_probs" : "log_alpha"));
}

void find_sequences(const msda_ctc_loss_call& call, CheckedCtcLoss& checked) {
  const bool is_padded = call.targets.rank == 2;
  int64_t next = 0;  // label, if the targets come one after the other
  for (int64_t b = 0; b < checked.B; ++b) {
    const CtcSequence sequence{length_of(call.lengths, 0, b, checked.T),
                               length_of(call.lengths, 1, b, (checked.positions - 1) / 2),
                               is_padded ? b * call.targets.stride[0] : next * call.targets.stride[0]};
    next += sequence.labels;
    if ((is_padded ? sequence.labels : next) > call.targets.shape[call.targets.rank - 1]) {
      throw InvalidArgument(fmt::format("targets ends before the {} labels of sequence {}", sequence.labels, b));
    }
    checked.most_labels = std::max(checked.most_labels, sequence.labels);
    checked.sequences.push_back(sequence);
  }
}

}  // namespace

CheckedCtcLoss check_ctc_loss(const msda_ctc_loss_call& call, const msda_tensor& grad_output,
                              const msda_tensor& grad_log_probs) {
  check_ctc_types(call, grad_output);
  check_rank_and_sizes("log_probs", call.log_probs, 3);
  check_rank_and_sizes("log_alpha", call.log_alpha, 3);
  CheckedCtcLoss checked{};
  checked.T = call.log_probs.shape[0];
  checked.B = call.log_probs.shape[1];
  checked.C = call.log_probs.shape[2];
  checked.positions = call.log_alpha.shape[2];
  if (checked.T > std::numeric_limits<int32_t>::max()) throw InvalidArgument("log_probs has more than 2^31 steps");
  check_exact_shape("log_alpha", call.log_alpha, {checked.B, checked.T, checked.positions});
  if (checked.positions < 1 || (checked.B * checked.T > 0 && !is_contiguous(call.log_alpha))) {
    throw InvalidArgument("log_alpha must be contiguous, and have a position");
  }
  check_exact_shape("neg_log_likelihood", call.neg_log_likelihood, {checked.B});
  check_exact_shape("grad_output", grad_output, {checked.B});
  check_exact_shape("lengths", call.lengths, {2, checked.B});
  check_rank_and_sizes("targets", call.targets, call.targets.rank == 1 ? 1 : 2);
  if (call.targets.rank == 2) check_exact_shape("targets", call.targets, {checked.B, call.targets.shape[1]});
  if (call.blank < 0 || call.blank >= checked.C) {
    throw InvalidArgument(fmt::format("blank is {}; there are {} labels", call.blank, checked.C));
  }
  check_result("grad_log_probs", grad_log_probs, shape_of(call.log_probs));
  checked.blank = call.blank;
  checked.zero_infinity = call.zero_infinity != 0;
  checked.target_step = call.targets.stride[call.targets.rank - 1];
  checked.float64_inputs = call.log_probs.dtype == MSDA_FLOAT64;
  find_sequences(call, checked);
  return checked;
}

}  // namespace msda::kernels
