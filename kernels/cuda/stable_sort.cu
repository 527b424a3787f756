#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/stable_sort.h"

namespace msda::kernels::cuda {
namespace {

// CUB's radix sort is stable. Without `temporary`: asks how much it takes.
void sort(void* temporary, size_t& temporary_bytes, cub::DoubleBuffer<uint32_t>& keys,
          cub::DoubleBuffer<uint32_t>& numbers, int64_t count, int64_t most, cudaStream_t stream) {
  const int bits = std::bit_width(static_cast<uint64_t>(most) | 1);
  check(cub::DeviceRadixSort::SortPairs(temporary, temporary_bytes, keys, numbers, static_cast<int>(count), 0, bits,
                                        stream),
        "cub::DeviceRadixSort");
}

}  // namespace

StableSort::StableSort(int64_t count, int64_t most) : count_(count), most_(most) {
  cub::DoubleBuffer<uint32_t> keys(nullptr, nullptr), numbers(nullptr, nullptr);
  if (count > 0) sort(nullptr, temporary_bytes_, keys, numbers, count_, most_, nullptr);
}

void StableSort::want(Workspace& workspace) {
  for (auto*& memory : keys_) workspace.want(memory, count_);
  for (auto*& memory : numbers_) workspace.want(memory, count_);
  workspace.want(temporary_, static_cast<int64_t>(temporary_bytes_));
}

StableSort::Sorted StableSort::sorted(Work& work) {
  cub::DoubleBuffer<uint32_t> keys(keys_[0], keys_[1]), numbers(numbers_[0], numbers_[1]);
  if (count_ > 0) sort(temporary_, temporary_bytes_, keys, numbers, count_, most_, work.stream());
  return {keys.Current(), numbers.Current()};
}

}  // namespace msda::kernels::cuda
