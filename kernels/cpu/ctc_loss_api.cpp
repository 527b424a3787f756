// The C ABI of ctc_loss on the CPU.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kernels/checked/ctc_loss.h"
#include "kernels/checked/scatter.h"
#include "kernels/guarded.h"
#include "kernels/parallel.h"

namespace msda::kernels {
namespace {

template <class In, class Real>
class CtcRun {
 public:
  CtcRun(const CheckedCtcLoss& s, const msda_ctc_loss_call& call, const msda_tensor& grad_output)
      : s_(s),
        targets_(call.targets),
        log_probs_(call.log_probs),
        log_alpha_(call.log_alpha),
        loss_(call.neg_log_likelihood),
        grad_output_(grad_output) {
    for (int64_t b = 0; b < s.B; ++b) {
      for (int32_t i = 0; i < sequence(b).labels; ++i) {
        const int64_t label = label_of(b, i);
        if (label >= 0 && label < s.C) continue;
        throw InvalidArgument(fmt::format("targets: label {} of sequence {} is {}; there are {}", i, b, label, s.C));
      }
    }
  }

  // Writes the gradient of one sequence into `result`, [T,B,C].
  void compute(int64_t b, Real* result) const {
    const Real loss = static_cast<Real>(loss_.data()[b]), scale = static_cast<Real>(grad_output_.data()[b]);
    const std::vector<int64_t> labels = labels_of(b);
    std::vector<Real> beta(labels.size()), before(labels.size()), sums(static_cast<size_t>(s_.C));
    for (int64_t t = s_.T - 1; t >= 0; --t) {
      Real* const row = result + (t * s_.B + b) * s_.C;
      if (t >= sequence(b).steps) {
        std::fill_n(row, s_.C, Real(0));
        continue;
      }
      if (loss == Real(INFINITY)) {
        std::fill_n(row, s_.C, gradient_without_loss<Real>(s_.zero_infinity));
        continue;
      }
      before.swap(beta);
      find_beta(b, t, labels, before, beta);
      std::fill(sums.begin(), sums.end(), Real(0));
      sum_probabilities(b, t, labels, beta, loss, sums);
      for (int64_t c = 0; c < s_.C; ++c) row[c] = ctc_gradient(log_prob(b, t, c), sums[static_cast<size_t>(c)], scale);
    }
  }

 private:
  const CtcSequence& sequence(int64_t b) const { return s_.sequences[static_cast<size_t>(b)]; }
  int64_t label_of(int64_t b, int64_t i) const { return integer_at(targets_, sequence(b).first + i * s_.target_step); }
  Real log_prob(int64_t b, int64_t t, int64_t label) const {
    return static_cast<Real>(log_probs_.data()[(t * s_.B + b) * s_.C + label]);
  }
  // Returns the label of each position.
  std::vector<int64_t> labels_of(int64_t b) const {
    std::vector<int64_t> labels(static_cast<size_t>(2 * sequence(b).labels + 1), s_.blank);
    for (int32_t i = 0; i < sequence(b).labels; ++i) labels[static_cast<size_t>(2 * i + 1)] = label_of(b, i);
    return labels;
  }

  void find_beta(int64_t b, int64_t t, const std::vector<int64_t>& labels, const std::vector<Real>& next,
                 std::vector<Real>& beta) const {
    const size_t count = labels.size();
    const Real none(-INFINITY);
    for (size_t i = 0; i < count; ++i) {
      const Real of_label = log_prob(b, t, labels[i]);
      if (t == sequence(b).steps - 1) {
        beta[i] = i + 2 >= count ? of_label : none;
        continue;
      }
      const bool may_skip = i + 2 < count && labels[i + 2] != labels[i];
      beta[i] = log_beta(next[i], i + 1 < count ? next[i + 1] : none, may_skip ? next[i + 2] : none, of_label);
    }
  }

  // Sums up by label; the blank in lanes, which take pairs of positions, and the lanes by pairs.
  void sum_probabilities(int64_t b, int64_t t, const std::vector<int64_t>& labels, const std::vector<Real>& beta,
                         Real loss, std::vector<Real>& sums) const {
    const In* const alpha = log_alpha_.data() + (b * s_.T + t) * s_.positions;
    Real lanes[kCtcLanes] = {};
    for (size_t i = 0; i < labels.size(); ++i) {
      Real& sum = labels[i] == s_.blank ? lanes[i / 2 % kCtcLanes] : sums[static_cast<size_t>(labels[i])];
      sum = sum + ctc_probability(static_cast<Real>(alpha[i]), beta[i], loss, log_prob(b, t, labels[i]));
    }
    for (int step = 1; step < kCtcLanes; step *= 2) {
      for (int lane = 0; lane < kCtcLanes; lane += 2 * step) lanes[lane] = lanes[lane] + lanes[lane + step];
    }
    sums[static_cast<size_t>(s_.blank)] = lanes[0];
  }

  const CheckedCtcLoss& s_;
  msda_tensor targets_;
  const ContiguousInput<In> log_probs_, log_alpha_, loss_, grad_output_;
};

template <class In, class Real>
void ctc_loss_backward(const CheckedCtcLoss& s, const msda_ctc_loss_call& call, const msda_tensor& grad_output,
                       const msda_tensor& grad_log_probs, int32_t threads) {
  const CtcRun<In, Real> run(s, call, grad_output);
  ContiguousOutput<Real> result(grad_log_probs);
  parallel_for(s.B, thread_count(threads, s.B), [&](int64_t b, int) { run.compute(b, result.data()); });
  result.store();
}

}  // namespace
}  // namespace msda::kernels

using namespace msda::kernels;

msda_status msda_ctc_loss_backward(const msda_ctc_loss_call* call, const msda_tensor* grad_output,
                                   const msda_options* options, const msda_tensor* grad_log_probs) {
  return guarded([&] {
    if (call == nullptr || grad_output == nullptr || grad_log_probs == nullptr) {
      throw InvalidArgument("call, grad_output or grad_log_probs is a null pointer");
    }
    const msda_options chosen = plain_options("ctc_loss", options);
    const CheckedCtcLoss checked = check_ctc_loss(*call, *grad_output, *grad_log_probs);
    const auto run = [&](auto backward) { backward(checked, *call, *grad_output, *grad_log_probs, chosen.threads); };
    if (checked.float64_inputs) return run(ctc_loss_backward<double, double>);
    if (chosen.mode == MSDA_MODE_FLOAT64) return run(ctc_loss_backward<float, double>);
    run(ctc_loss_backward<float, float>);
  });
}
