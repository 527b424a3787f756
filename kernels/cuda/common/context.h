// What is remembered about a CUDA context: by its number, because after a reset of the device another context may get
// the address of the one before.
#pragma once

#include <cstdint>

namespace msda::kernels::cuda {

class Target;

struct Context {
  uint64_t number = 0;  // unique to this context, as the driver counts; 0 if unknown
  const void* address = nullptr;
};
Context current_context();

// Lets a kernel's blocks have as much shared memory as the current device can give one. Not just what one launch needs:
// the limit is the function's state, which another thread may set between this and that launch.
void allow_shared(const void* kernel, Target& target);
template <class... Parameters>
void allow_shared(void (*kernel)(Parameters...), Target& target) {
  allow_shared(reinterpret_cast<const void*>(kernel), target);
}

}  // namespace msda::kernels::cuda
