// The recorder's own memory that devices reach. No launch of the program reaches it, whatever numbers its parameters
// hold.
#pragma once

#include <cstdint>

#include "recorder/preload/driver/driver_api.h"

namespace msda::record::cuda {

// As cuMemAlloc and cuMemFree. Thread-safe.
Result allocate_own(DevicePointer& address, uint64_t bytes);
Result free_own(DevicePointer address);
// As cuMemHostAlloc and cuMemFreeHost: for memory of the host that devices reach.
Result allocate_own_on_host(DevicePointer& address, uint64_t bytes);
Result free_own_on_host(DevicePointer address);
// Notes memory of the host that the recorder has registered with the driver.
void note_own(const void* memory);
// Called when a context ends, and its memory with it. Null: it is not known which, so that what is left is not known
// either.
void forget_own(Context context);
// As above, for a map that somebody keeps by context.
template <class Map>
void forget(Map& by_context, Context context) {
  if (context == nullptr) {
    by_context.clear();
  } else {
    by_context.erase(context);
  }
}
// Returns whether an allocation of the recorder's begins there.
bool is_own(DevicePointer address);

}  // namespace msda::record::cuda
