/* msda.h used from C. */
#include "kernels/msda.h"

int msda_test_call_from_c(float* grad_sampling_locations);

int msda_test_call_from_c(float* grad_sampling_locations) {
  float value[2] = {1, 3}, location[2] = {0.5f, 0.5f}, attention[1] = {0.5f}, grad_output[1] = {4};
  int64_t sides[2] = {1, 2};
  const int64_t value_shape[4] = {1, 2, 1, 1}, sides_shape[2] = {1, 2}, one[6] = {1, 1, 1, 1, 1, 2};
  msda_call call = {0};
  msda_tensor go, gradient;
  call.dialect = MSDA_DEFORMABLE_DETR;
  call.value = msda_contiguous(value, MSDA_FLOAT32, 4, value_shape);
  call.spatial_shapes = msda_contiguous(sides, MSDA_INT64, 2, sides_shape);
  call.sampling_locations = msda_contiguous(location, MSDA_FLOAT32, 6, one);
  call.attention_weights = msda_contiguous(attention, MSDA_FLOAT32, 5, one);
  go = msda_contiguous(grad_output, MSDA_FLOAT32, 4, one);
  gradient = msda_contiguous(grad_sampling_locations, MSDA_FLOAT32, 6, one);
  return (int)msda_backward(&call, &go, 0, 0, &gradient, 0);
}
