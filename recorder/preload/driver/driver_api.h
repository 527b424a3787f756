// The CUDA driver of the process that the recorder is loaded into.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "recorder/device/cuda_driver.h"

namespace msda::record::cuda {

using namespace msda::cuda;

// Returns the process' driver, looked up once. Its `missing` is "libcuda.so.1" if the process has loaded none.
const Driver& driver();

// Returns whether the memory is allocated from end to end. Reading other memory would be an error from which the
// program's context does not recover.
bool is_allocated(DevicePointer address, uint64_t bytes);

// Registers host memory with the driver for every context, so that copies to it are fast; best effort. Needs a current
// context.
void pin(void* memory, uint64_t bytes);
void unpin(void* memory);

// Adds the name of the calling thread's current device and the driver's version, if there is a current device: "gpu",
// "cuda".
void add_device_facts(std::map<std::string, std::string>& facts);

}  // namespace msda::record::cuda
