// The recorder's own memory that devices reach: no launch of the program reaches it, whatever numbers its parameters
// hold.
#pragma once

#include <cstdint>

#include "recorder/preload/driver/driver_api.h"

namespace msda::record::cuda {

// As cuMemAlloc and cuMemFree. Thread-safe.
Result allocate_own(DevicePointer& address, uint64_t bytes);
Result free_own(DevicePointer address);
// The same of memory of the host that devices reach, as cuMemHostAlloc and cuMemFreeHost.
Result allocate_own_on_host(DevicePointer& address, uint64_t bytes);
Result free_own_on_host(DevicePointer address);
// Memory of the host that the recorder has registered with the driver.
void note_own(const void* memory);
// A context ends, and its memory with it. Null: nobody knows which, and what is left is not known any more.
void forget_own(Context context);
// The same of what somebody keeps by context.
template <class Map>
void forget(Map& by_context, Context context) {
  if (context == nullptr) {
    by_context.clear();
  } else {
    by_context.erase(context);
  }
}
// Whether an allocation of the recorder's begins there.
bool is_own(DevicePointer address);

}  // namespace msda::record::cuda
