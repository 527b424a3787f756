#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/grouping.h"
#include "kernels/cuda/launch.cuh"

namespace msda::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// Where each cell begins among samples sorted by cell, and where the last one ends: cells + 1 numbers.
__global__ void __launch_bounds__(kThreads)
    cell_begin_kernel(const uint64_t* sorted, int64_t samples, int64_t cells, int64_t* begin) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t cell = int64_t{blockIdx.x} * kThreads + threadIdx.x; cell <= cells; cell += step) {
    int64_t low = 0, high = samples;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (sorted[middle] < static_cast<uint64_t>(cell)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    begin[cell] = low;
  }
}

// CUB's radix sort is stable, so the samples of a cell keep their order. Without `temporary`: asks how much it takes.
void sort(void* temporary, size_t& temporary_bytes, cub::DoubleBuffer<uint64_t>& cell,
          cub::DoubleBuffer<uint32_t>& sample, int64_t samples, int64_t cells, cudaStream_t stream) {
  const int bits = std::bit_width(static_cast<uint64_t>(cells));
  check(cub::DeviceRadixSort::SortPairs(temporary, temporary_bytes, cell, sample, samples, 0, bits, stream),
        "cub::DeviceRadixSort");
}

}  // namespace

Grouping::Grouping(int64_t samples, int64_t cells) : samples_(samples), cells_(cells) {
  cub::DoubleBuffer<uint64_t> cell(nullptr, nullptr);
  cub::DoubleBuffer<uint32_t> sample(nullptr, nullptr);
  if (samples > 0) sort(nullptr, temporary_bytes_, cell, sample, samples_, cells_, nullptr);
}

void Grouping::want(Workspace& workspace) {
  for (auto*& memory : cell_) workspace.want(memory, samples_);
  for (auto*& memory : sample_) workspace.want(memory, samples_);
  workspace.want(begin_, cells_ + 1);
  workspace.want(temporary_, static_cast<int64_t>(temporary_bytes_));
}

CellSamples Grouping::grouped(int64_t of_head, Work& work) {
  cub::DoubleBuffer<uint64_t> cell(cell_[0], cell_[1]);
  cub::DoubleBuffer<uint32_t> sample(sample_[0], sample_[1]);
  if (samples_ > 0) sort(temporary_, temporary_bytes_, cell, sample, samples_, cells_, work.stream());
  launch("cell_begin_kernel", cell_begin_kernel, blocks_for(cells_ + 1, kThreads), kThreads, 0, work, cell.Current(),
         samples_, cells_, begin_);
  return {of_head, begin_, sample.Current()};
}

}  // namespace msda::kernels::cuda
