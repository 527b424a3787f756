// Writes rows where an index says. If several rows have the same index, the thread group of the last one writes. It
// looks at the rest of a short index itself; for a long index, a kernel finds the last one of each row first.
#include "kernels/cuda/common/division.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/storage.cuh"
#include "kernels/cuda/common/warp.cuh"
#include "kernels/cuda/index_put/operator.h"
#include "kernels/strided.h"

namespace msda::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kFewToLookAt = 64, kStepsToLook = 16, kUnitsOfThread = 8, kMostParts = 65535;

struct Put {
  msda_tensor index;
  int32_t n, count;   // of a plane: count
  Division of_plane;  // numbers of the index
  int64_t units;      // of a row
  uint32_t* last;     // [count]: one more than the last number of the index that names the row; null: each looks itself
};

__device__ inline int32_t named_row(const Put& p, int32_t j) {
  const int64_t number = integer_at(p.index, j * p.index.stride[0]);
  const int64_t row = number < 0 ? number + p.count : number;
  const uint32_t plane = p.of_plane.divide(static_cast<uint32_t>(j)).quotient;
  return row >= 0 && row < p.count ? static_cast<int32_t>(plane * p.count + row) : -1;
}

__global__ void __launch_bounds__(kThreads) index_put_last_kernel(const __grid_constant__ Put p) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t j = int64_t{blockIdx.x} * kThreads + threadIdx.x; j < p.n; j += step) {
    const int32_t row = named_row(p, static_cast<int32_t>(j));
    if (row >= 0) atomicMax(&p.last[row], static_cast<uint32_t>(j) + 1);
  }
}

// A group of threads takes each row, and blocks with the same blockIdx.x take parts of it. kWhole: a whole block is a
// group.
template <class Unit, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    index_put_kernel(const __grid_constant__ Put p, int lanes_log, Unit* rows, const Unit* values) {
  const int lanes = kWhole ? kThreads : 1 << lanes_log, lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  const int64_t j = kWhole ? int64_t{blockIdx.x} : (int64_t{blockIdx.x} * kThreads + threadIdx.x) >> lanes_log;
  const int32_t row = j < p.n ? named_row(p, static_cast<int32_t>(j)) : -1;
  bool is_last = row >= 0;
  if (p.last != nullptr) {
    is_last = is_last && p.last[row] == static_cast<uint32_t>(j) + 1;
  } else {
    bool is_later = false;
    for (int64_t later = j + 1 + lane; is_last && later < p.n; later += lanes) {
      is_later = is_later || named_row(p, static_cast<int32_t>(later)) == row;
    }
    if (kWhole) {
      is_last = is_last && __syncthreads_or(is_later) == 0;  // `row` is the same for all of the block
    } else {
      const unsigned first = threadIdx.x % kWarp / lanes * lanes, group = lanes == kWarp ? ~0u : (1u << lanes) - 1;
      is_last = is_last && (__ballot_sync(~0u, is_later) & (group << first)) == 0;
    }
  }
  if (!is_last) return;
  Unit* const to = rows + row * p.units;
  const Unit* const from = values + j * p.units;
  for (int64_t i = int64_t{blockIdx.y} * lanes + lane; i < p.units; i += int64_t{gridDim.y} * lanes) {
    to[i] = from[i];
  }
}

template <class Unit>
void put(Put p, const msda_index_put_call& call, Work& work) {
  p.units = call.row_bytes / int64_t{sizeof(Unit)};
  int lanes_log = 0;
  while ((1 << lanes_log) < kWarp && (1 << lanes_log) < p.units) ++lanes_log;
  const bool is_whole = p.units > kWarp;
  const int64_t lanes = is_whole ? kThreads : 1 << lanes_log;
  Workspace workspace(work);
  if (p.n > std::max(kFewToLookAt, kStepsToLook * lanes)) {
    workspace.want(p.last, call.count);
    workspace.take();
    clear(p.last, call.count * int64_t{sizeof(uint32_t)}, work);
    launch("index_put_last_kernel", index_put_last_kernel, blocks_for(p.n, kThreads), kThreads, 0, work, p);
  }
  const dim3 blocks(static_cast<unsigned>((p.n * lanes + kThreads - 1) / kThreads),
                    static_cast<unsigned>(std::clamp<int64_t>(p.units / (lanes * kUnitsOfThread), 1, kMostParts)));
  const auto kernel = is_whole ? index_put_kernel<Unit, true> : index_put_kernel<Unit, false>;
  launch("index_put_kernel", kernel, blocks, kThreads, 0, work, p, lanes_log, static_cast<Unit*>(call.rows),
         static_cast<const Unit*>(call.values));
}

// Returns the widest unit of which all addresses and rows are multiples.
int64_t unit_of(const msda_index_put_call& call) {
  const auto all = reinterpret_cast<uintptr_t>(call.rows) | reinterpret_cast<uintptr_t>(call.values) |
                   static_cast<uintptr_t>(call.row_bytes) | uintptr_t{sizeof(uint4)};
  return static_cast<int64_t>(all & (~all + 1));
}

}  // namespace

void index_put(const msda_index_put_call& call, Work& work) {
  Put p{};
  p.index = call.index;
  const int64_t planes = std::max<int64_t>(call.planes, 1);
  p.n = static_cast<int32_t>(call.index.shape[0]);
  p.count = static_cast<int32_t>(call.count / planes);
  p.of_plane = Division(p.n / planes);
  switch (unit_of(call)) {
    case 1:
      return put<uint8_t>(p, call, work);
    case 2:
      return put<uint16_t>(p, call, work);
    case 4:
      return put<uint32_t>(p, call, work);
    case 8:
      return put<uint2>(p, call, work);
    default:
      return put<uint4>(p, call, work);
  }
}

}  // namespace msda::kernels::cuda
