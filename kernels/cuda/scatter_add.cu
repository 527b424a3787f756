#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/scatter_add.h"
#include "kernels/cuda/scatter_sums.cuh"
#include "kernels/cuda/stable_sort.h"
#include "kernels/names.h"

namespace msda::kernels::cuda {
namespace {

constexpr int64_t kMostRowsOfGrid = 65535;

int64_t blocks_of(int64_t items, int64_t each) { return (items + each - 1) / each; }

template <class Stored, class Real>
class Run {
 public:
  Run(const CheckedScatter& checked, const Stored* source, const msda_tensor& sum, cudaStream_t stream)
      : index_(checked.index), sort_(checked.n, checked.rows), stream_(stream) {
    static_cast<ScatterSizes&>(p_) = checked;
    p_.source = source;
    p_.sum = sum;
    p_.is_plain = is_contiguous(sum);
    p_.is_whole =
        p_.is_plain && p_.D % 4 == 0 && reinterpret_cast<uintptr_t>(sum.data) % (4 * bytes_of(sum.dtype)) == 0;
    // Where most rows have no addends, one write of zeros is faster than a thread for each.
    clears_ = !checked.include_self && p_.is_plain && p_.n < p_.rows / 4;
    p_.is_clear = checked.include_self || clears_;
    while (p_.lanes() < kMostLanes && 4 * p_.lanes() < p_.D) ++p_.lanes_log;
    p_.slabs = blocks_of(p_.D, 4 * p_.lanes());
    // Where there are few rows, their lists are shared among more threads.
    const bool fills = p_.rows * p_.parts() * p_.lanes() >= int64_t{device_.processors} * kThreadsToFill;
    p_.longest = fills ? kLongest : kRun;
    most_lists_ = std::min(p_.rows, p_.n / (p_.longest + 1));
    most_tiles_ = most_lists_ + p_.n / kTile;
  }

  void run() {
    Workspace workspace(stream_);
    Real* sums = nullptr;
    uint2* ranges = nullptr;
    ScatterQueue queue{};
    sort_.want(workspace);
    workspace.want(ranges, p_.rows);
    workspace.want(queue.counters, 2);
    workspace.want(queue.lists, most_lists_);
    workspace.want(queue.list_of_tile, most_tiles_);
    if (p_.n > kTile) workspace.want(sums, most_tiles_ * p_.outer * p_.D);
    workspace.take();
    if (clears_) {
      const int64_t bytes = p_.outer * p_.rows * p_.D * bytes_of(p_.sum.dtype);
      check(cudaMemsetAsync(p_.sum.data, 0, static_cast<size_t>(bytes), stream_), "cudaMemsetAsync");
    }
    const ScatterLists lists = group(ranges, queue);
    sum_up(lists, queue, sums);
  }

 private:
  static constexpr int64_t kThreadsToFill = 256;
  static constexpr uint32_t kLongest = 256;
  static_assert(kLongest <= kTile);

  ScatterLists group(uint2* ranges, const ScatterQueue& queue) {
    launch("scatter_keys_kernel", scatter_keys_kernel, blocks_for(std::max(p_.n, p_.rows), kListThreads), kListThreads,
           0, stream_, static_cast<const ScatterSizes&>(p_), index_, sort_.keys(), sort_.numbers(), ranges,
           queue.counters);
    if (p_.n == 0) return {nullptr, ranges};
    const StableSort::Sorted sorted = sort_.sorted(stream_);
    launch("scatter_ranges_kernel", scatter_ranges_kernel, static_cast<unsigned>(blocks_of(p_.n, kListThreads)),
           kListThreads, 0, stream_, sorted.keys, p_.n, p_.rows, ranges);
    return {sorted.numbers, ranges};
  }

  void sum_up(const ScatterLists& lists, const ScatterQueue& queue, Real* sums) {
    const bool whole = p_.D % 4 == 0 && reinterpret_cast<uintptr_t>(p_.source) % sizeof(Four<Stored>) == 0;
    const auto parts = static_cast<unsigned>(std::min(p_.parts(), kMostRowsOfGrid));
    const auto rows = static_cast<unsigned>(blocks_of(p_.rows, kRowThreads >> p_.lanes_log));
    const auto of_rows = whole ? scatter_rows_kernel<true, Stored, Real> : scatter_rows_kernel<false, Stored, Real>;
    // A thread that takes several parts of a row reads its list once for all of them from memory.
    const int64_t wanted = blocks_of(32 * device_.processors * int64_t{kRowThreads}, p_.rows * p_.lanes());
    launch("scatter_rows_kernel", of_rows, dim3(rows, static_cast<unsigned>(std::min<int64_t>(parts, wanted))),
           kRowThreads, 0, stream_, p_, lists, queue);
    if (most_lists_ == 0) return;
    const int threads = kRun * p_.lanes();
    const auto blocks = [&](int64_t most) {
      return dim3(static_cast<unsigned>(std::min<int64_t>(most, 16 * device_.processors)), parts);
    };
    const auto of_tiles = whole ? scatter_tiles_kernel<true, Stored, Real> : scatter_tiles_kernel<false, Stored, Real>;
    launch("scatter_tiles_kernel", of_tiles, blocks(most_tiles_), threads, 0, stream_, p_, lists, queue, sums);
    if (p_.n <= kTile) return;
    launch("scatter_combine_kernel", scatter_combine_kernel<Stored, Real>, blocks(most_lists_), threads, 0, stream_, p_,
           lists, queue, static_cast<const Real*>(sums));
  }

  const Device device_;
  ScatterCall<Stored> p_{};
  msda_tensor index_;
  StableSort sort_;
  cudaStream_t stream_;
  int64_t most_lists_ = 0, most_tiles_ = 0;
  bool clears_ = false;
};

template <class Stored, class Real>
void run(const CheckedScatter& checked, const Input& source, const msda_tensor& sum, cudaStream_t stream) {
  Run<Stored, Real>(checked, source.data<Stored>(), sum, stream).run();
}

}  // namespace

void scatter_add(const CheckedScatter& checked, const Input& source, msda_dtype dtype, bool float64,
                 const msda_tensor& sum, cudaStream_t stream) {
  if (dtype == MSDA_FLOAT64) return run<double, double>(checked, source, sum, stream);
  if (float64) return run<float, double>(checked, source, sum, stream);
  if (dtype == MSDA_FLOAT16) return run<__half, float>(checked, source, sum, stream);
  if (dtype == MSDA_BFLOAT16) return run<__nv_bfloat16, float>(checked, source, sum, stream);
  run<float, float>(checked, source, sum, stream);
}

}  // namespace msda::kernels::cuda
