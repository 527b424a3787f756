#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/roi_align.h"
#include "kernels/cuda/roi_tiles.cuh"

namespace msda::kernels::cuda {
namespace {

template <class Stored, class Real>
void run(const CheckedRoiAlign& checked, const Input& boxes, const Input& grad_output, Result grad_input,
         cudaStream_t stream) {
  // Of shared memory: more would leave a processor fewer blocks than it can have otherwise.
  constexpr int64_t kRoom = 24 << 10;
  RoiCall<Stored> p{};
  static_cast<RoiSizes&>(p) = checked;
  p.boxes = boxes.data<Stored>();
  p.grad_output = grad_output.data<Stored>();
  p.grad_input = grad_input;
  p.tiles_across = static_cast<uint32_t>((p.sides[0] + kRoiWide - 1) / kRoiWide);
  p.tiles_down = static_cast<uint32_t>((p.sides[1] + kRoiHigh - 1) / kRoiHigh);
  p.most_bins = std::max(p.bins[0], p.bins[1]);
  const int64_t bytes = RoiRoom<Real>::bytes_of_box(p.bins_of_box(), p.most_bins);
  p.together = static_cast<int>(std::clamp<int64_t>(kRoom / bytes, 1, 8));
  const auto kernel = roi_tiles_kernel<Stored, Real>;
  allow_shared(kernel);
  const auto tiles = static_cast<unsigned>(p.N * p.tiles_across * p.tiles_down),
             channels = static_cast<unsigned>((p.C + kRoiChannels - 1) / kRoiChannels);
  launch("roi_tiles_kernel", kernel, dim3(tiles, channels), kRoiThreads, p.together * bytes, stream, p);
}

}  // namespace

void roi_align_backward(const CheckedRoiAlign& checked, const Input& boxes, const Input& grad_output, msda_dtype dtype,
                        bool float64, Result grad_input, cudaStream_t stream) {
  if (checked.N == 0 || checked.C == 0) return;
  if (dtype == MSDA_FLOAT64) return run<double, double>(checked, boxes, grad_output, grad_input, stream);
  if (float64) return run<float, double>(checked, boxes, grad_output, grad_input, stream);
  if (dtype == MSDA_FLOAT16) return run<__half, float>(checked, boxes, grad_output, grad_input, stream);
  if (dtype == MSDA_BFLOAT16) return run<__nv_bfloat16, float>(checked, boxes, grad_output, grad_input, stream);
  run<float, float>(checked, boxes, grad_output, grad_input, stream);
}

}  // namespace msda::kernels::cuda
