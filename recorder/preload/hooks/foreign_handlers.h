// The handlers of functions that share memory with other processes: each takes a hook (driver_hook.cpp) and returns a
// wrapper's body.
#pragma once

#include <cstddef>
#include <cstdint>

#include "recorder/preload/hooks/memory_handlers.h"
#include "recorder/preload/survey/foreign_memory.h"

namespace msda::record {

// Handles a call after which another process may write memory; `note` says which memory.
template <class Note, class Hook>
cuda::Result share_noted(Note&& note, Hook hook, auto... arguments) {
  if (trails()) note();
  if (!surveys()) return hook(arguments...);
  const auto alone = Survey::instance().no_trial();
  Survey::instance().unwritten().all_written();
  note();
  return hook(arguments...);
}

template <class Hook>
auto exported_memory(Hook hook) {
  return [hook](void* handle, cuda::DevicePointer memory, auto... arguments) {
    return share_noted([&] { ForeignMemory::instance().note(memory); }, hook, handle, memory, arguments...);
  };
}

template <class Hook>
auto imported_memory(Hook hook) {
  return [hook](cuda::DevicePointer* pointer, auto... arguments) {
    const cuda::Result result = hook(pointer, arguments...);
    if (watches_all() && result == cuda::kSuccess) {
      note_allocation(result, ForeignMemory::instance().note(*pointer), /*is_of_host=*/false, /*is_fresh=*/false);
    }
    return result;
  };
}

template <class Hook>
auto exported_handle(Hook hook) {
  return [hook](void* to, uint64_t handle, int type, uint64_t flags) {
    return share_noted([&] { ForeignMemory::instance().shared(handle); }, hook, to, handle, type, flags);
  };
}

template <class Hook>
auto imported_handle(Hook hook) {
  return [hook](uint64_t* handle, void* from, int type) {
    const cuda::Result result = hook(handle, from, type);
    if (watches_all() && result == cuda::kSuccess) ForeignMemory::instance().shared(*handle);
    return result;
  };
}

// Handles memory that may be mapped elsewhere as well, and be written there.
template <class Hook>
auto mapped_memory(Hook hook) {
  return [hook](cuda::DevicePointer pointer, size_t bytes, size_t offset, uint64_t handle, uint64_t flags) {
    const cuda::Result result = hook(pointer, bytes, offset, handle, flags);
    note_allocation(result, {pointer, bytes}, /*is_of_host=*/false, /*is_fresh=*/true, /*is_mapped=*/true);
    if (watches_all() && result == cuda::kSuccess) ForeignMemory::instance().mapped({pointer, bytes}, handle);
    return result;
  };
}

}  // namespace msda::record
