// A kernel of the recorder's own, given as PTX; it is loaded when it is first needed, for every context.
#pragma once

#include <span>

#include "recorder/preload/driver/driver_api.h"

namespace msda::record {

// Not thread-safe.
class OwnKernel {
 public:
  constexpr OwnKernel(const char* ptx, const char* name) : ptx_(ptx), name_(name) {}

  // What the driver says of it; needs a current context.
  cuda::Result load();
  // Loads it, if it is not loaded. False if the driver refuses.
  bool is_loaded() { return kernel_ != nullptr || load() == cuda::kSuccess; }
  cuda::Function function() const { return kernel_; }
  // Once it is loaded.
  cuda::Result launch(unsigned blocks, unsigned rows, unsigned threads, cuda::Stream stream,
                      std::span<void*> parameters, unsigned shared_bytes = 0) const;
  // A context ends, and with it the code that was loaded (cudaDeviceReset).
  void context_ends() { kernel_ = nullptr; }

 private:
  const char *ptx_, *name_;
  cuda::Function kernel_ = nullptr;
};

}  // namespace msda::record
