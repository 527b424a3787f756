#include <algorithm>

#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/roi_align/operator.h"
#include "kernels/cuda/roi_align/tiles.cuh"
#include "kernels/names.h"

namespace msda::kernels::cuda {
namespace {

// Returns the arithmetic's type.
template <class Real>
msda_dtype dtype_of() {
  return sizeof(Real) == 8 ? MSDA_FLOAT64 : MSDA_FLOAT32;
}

int64_t blocks_of(int64_t items, int64_t each) { return (items + each - 1) / each; }

// How many warps a block has, and how many boxes each takes at a time.
struct RoiShape {
  int warps = kRoiMostWarps, together = 1;
  int64_t bytes_of_warp = 0;
};

template <class Stored, class Real>
class RoiRun {
 public:
  RoiRun(const CheckedRoiAlign& checked, const Input& boxes, const Input& grad_output, Result grad_input, Work& work)
      : device_(work.target().device()), grad_input_(grad_input), work_(work) {
    static_cast<RoiSizes&>(p_) = checked;
    p_.boxes = boxes.data<Stored>();
    p_.grad_output = grad_output.data<Stored>();
    divide_by(kRoiHigh);
    if (p_.tiles() * blocks_of(p_.C, kRoiChannels) < int64_t{kWarpsToFill} * device_.processors) divide_by(kRoiLow);
    // Tables of many boxes would take more memory than the call's tensors.
    constexpr int64_t kTableBytes = int64_t{64} << 20;
    const int64_t bytes_of_box = p_.sides_of_box() * int64_t{sizeof(uint32_t)} +
                                 (p_.weights_of_box() + kRoiListed * p_.sides_of_box()) * int64_t{sizeof(Real)} +
                                 p_.tiles() / 8 + 1;
    batch_ = std::max(kTableBytes / bytes_of_box / kBoxesOfWord, int64_t{1}) * kBoxesOfWord;
    batch_ = std::min(batch_, blocks_of(p_.K, kBoxesOfWord) * kBoxesOfWord);
    is_in_place_ = grad_input.dtype == dtype_of<Real>();
  }

  void run() {
    Workspace workspace(work_);
    RoiTables<Real> tables{};
    Real* totals = nullptr;
    const int64_t words = batch_ / kBoxesOfWord;
    workspace.want(tables.bins, batch_ * p_.sides_of_box());
    workspace.want(tables.weights, batch_ * p_.weights_of_box());
    workspace.want(tables.listed, batch_ * kRoiListed * p_.sides_of_box());
    workspace.want(tables.reach, p_.tiles() * words);
    if (p_.K > batch_ && !is_in_place_) workspace.want(totals, p_.N * p_.C * p_.pixels());
    workspace.take();
    if (is_in_place_) totals = static_cast<Real*>(grad_input_.data);
    for (int64_t first = 0; first < p_.K; first += batch_) {
      RoiCall<Stored> p = p_;
      p.boxes += first * 5;
      p.grad_output += first * p.C * p.bins_of_box();
      p.count = std::min(batch_, p.K - first);
      p.words = static_cast<uint32_t>(blocks_of(p.count, kBoxesOfWord));
      const bool is_last = first + batch_ >= p.K;
      add(p, tables, {first > 0 ? totals : nullptr, is_last ? grad_input_ : Result{totals, dtype_of<Real>()}});
    }
  }

 private:
  static constexpr int kWarpsToFill = 4 * kRoiMostWarps;  // a multiprocessor

  void divide_by(int32_t high) {
    p_.high = high;
    p_.tiles_across = static_cast<uint32_t>(blocks_of(p_.sides[0], kRoiWide));
    p_.tiles_down = static_cast<uint32_t>(blocks_of(p_.sides[1], high));
  }
  void add(const RoiCall<Stored>& p, const RoiTables<Real>& tables, const RoiSums<Real>& sums) {
    const int64_t blocks = p.count + blocks_of(p.tiles() * p.words, kRoiTableThreads / kWarp);
    launch("roi_tables_kernel", roi_tables_kernel<Stored, Real>, static_cast<unsigned>(blocks), kRoiTableThreads, 0,
           work_, p, tables);
    const auto kernel =
        p.high == kRoiHigh ? roi_tiles_kernel<kRoiHigh, Stored, Real> : roi_tiles_kernel<kRoiLow, Stored, Real>;
    const RoiShape shape = shape_of_blocks();
    allow_shared(kernel, work_.target());
    const auto channels = static_cast<unsigned>(blocks_of(p.C, shape.warps * kRoiChannels));
    launch("roi_tiles_kernel", kernel, dim3(static_cast<unsigned>(p.tiles()), channels), shape.warps * kWarp,
           shape.warps * shape.bytes_of_warp, work_, p, tables, sums, shape.together);
  }

  // Returns the shape. More boxes at a time hide more of the time that memory takes, but leave a processor fewer warps.
  RoiShape shape_of_blocks() const {
    constexpr int64_t kRoom = 48 << 10;
    RoiShape shape;
    shape.together = kWarp / p_.high;  // a lane reads a row of one of the boxes
    const auto bytes = [&] { return shape.bytes_of_warp = RoiRoom<Real>::bytes(p_, shape.together); };
    while (bytes() * shape.warps > kRoom && shape.together > 1) shape.together /= 2;
    while (bytes() * shape.warps > device_.shared_bytes && shape.warps > 1) shape.warps /= 2;
    return shape;
  }

  const Device device_;
  RoiCall<Stored> p_{};
  Result grad_input_;
  Work& work_;
  int64_t batch_ = 0;
  bool is_in_place_ = false;
};

template <class Stored, class Real>
void run(const CheckedRoiAlign& checked, const Input& boxes, const Input& grad_output, Result grad_input, Work& work) {
  RoiRun<Stored, Real>(checked, boxes, grad_output, grad_input, work).run();
}

}  // namespace

void roi_align_backward(const CheckedRoiAlign& checked, const Input& boxes, const Input& grad_output, msda_dtype dtype,
                        bool float64, Result grad_input, Work& work) {
  if (checked.N == 0 || checked.C == 0) return;
  if (checked.K == 0) {
    const int64_t bytes = checked.N * checked.C * checked.pixels() * bytes_of(grad_input.dtype);
    clear(grad_input.data, bytes, work);
    return;
  }
  if (dtype == MSDA_FLOAT64) return run<double, double>(checked, boxes, grad_output, grad_input, work);
  if (float64) return run<float, double>(checked, boxes, grad_output, grad_input, work);
  if (dtype == MSDA_FLOAT16) return run<__half, float>(checked, boxes, grad_output, grad_input, work);
  if (dtype == MSDA_BFLOAT16) return run<__nv_bfloat16, float>(checked, boxes, grad_output, grad_input, work);
  run<float, float>(checked, boxes, grad_output, grad_input, work);
}

}  // namespace msda::kernels::cuda
