#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <type_traits>

#include "kernels/cuda/common/stable_sort.h"

namespace msda::kernels::cuda {
namespace {

// CUB's radix sort is stable. Without `temporary`, asks how much it takes. If keys are short, so are places.
template <class Key>
void sort(void* temporary, size_t& temporary_bytes, cub::DoubleBuffer<Key>& keys, cub::DoubleBuffer<uint32_t>& numbers,
          int64_t count, int64_t most, cudaStream_t stream) {
  using Place = std::conditional_t<sizeof(Key) == 4, int, int64_t>;
  const int bits = std::bit_width(static_cast<uint64_t>(most) | 1);
  check(cub::DeviceRadixSort::SortPairs(temporary, temporary_bytes, keys, numbers, static_cast<Place>(count), 0, bits,
                                        stream),
        "cub::DeviceRadixSort");
}

}  // namespace

template <class Key>
StableSort<Key>::StableSort(int64_t count, int64_t most) : count_(count), most_(most) {
  cub::DoubleBuffer<Key> keys(nullptr, nullptr);
  cub::DoubleBuffer<uint32_t> numbers(nullptr, nullptr);
  if (count > 0) sort(nullptr, temporary_bytes_, keys, numbers, count_, most_, nullptr);
}

template <class Key>
void StableSort<Key>::want(Workspace& workspace) {
  for (auto*& memory : keys_) workspace.want(memory, count_);
  for (auto*& memory : numbers_) workspace.want(memory, count_);
  workspace.want(temporary_, static_cast<int64_t>(temporary_bytes_));
}

template <class Key>
typename StableSort<Key>::Sorted StableSort<Key>::sorted(Work& work) {
  cub::DoubleBuffer<Key> keys(keys_[0], keys_[1]);
  cub::DoubleBuffer<uint32_t> numbers(numbers_[0], numbers_[1]);
  if (count_ > 0) sort(temporary_, temporary_bytes_, keys, numbers, count_, most_, work.stream());
  return {keys.Current(), numbers.Current()};
}

template class StableSort<uint32_t>;
template class StableSort<uint64_t>;

}  // namespace msda::kernels::cuda
