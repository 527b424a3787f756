// Loads the order-free twin of a kernel (recorder/device/twin.h) beside it.
#pragma once

#include <cstddef>
#include <string>

#include "recorder/device/twin.h"
#include "recorder/preload/driver/images.h"

namespace msda::record {

struct LoadedTwin {
  // Null if no addition can be replaced, or the driver does not load the code.
  cuda::Function function = nullptr;
  cuda::Library library = nullptr;  // that has it
  size_t replaced = 0, left = 0;    // floating-point additions: as integers, and as they were
  bool is_refused = false;          // by the driver
};

// The twin works in every context. `shared_bytes` is what the kernel's launches ask for.
LoadedTwin load_twin(const Image& image, const std::string& kernel, const std::string& architecture,
                     unsigned shared_bytes);

// Loads a twin that was made before.
LoadedTwin load_twin(const Twin& twin, const std::string& kernel, unsigned shared_bytes);

// Gives the constants and variables of the twin's code the values that those of the function's code have, in the order
// of the stream: the program or launches may have set them before. Returns false if the driver refuses.
bool copy_values(const Image& image, cuda::Function function, const LoadedTwin& twin, cuda::Stream stream);

}  // namespace msda::record
