// Launches of the CUDA kernels: grids, shared memory, workspace. Instantiated once for each pair of types, each in a
// file of its own, so that they compile side by side.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cuda/gather.cuh"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/operator.h"
#include "kernels/cuda/per_sample.cuh"

namespace msda::kernels::cuda {

// The current device.
struct Device {
  int processors = 0, shared_bytes = 0;
  Device() {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "cudaDeviceGetAttribute");
  }
};

template <class Kernel>
void allow_shared(Kernel* kernel, int64_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "cudaFuncSetAttribute");
}

inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

// Whether rows of D elements can be read four at a time.
inline bool is_aligned(const void* pointer, int64_t D, int64_t element_bytes) {
  return D % 4 == 0 && reinterpret_cast<uintptr_t>(pointer) % static_cast<uint64_t>(4 * element_bytes) == 0;
}
inline bool is_aligned(const Result& result, int64_t D) {
  const int64_t bytes = result.dtype == MSDA_FLOAT64 ? 8 : result.dtype == MSDA_FLOAT32 ? 4 : 2;
  return result.data == nullptr || is_aligned(result.data, D, bytes);
}

// The levels where a kernel finds them; those that its parameters cannot hold go to `far`, which lies in a workspace.
template <class T>
void hand_over(const std::vector<T>& values, T* far, const T*& far_field, T* near_field, cudaStream_t stream) {
  if (values.size() <= Levels::kNear) {
    std::copy(values.begin(), values.end(), near_field);
    far_field = nullptr;
    return;
  }
  check(cudaMemcpyAsync(far, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
  far_field = far;
}
inline int64_t far_count(int64_t levels) { return levels <= Levels::kNear ? 0 : levels; }

inline unsigned sample_blocks(const Device& device, int64_t rows) {
  const int64_t most = (rows + kSampleThreads / kGroup - 1) / (kSampleThreads / kGroup);
  return static_cast<unsigned>(std::min<int64_t>(most, 8 * device.processors));
}

template <class Stored, class Real>
void Operator<Stored, Real>::forward(Problem<Stored> p, HostLevels levels, Result output, cudaStream_t stream) {
  const Device device;
  Workspace workspace(stream);
  Level* far = nullptr;
  workspace.want(far, far_count(p.L));
  workspace.take();
  hand_over(std::vector<Level>(levels.levels, levels.levels + levels.count), far, p.levels.far, p.levels.near, stream);
  const bool whole = is_aligned(p.value, p.D, sizeof(Stored)) && is_aligned(output, p.D);
  const unsigned blocks = sample_blocks(device, p.B * p.Q * p.M);
  if (blocks == 0) return;
  const auto kernel = whole ? forward_kernel<true, Stored, Real> : forward_kernel<false, Stored, Real>;
  kernel<<<blocks, kSampleThreads, 0, stream>>>(p, output);
  check_launch("forward_kernel");
}

template <class Stored, class Real>
void Operator<Stored, Real>::backward(Problem<Stored> p, HostLevels host, bool atomic, Result grad_value,
                                      Result grad_locations, Result grad_weights, cudaStream_t stream) {
  const Device device;
  const std::vector<Level> levels(host.levels, host.levels + host.count);
  const int64_t heads = p.B * p.M, samples = p.B * p.Q * p.M * p.L * p.P;
  const bool scatters = grad_value.data != nullptr && !atomic;
  const bool in_place = grad_value.dtype == (sizeof(Real) == 8 ? MSDA_FLOAT64 : MSDA_FLOAT32);

  // Counters of a level with too many cells for the shared memory; for the others a third of it is plenty.
  const int64_t most_counters = (device.shared_bytes - 1024) / 4;
  int64_t counters = 0, spare_counters = 0, cells = 0, tile_count = 0;
  std::vector<int64_t> cell_offset(levels.size()), tile_end(levels.size());
  for (size_t l = 0; l < levels.size(); ++l) {
    const int64_t of_level = cpu::cells_of(levels[l]);
    cell_offset[l] = cells;
    cells += heads * (of_level + 1);
    if (of_level > most_counters) {
      spare_counters = std::max(spare_counters, 8 * of_level);
    } else {
      counters = std::max(counters, std::min(most_counters, std::min<int64_t>(8, most_counters / of_level) * of_level));
    }
  }
  for (size_t l = levels.size(); l-- > 0;) {
    tile_count += int64_t{(levels[l].height + kTileHeight<Real> - 1) / kTileHeight<Real>} *
                  ((levels[l].width + kTileWidth - 1) / kTileWidth);
    tile_end[l] = tile_count;
  }

  Workspace workspace(stream);
  Level* far_levels = nullptr;
  int64_t *far_offsets = nullptr, *far_tiles = nullptr;
  Entry<Real>* sorted = nullptr;
  uint32_t *cell_begin = nullptr, *spare = nullptr;
  Real* sums = nullptr;
  workspace.want(far_levels, far_count(p.L));
  workspace.want(far_offsets, far_count(p.L));
  workspace.want(far_tiles, far_count(p.L));
  if (scatters) {
    workspace.want(sorted, samples);
    workspace.want(cell_begin, cells);
    workspace.want(spare, spare_counters * heads * p.L);
  }
  if (grad_value.data != nullptr && atomic && !in_place) workspace.want(sums, p.B * p.S * p.M * p.D);
  workspace.take();
  hand_over(levels, far_levels, p.levels.far, p.levels.near, stream);

  const bool whole = is_aligned(p.value, p.D, sizeof(Stored)) && is_aligned(p.grad_output, p.D, sizeof(Stored)) &&
                     is_aligned(grad_value, p.D);
  if (scatters && samples == 0) {
    const int64_t bytes = grad_value.dtype == MSDA_FLOAT64 ? 8 : grad_value.dtype == MSDA_FLOAT32 ? 4 : 2;
    check(cudaMemsetAsync(grad_value.data, 0, p.B * p.S * p.M * p.D * bytes, stream), "cudaMemsetAsync");
  }
  if (scatters && samples > 0 && p.B * p.S * p.M * p.D > 0) {
    CellTable table{cell_begin, nullptr, {}};
    hand_over(cell_offset, far_offsets, table.far_offset, table.near_offset, stream);
    Tiles tiles{nullptr, {}};
    hand_over(tile_end, far_tiles, tiles.far_end, tiles.near_end, stream);
    const auto group = group_kernel<Stored, Real>;
    allow_shared(group, counters * 4);
    group<<<static_cast<unsigned>(heads * p.L), kGroupThreads, counters * 4, stream>>>(
        p, sorted, table, static_cast<uint32_t>(counters), spare, spare_counters);
    check_launch("group_kernel");
    const auto gather = whole ? gather_kernel<true, Stored, Real> : gather_kernel<false, Stored, Real>;
    allow_shared(gather, sizeof(TileMemory<Real>));
    const dim3 grid(static_cast<unsigned>(heads * tile_count), static_cast<unsigned>((p.D + kLanes - 1) / kLanes));
    gather<<<grid, kGatherThreads, sizeof(TileMemory<Real>), stream>>>(p, sorted, table, tiles, grad_value);
    check_launch("gather_kernel");
  }

  Real* atomic_sums = nullptr;
  if (grad_value.data != nullptr && atomic) {
    atomic_sums = in_place ? static_cast<Real*>(grad_value.data) : sums;
    check(cudaMemsetAsync(atomic_sums, 0, p.B * p.S * p.M * p.D * sizeof(Real), stream), "cudaMemsetAsync");
  }
  const unsigned blocks = sample_blocks(device, p.B * p.Q * p.M);
  if (blocks > 0 && (atomic_sums != nullptr || grad_locations.data != nullptr || grad_weights.data != nullptr)) {
    const auto kernel = atomic_sums != nullptr ? (whole ? sample_gradients_kernel<true, true, Stored, Real>
                                                        : sample_gradients_kernel<false, true, Stored, Real>)
                                               : (whole ? sample_gradients_kernel<true, false, Stored, Real>
                                                        : sample_gradients_kernel<false, false, Stored, Real>);
    kernel<<<blocks, kSampleThreads, 0, stream>>>(p, grad_locations, grad_weights, atomic_sums);
    check_launch("sample_gradients_kernel");
  }
  if (atomic_sums != nullptr && !in_place) {
    const int64_t shape[] = {p.B, p.S, p.M, p.D};
    spread(sums, msda_contiguous(grad_value.data, grad_value.dtype, 4, shape), stream);
  }
}

}  // namespace msda::kernels::cuda
