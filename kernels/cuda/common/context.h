// What is remembered of a CUDA context: by its number, because after a reset of the device another context may have the
// address of the one before.
#pragma once

#include <cstdint>

namespace msda::kernels::cuda {

class Target;

struct Context {
  uint64_t number = 0;  // which the driver gives to no other one; 0 if it does not tell
  const void* address = nullptr;
};
Context current_context();

// Lets a kernel's blocks have as much shared memory as the current device can give one. Never what one launch needs:
// this is the function's state, which another thread may set between this and that launch.
void allow_shared(const void* kernel, Target& target);
template <class... Parameters>
void allow_shared(void (*kernel)(Parameters...), Target& target) {
  allow_shared(reinterpret_cast<const void*>(kernel), target);
}

}  // namespace msda::kernels::cuda
