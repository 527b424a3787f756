#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/stable_sort.h"
#include "kernels/cuda/scatter/bucket_sums.cuh"
#include "kernels/cuda/scatter/operator.h"
#include "kernels/names.h"

namespace msda::kernels::cuda {
namespace {

constexpr int64_t kMostRowsOfGrid = 65535;
constexpr int64_t kOther = sizeof(DealtEntries::Pieces) + 64;  // what kernels of buckets declare beside sums of runs

int64_t blocks_of(int64_t items, int64_t each) { return (items + each - 1) / each; }

template <class Stored, class Real>
class Run {
 public:
  Run(const CheckedScatter& checked, const Stored* source, const msda_tensor& sum, Work& work)
      : device_(work.target().device()),
        index_(checked.index),
        buckets_(checked.n, checked.rows, device_.processors, !checked.by_elements && finds(checked.n)),
        work_(work) {
    static_cast<ScatterSizes&>(p_) = checked;
    p_.source = source;
    p_.sum = sum;
    p_.is_plain = is_contiguous(sum);
    p_.is_whole =
        p_.is_plain && p_.D % 4 == 0 && reinterpret_cast<uintptr_t>(sum.data) % (4 * bytes_of(sum.dtype)) == 0;
    reads_whole_ = p_.D % 4 == 0 && reinterpret_cast<uintptr_t>(source) % sizeof(Four<Stored>) == 0;
    // Where most rows have no addends, one write of zeros is faster than a thread for each.
    clears_ = !checked.include_self && p_.is_plain && p_.n < p_.rows / 4;
    p_.is_clear = checked.include_self || clears_;
    while (p_.lanes() < kMostLanes && 4 * p_.lanes() < p_.D) ++p_.lanes_log;
    p_.slabs = blocks_of(p_.D, 4 * p_.lanes());
    // Where there are few rows, their lists are shared among more threads.
    const bool fills = p_.rows * p_.parts() * p_.lanes() >= int64_t{device_.processors} * kThreadsToFill;
    p_.longest = fills ? kLongest : kRun;
  }

  void run() {
    if (clears_) {
      const int64_t bytes = p_.outer * p_.rows * p_.D * bytes_of(p_.sum.dtype);
      clear(p_.sum.data, bytes, work_);
    }
    if (!buckets_.fit()) return by_sorting();
    if (buckets_.segments == 0) return at_once();
    by_buckets();
  }

 private:
  static constexpr int64_t kThreadsToFill = 256;
  static constexpr uint32_t kLongest = 256;
  static_assert(kLongest <= kTile);

  // Lists that several blocks sum up, and the memory for that.
  struct LongLists {
    ScatterQueue queue{};
    uint2* ranges = nullptr;
    Real* sums = nullptr;
    int64_t most = 0, most_tiles = 0;
  };
  // Asks for memory for lists longer than `longest`, and for `counters` counters.
  void want(LongLists& lists, int64_t longest, int64_t counters, Workspace& workspace) {
    lists.most = std::min(p_.rows, p_.n / (longest + 1));
    lists.most_tiles = lists.most + p_.n / kTile;
    workspace.want(lists.ranges, p_.rows);
    workspace.want(lists.queue.counters, counters);
    workspace.want(lists.queue.lists, lists.most);
    workspace.want(lists.queue.list_of_tile, lists.most_tiles);
    workspace.want(lists.queue.done, lists.most * p_.parts());
    if (p_.n > kTile) workspace.want(lists.sums, lists.most_tiles * p_.outer * p_.D);
  }

  void by_sorting() {
    Workspace workspace(work_);
    StableSort<uint32_t> sort(p_.n, p_.rows);
    LongLists long_lists;
    sort.want(workspace);
    want(long_lists, p_.longest, 2, workspace);
    workspace.take();
    const ScatterLists lists = sorted(sort, long_lists);
    const auto of_rows =
        reads_whole_ ? scatter_rows_kernel<true, Stored, Real> : scatter_rows_kernel<false, Stored, Real>;
    const auto rows = static_cast<unsigned>(blocks_of(p_.rows, kRowThreads >> p_.lanes_log));
    // A thread that takes several parts of a row reads its list once for all of them from memory.
    const int64_t wanted = blocks_of(32 * device_.processors * int64_t{kRowThreads}, p_.rows * p_.lanes());
    launch("scatter_rows_kernel", of_rows, dim3(rows, static_cast<unsigned>(std::min<int64_t>(parts(), wanted))),
           kRowThreads, 0, work_, p_, lists, long_lists.queue);
    sum_long(lists, long_lists);
  }
  ScatterLists sorted(StableSort<uint32_t>& sort, const LongLists& long_lists) {
    launch("scatter_keys_kernel", scatter_keys_kernel, blocks_for(std::max(p_.n, p_.rows), kListThreads), kListThreads,
           0, work_, static_cast<const ScatterSizes&>(p_), index_, sort.keys(), sort.numbers(), long_lists.ranges,
           long_lists.queue.counters);
    if (p_.n == 0) return {nullptr, long_lists.ranges};
    const StableSort<uint32_t>::Sorted sorted = sort.sorted(work_);
    launch("scatter_ranges_kernel", scatter_ranges_kernel, static_cast<unsigned>(blocks_of(p_.n, kListThreads)),
           kListThreads, 0, work_, sorted.keys, p_.n, p_.rows, long_lists.ranges);
    return {sorted.numbers, long_lists.ranges};
  }

  static int64_t bytes_to_find(int64_t n, int64_t rows) {
    return (places_to_find<Real>(n) + n) * int64_t{sizeof(uint32_t)} + BucketCounts::bytes_of(rows);
  }
  // Returns whether a block's memory is enough to look through an index of `n`.
  bool finds(int64_t n) const { return bytes_to_find(n, kMostRowsOfBucket) + kOther <= device_.shared_bytes; }
  void at_once() {
    const auto kernel =
        reads_whole_ ? scatter_at_once_kernel<true, Stored, Real> : scatter_at_once_kernel<false, Stored, Real>;
    launch_buckets("scatter_at_once_kernel", kernel, bytes_to_find(p_.n, buckets_.rows), kOther, p_, index_, buckets_);
  }

  void by_buckets() {
    Workspace workspace(work_);
    LongLists long_lists;
    Dealt dealt{};
    Spilled spilled{};
    workspace.want(dealt.entries, buckets_.segments * kSegment);
    workspace.want(dealt.pieces, int64_t{buckets_.segments} * buckets_.count);
    workspace.want(spilled.rows, p_.n * bucket_parts());
    want(long_lists, kTile, 3, workspace);
    workspace.take();
    spilled.taken = long_lists.queue.counters + 2;
    spilled.queue = long_lists.queue;
    spilled.ranges = long_lists.ranges;
    const int64_t bytes = BucketCounts::bytes_of(buckets_.count);
    if (bytes > kSharedWithoutAsking - kOther) allow_shared(scatter_deal_kernel, work_.target());
    launch("scatter_deal_kernel", scatter_deal_kernel, buckets_.segments, kBucketThreads, bytes, work_,
           static_cast<const ScatterSizes&>(p_), index_, buckets_, dealt, long_lists.queue.counters);
    const auto kernel =
        reads_whole_ ? scatter_buckets_kernel<true, Stored, Real> : scatter_buckets_kernel<false, Stored, Real>;
    const int64_t held = kHeld * int64_t{sizeof(uint32_t)} + BucketCounts::bytes_of(buckets_.rows);
    launch_buckets("scatter_buckets_kernel", kernel, held, kOther + int64_t{sizeof(RunSums<Real>)}, p_, buckets_, dealt,
                   spilled);
    sum_long({spilled.rows, long_lists.ranges}, long_lists);
  }

  // Returns how many blocks share a bucket: if there are few buckets, several blocks of each, which take parts of its
  // rows, occupy the device. Each block of dealt entries has lists of its own in memory.
  int64_t bucket_parts() const {
    constexpr int64_t kMostLists = 8;
    const int64_t wanted = blocks_of(4 * device_.processors, buckets_.count);
    return std::min(parts(), buckets_.segments == 0 ? wanted : std::min(wanted, kMostLists));
  }
  // `bytes` of shared memory beside what the kernel declares, at most `declared`.
  template <class... Parameters, class... Arguments>
  void launch_buckets(const char* name, void (*kernel)(Parameters...), int64_t bytes, int64_t declared,
                      const Arguments&... arguments) {
    if (bytes + declared > kSharedWithoutAsking) allow_shared(kernel, work_.target());
    launch(name, kernel, dim3(buckets_.count, static_cast<unsigned>(bucket_parts())), kBucketThreads, bytes, work_,
           arguments...);
  }

  void sum_long(const ScatterLists& lists, const LongLists& long_lists) {
    if (long_lists.most == 0) return;
    const auto kernel =
        reads_whole_ ? scatter_tiles_kernel<true, Stored, Real> : scatter_tiles_kernel<false, Stored, Real>;
    const dim3 blocks(static_cast<unsigned>(std::min<int64_t>(long_lists.most_tiles, 16 * device_.processors)),
                      static_cast<unsigned>(parts()));
    launch("scatter_tiles_kernel", kernel, blocks, kRun * p_.lanes(), 0, work_, p_, lists, long_lists.queue,
           long_lists.sums);
  }

  int64_t parts() const { return std::min(p_.parts(), kMostRowsOfGrid); }

  const Device device_;
  ScatterCall<Stored> p_{};
  msda_tensor index_;
  Buckets buckets_;
  Work& work_;
  bool clears_ = false, reads_whole_ = false;
};

template <class Stored, class Real>
void run(const CheckedScatter& checked, const Input& source, const msda_tensor& sum, Work& work) {
  Run<Stored, Real>(checked, source.data<Stored>(), sum, work).run();
}

}  // namespace

void scatter_add(const CheckedScatter& checked, const Input& source, msda_dtype dtype, bool float64,
                 const msda_tensor& sum, Work& work) {
  if (dtype == MSDA_FLOAT64) return run<double, double>(checked, source, sum, work);
  if (float64) return run<float, double>(checked, source, sum, work);
  if (dtype == MSDA_FLOAT16) return run<__half, float>(checked, source, sum, work);
  if (dtype == MSDA_BFLOAT16) return run<__nv_bfloat16, float>(checked, source, sum, work);
  run<float, float>(checked, source, sum, work);
}

}  // namespace msda::kernels::cuda
