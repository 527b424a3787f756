// The current device.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/memory.h"

namespace msda::kernels::cuda {

struct Device {
  int processors = 0, shared_bytes = 0, l2_bytes = 0;
  Device() {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
  }
};

}  // namespace msda::kernels::cuda
