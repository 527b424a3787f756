#include <algorithm>

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/ctc_loss/operator.h"
#include "kernels/cuda/ctc_loss/sums.cuh"

namespace msda::kernels::cuda {
namespace {

template <class Stored, class Real>
class CtcRun {
 public:
  CtcRun(const CheckedCtcLoss& checked, const msda_ctc_loss_call& call, const msda_tensor& grad_output, Work& work)
      : checked_(checked), work_(work) {
    static_cast<CtcSizes&>(p_) = checked;
    p_.log_probs = static_cast<const Stored*>(call.log_probs.data);
    p_.log_alpha = static_cast<const Stored*>(call.log_alpha.data);
    p_.loss = static_cast<const Stored*>(call.neg_log_likelihood.data);
    p_.grad_output = static_cast<const Stored*>(grad_output.data);
    std::copy_n(call.log_probs.stride, 3, p_.log_probs_stride);
    p_.loss_stride = call.neg_log_likelihood.stride[0];
    p_.grad_output_stride = grad_output.stride[0];
    p_.targets = call.targets;
    p_.target_step = checked.target_step;
  }

  void run(Result grad_log_probs) {
    const int64_t batch = std::min<int64_t>(p_.B, kCtcBatch);
    CtcFound<Real> found{};
    Workspace workspace(work_);
    workspace.want(found.beta, batch * p_.T * p_.positions);
    workspace.want(found.next, batch * (p_.positions / 2));
    workspace.want(found.heads, batch * (p_.positions / 2));
    workspace.take();
    for (p_.first = 0; p_.first < p_.B; p_.first += batch) {
      const int64_t count = std::min(batch, p_.B - p_.first);
      std::fill(std::begin(p_.sequences), std::end(p_.sequences), CtcSequence{});
      std::copy_n(checked_.sequences.begin() + p_.first, count, p_.sequences);
      launch_beta(static_cast<unsigned>(count), found);
      const auto kernel = ctc_sums_kernel<Stored, Real>;
      allow_shared(kernel, work_.target());
      launch("ctc_sums_kernel", kernel, static_cast<unsigned>(count * p_.T), kCtcThreads,
             positions() * int64_t{sizeof(Real)}, work_, p_, found, grad_log_probs);
    }
  }

 private:
  int32_t positions() const { return 2 * checked_.most_labels + 1; }

  void launch_beta(unsigned sequences, const CtcFound<Real>& found) {
    const int64_t bytes = 2 * positions() * int64_t{sizeof(Real)};
    const int threads = std::min((positions() + kWarp - 1) / kWarp * kWarp, kCtcMostThreads);
    const bool is_shared = bytes <= kSharedWithoutAsking;
    const auto kernel = positions() <= kCtcMostThreads ? ctc_beta_kernel<1, true, Stored, Real>
                        : is_shared                    ? ctc_beta_kernel<6, true, Stored, Real>
                                                       : ctc_beta_kernel<16, false, Stored, Real>;
    static_assert(kSharedWithoutAsking / (2 * sizeof(float)) <= 6 * kCtcMostThreads);
    launch("ctc_beta_kernel", kernel, sequences, threads, is_shared ? bytes : 0, work_, p_, found);
  }

  const CheckedCtcLoss& checked_;
  CtcCall<Stored> p_{};
  Work& work_;
};

}  // namespace

void ctc_loss_backward(const CheckedCtcLoss& checked, const msda_ctc_loss_call& call, const msda_tensor& grad_output,
                       bool float64, Result grad_log_probs, Work& work) {
  static_assert(2 * kMostCtcLabels + 1 <= 16 * kCtcMostThreads);
  if (checked.T == 0 || checked.B == 0) return;
  if (checked.float64_inputs) return CtcRun<double, double>(checked, call, grad_output, work).run(grad_log_probs);
  if (float64) return CtcRun<float, double>(checked, call, grad_output, work).run(grad_log_probs);
  CtcRun<float, float>(checked, call, grad_output, work).run(grad_log_probs);
}

}  // namespace msda::kernels::cuda
