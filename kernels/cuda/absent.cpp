// The GPU's functions of a library that is built without the CUDA toolkit: they report MSDA_UNAVAILABLE.
#include "kernels/ctc_loss.h"
#include "kernels/cuda_version.h"
#include "kernels/deform_conv2d.h"
#include "kernels/grid_sample.h"
#include "kernels/guarded.h"
#include "kernels/index_put.h"
#include "kernels/interpolate.h"
#include "kernels/max_pool.h"
#include "kernels/msda.h"
#include "kernels/roi_align.h"
#include "kernels/roi_pool.h"
#include "kernels/scatter_add.h"
#include "kernels/separable.h"

using namespace msda::kernels;  // NOLINT: the functions below are C

namespace {
msda_status absent() {
  return guarded([] { throw Unavailable("this libmsda was built without the CUDA toolkit"); });
}
}  // namespace

int32_t msda_cuda_device_count(void) { return 0; }
const char* msda_cuda_version(void) { return ""; }
msda_status msda_cuda_forward(const msda_call*, const msda_options*, const msda_tensor*, void*) { return absent(); }
msda_status msda_cuda_backward(const msda_call*, const msda_tensor*, const msda_options*, const msda_tensor*,
                               const msda_tensor*, const msda_tensor*, void*) {
  return absent();
}
msda_status msda_cuda_stages(const msda_call*, const msda_tensor*, const msda_options*,
                             const msda_tensor* const[MSDA_STAGE_COUNT], void*) {
  return absent();
}
msda_status msda_cuda_ctc_loss_backward(const msda_ctc_loss_call*, const msda_tensor*, const msda_options*,
                                        const msda_tensor*, void*) {
  return absent();
}
msda_status msda_cuda_deform_conv2d_backward(const msda_deform_conv2d_call*, const msda_options*, const msda_tensor*,
                                             const msda_tensor*, const msda_tensor*, const msda_tensor*, void*) {
  return absent();
}
msda_status msda_cuda_grid_sample_backward(const msda_grid_sample_call*, const msda_tensor*, const msda_options*,
                                           const msda_tensor*, const msda_tensor*, void*) {
  return absent();
}
msda_status msda_cuda_index_put(const msda_index_put_call*, void*) { return absent(); }
msda_status msda_cuda_interpolate_backward(const msda_interpolate_call*, const msda_options*, const msda_tensor*,
                                           void*) {
  return absent();
}
msda_status msda_cuda_max_pool_backward(const msda_max_pool_call*, const msda_options*, const msda_tensor*, void*) {
  return absent();
}
msda_status msda_cuda_roi_align_backward(const msda_roi_align_call*, const msda_options*, const msda_tensor*, void*) {
  return absent();
}
msda_status msda_cuda_roi_pool_backward(const msda_roi_pool_call*, const msda_options*, const msda_tensor*, void*) {
  return absent();
}
msda_status msda_cuda_scatter_add(const msda_scatter_add_call*, const msda_options*, const msda_tensor*, void*) {
  return absent();
}
msda_status msda_cuda_separable_backward(const msda_separable_call*, const msda_options*, const msda_tensor*, void*) {
  return absent();
}
