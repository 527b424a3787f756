#include <algorithm>

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/roi_pool/operator.h"
#include "kernels/cuda/roi_pool/planes.cuh"
#include "kernels/names.h"

namespace msda::kernels::cuda {
namespace {

int64_t parts_of(int64_t items, int64_t each) { return (items + each - 1) / each; }

template <class Stored, class Real>
class RoiPoolRun {
 public:
  RoiPoolRun(const RoiPoolCall<Stored>& p, Result grad_input, Work& work)
      : p_(p), grad_input_(grad_input), work_(work) {
    constexpr int64_t kTileBytes = 32 << 10, kTapBytes = int64_t{64} << 20, kFewPixels = 128, kManyTiles = 4096;
    // A tile's warp waits for memory most of the time: many hide that, though each reads all boxes.
    const int64_t wanted = std::min(parts_of(kManyTiles, p.N * p.C), parts_of(p.pixels(), kFewPixels));
    planes_.tiles = static_cast<uint32_t>(std::max(parts_of(p.pixels(), kTileBytes / int64_t{sizeof(Real)}), wanted));
    planes_.tile = static_cast<int32_t>(parts_of(p.pixels(), planes_.tiles));
    planes_.bins = Division(p.bins_of_box());
    batch_ = is_of_maxima() ? p.K : std::max(kTapBytes / RoiTaps<Real>::bytes_of_box(p), int64_t{1});
    batch_ = std::min(batch_, p.K);
  }

  void run() {
    Workspace workspace(work_);
    RoiTaps<Real> taps{};
    Real* totals = nullptr;
    if (!is_of_maxima()) {
      workspace.want(taps.counts, batch_ * p_.axes_of_box());
      workspace.want(taps.taps, batch_ * p_.taps_of_box());
    }
    const bool is_in_place = grad_input_.dtype == (sizeof(Real) == 8 ? MSDA_FLOAT64 : MSDA_FLOAT32);
    if (p_.K > batch_ && !is_in_place) workspace.want(totals, p_.N * p_.C * p_.pixels());
    workspace.take();
    if (is_in_place) totals = static_cast<Real*>(grad_input_.data);
    const Result in_between{totals, sizeof(Real) == 8 ? MSDA_FLOAT64 : MSDA_FLOAT32};
    for (int64_t first = 0; first < p_.K; first += batch_) {
      RoiPoolCall<Stored> p = p_;
      const int64_t channels = is_of_maxima() ? p.C * p.bins_of_box() : p.C;  // elements of a box's gradient
      p.boxes += first * 5;
      p.grad_output += first * channels;
      p.indices += first * channels;
      p.count = std::min(batch_, p.K - first);
      add(p, taps, {first > 0 ? totals : nullptr, first + batch_ >= p.K ? grad_input_ : in_between});
    }
  }

 private:
  bool is_of_maxima() const { return p_.pooling == MSDA_ROI_MAX; }
  void add(const RoiPoolCall<Stored>& p, const RoiTaps<Real>& taps, const RoiPoolSums<Real>& sums) {
    if (!is_of_maxima()) {
      const int64_t blocks = parts_of(p.count * p.axes_of_box(), kTapThreads / kWarp);
      launch("roi_taps_kernel", roi_taps_kernel<Stored, Real>, static_cast<unsigned>(blocks), kTapThreads, 0, work_, p,
             taps);
    }
    const auto kernel = is_of_maxima() ? roi_planes_kernel<true, Stored, Real> : roi_planes_kernel<false, Stored, Real>;
    const int64_t bytes = planes_.tile * int64_t{sizeof(Real)} + kWarp * int64_t{sizeof(uint32_t)};
    launch("roi_planes_kernel", kernel, static_cast<unsigned>(p.N * p.C * planes_.tiles), kWarp, bytes, work_, p,
           planes_, taps, sums);
  }

  RoiPoolCall<Stored> p_;
  Result grad_input_;
  Work& work_;
  RoiPlanes planes_{};
  int64_t batch_ = 0;
};

template <class Stored, class Real>
void run(const CheckedRoiPool& checked, const Input& boxes, const Input& grad_output, const int32_t* indices,
         Result grad_input, Work& work) {
  RoiPoolCall<Stored> p{};
  static_cast<RoiPoolSizes&>(p) = checked;
  p.boxes = boxes.data<Stored>();
  p.grad_output = grad_output.data<Stored>();
  p.indices = indices;
  RoiPoolRun<Stored, Real>(p, grad_input, work).run();
}

}  // namespace

void roi_pool_backward(const CheckedRoiPool& checked, const Input& boxes, const Input& grad_output,
                       const int32_t* indices, msda_dtype dtype, bool float64, Result grad_input, Work& work) {
  if (checked.N == 0 || checked.C == 0) return;
  if (checked.K == 0) {
    clear(grad_input.data, checked.N * checked.C * checked.pixels() * bytes_of(grad_input.dtype), work);
    return;
  }
  const auto with = [&](auto run) { run(checked, boxes, grad_output, indices, grad_input, work); };
  if (dtype == MSDA_FLOAT64) return with(run<double, double>);
  if (float64) return with(run<float, double>);
  if (dtype == MSDA_FLOAT16) return with(run<__half, float>);
  if (dtype == MSDA_BFLOAT16) return with(run<__nv_bfloat16, float>);
  with(run<float, float>);
}

}  // namespace msda::kernels::cuda
