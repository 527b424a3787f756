// Numbers sorted by their keys; those of equal keys keep their order.
#pragma once

#include <cstdint>

#include "kernels/cuda/common/workspace.h"

namespace msda::kernels::cuda {

// Keys, of type uint32_t or uint64_t, go from 0 to `most`.
template <class Key>
class StableSort {
 public:
  StableSort(int64_t count, int64_t most);
  void want(Workspace& workspace);
  // To be filled in.
  Key* keys() const { return keys_[0]; }
  uint32_t* numbers() const { return numbers_[0]; }
  struct Sorted {
    const Key* keys;
    const uint32_t* numbers;
  };
  Sorted sorted(Work& work);

 private:
  int64_t count_, most_;
  Key* keys_[2] = {};
  uint32_t* numbers_[2] = {};
  char* temporary_ = nullptr;
  size_t temporary_bytes_ = 0;
};

}  // namespace msda::kernels::cuda
