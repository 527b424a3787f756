// The current device.
#pragma once

namespace msda::kernels::cuda {

struct Device {
  int number = 0, processors = 0, shared_bytes = 0, l2_bytes = 0;
  Device();  // throws CudaError
};

}  // namespace msda::kernels::cuda
