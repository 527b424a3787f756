// Device memory, which is host memory, and the copies.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/stand_in_driver/driver.h"
#include "tests/stand_in_driver/graph.h"

namespace msda::stand_in {

namespace {

constexpr size_t kAlignment = 512;  // of device memory; cuMemAlloc gives no less
constexpr int kGarbage = 0xCD;      // fresh memory holds this, so that who reads it unwritten shows

struct Allocation {
  size_t bytes;
  bool host;
  CUcontext context;                         // none: it stays
  bool managed = false, registered = false;  // registered: the program's own memory
};

struct Memory {
  std::mutex mutex;
  std::map<CUdeviceptr, Allocation> allocations;  // by first address
};

// Never destroyed: streams may still work while the process exits.
Memory& memory() {
  static Memory* const instance = new Memory;
  return *instance;
}

// More than this in one piece is "out of memory": of the device, and of the host.
size_t most(bool host) {
  const char* const wanted = getenv(host ? "MSDA_STAND_IN_HOST_MEMORY" : "MSDA_STAND_IN_MEMORY");
  return wanted ? strtoull(wanted, nullptr, 10) : size_t{1} << 34;
}

void* pointer_of(CUdeviceptr pointer) { return reinterpret_cast<void*>(static_cast<uintptr_t>(pointer)); }

CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// The allocation that `pointer` lies in, or end. Call with the lock held.
std::map<CUdeviceptr, Allocation>::iterator find(CUdeviceptr pointer) {
  auto& all = memory().allocations;
  auto next = all.upper_bound(pointer);
  if (next == all.begin()) return all.end();
  --next;
  return pointer - next->first < next->second.bytes ? next : all.end();
}

void* allocate(size_t bytes, bool host, CUcontext context) {
  void* pointer = nullptr;
  if (bytes > most(host) || posix_memalign(&pointer, kAlignment, bytes)) return nullptr;
  std::memset(pointer, kGarbage, bytes);
  const std::lock_guard lock(memory().mutex);
  memory().allocations[address_of(pointer)] = {bytes, host, context};
  return pointer;
}

CUresult release(CUdeviceptr pointer, bool host) {
  const CUresult error = enter();
  if (!pointer && error == CUDA_ERROR_INVALID_CONTEXT) return CUDA_SUCCESS;
  if (error || !pointer) return error;
  if (const CUresult forbidden = forbidden_in_capture()) return forbidden;
  wait_for_all(context_of_thread());  // as the real driver does
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().allocations.find(pointer);
  if (found == memory().allocations.end() || found->second.host != host || found->second.registered)
    return CUDA_ERROR_INVALID_VALUE;
  memory().allocations.erase(found);
  std::free(pointer_of(pointer));
  return CUDA_SUCCESS;
}

cuda::CopyOfBox copy_of(CUdeviceptr to, cuda::MemoryType to_type, CUdeviceptr from, cuda::MemoryType from_type,
                        size_t bytes) {
  cuda::CopyOfBox copy{};
  const bool from_host = from_type == cuda::MemoryType::kHost, to_host = to_type == cuda::MemoryType::kHost;
  copy.from.type = from_type;
  copy.to.type = to_type;
  copy.from.host = from_host ? pointer_of(from) : nullptr;
  copy.from.device = from_host ? 0 : from;
  copy.to.host = to_host ? pointer_of(to) : nullptr;
  copy.to.device = to_host ? 0 : to;
  copy.width = bytes;
  copy.height = copy.depth = bytes > 0;
  return copy;
}

CUresult copy_on(CUstream stream, const cuda::CopyOfBox& copy) {
  cuda::GraphNodeHandle node{cuda::NodeType::kCopy};
  node.copy = copy;
  return submit_or_capture(stream, std::move(node));
}

CUresult set_on(CUstream stream, const cuda::SetNodeParameters& set) {
  if (const CUresult error = enter()) return error;
  if (!allocated(set.to, bytes_of(set))) return CUDA_ERROR_INVALID_VALUE;
  cuda::GraphNodeHandle node{cuda::NodeType::kSet};
  node.set = set;
  return submit_or_capture(stream, std::move(node));
}

Work copy(void* to, const void* from, size_t bytes) {
  return [=] {
    if (bytes) std::memmove(to, from, bytes);
    return CUDA_SUCCESS;
  };
}

}  // namespace

bool allocated(CUdeviceptr pointer, size_t bytes) {
  if (!bytes) return true;
  const std::lock_guard lock(memory().mutex);
  auto found = find(pointer);
  if (found == memory().allocations.end()) return false;
  const CUdeviceptr end = pointer + bytes;
  CUdeviceptr known = found->first + found->second.bytes;
  while (known < end && ++found != memory().allocations.end() && found->first == known) known += found->second.bytes;
  return known >= end;
}

void end_memory_of(CUcontext context) {
  const std::lock_guard lock(memory().mutex);
  std::erase_if(memory().allocations, [&](const auto& entry) {
    const bool ends = entry.second.context == context;
    if (ends && !entry.second.registered) std::free(pointer_of(entry.first));
    return ends;
  });
}

CUdeviceptr allocate_variable(size_t bytes) {
  void* const fresh = allocate(bytes, false, nullptr);
  std::memset(fresh, 0, bytes);
  return address_of(fresh);
}

extern "C" {

// There is always as much as one piece may have.
CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (const CUresult error = enter()) return error;
  if (!free || !total) return CUDA_ERROR_INVALID_VALUE;
  *free = *total = most(false);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  if (const CUresult error = enter()) return error;
  if (!pointer || !bytes) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = forbidden_in_capture()) return error;
  void* const fresh = allocate(bytes, false, context_of_thread());
  if (!fresh) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = address_of(fresh);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned int flags) {
  if (flags != 1 && flags != 2) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = cuMemAlloc_v2(pointer, bytes);
  const std::lock_guard lock(memory().mutex);
  if (result == CUDA_SUCCESS) memory().allocations[*pointer].managed = true;
  return result;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) { return release(pointer, false); }

CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  if (const CUresult error = enter()) return error;
  if (!pointer || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = forbidden_in_capture()) return error;
  *pointer = nullptr;
  if (!bytes) return CUDA_SUCCESS;
  *pointer = allocate(bytes, true, context_of_thread());
  return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void* pointer) { return release(address_of(pointer), true); }

// At addresses of the caller's, which has memory there. Unmapping, in one go or piece by piece, does not wait.
CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, unsigned long long, unsigned long long flags) {
  if (const CUresult error = enter()) return error;
  if (!pointer || !bytes || offset || flags || allocated(pointer, 1)) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(memory().mutex);
  memory().allocations[pointer] = {bytes, false, context_of_thread()};
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  if (const CUresult error = enter()) return error;
  const std::lock_guard lock(memory().mutex);
  auto& all = memory().allocations;
  if (!all.contains(pointer)) return CUDA_ERROR_INVALID_VALUE;
  all.erase(all.lower_bound(pointer), all.lower_bound(pointer + bytes));
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  if (const CUresult error = enter()) return error;
  const std::lock_guard lock(memory().mutex);
  const auto found = find(pointer);
  if (found == memory().allocations.end()) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = found->first;
  if (bytes) *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

// A handle is the address. What another process has allocated is memory of this one here.
CUresult cuIpcGetMemHandle(cuda::IpcHandle* handle, CUdeviceptr pointer) {
  if (const CUresult error = enter()) return error;
  if (!handle || !allocated(pointer, 1)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(handle, &pointer, sizeof pointer);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* pointer, cuda::IpcHandle handle, unsigned int) {
  if (const CUresult error = enter()) return error;
  CUdeviceptr address = 0;
  std::memcpy(&address, &handle, sizeof address);
  if (!pointer || !allocated(address, 1)) return CUDA_ERROR_INVALID_VALUE;
  *pointer = address;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  if (const CUresult error = enter()) return error;
  return allocated(pointer, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuPointerGetAttributes(unsigned count, const int* attributes, void** values, CUdeviceptr pointer) {
  if (const CUresult error = enter()) return error;
  // CU_POINTER_ATTRIBUTE_*
  constexpr int kMemoryType = 2, kHostPointer = 4, kOrdinal = 9, kStart = 11, kSize = 12, kAccess = 16;
  const std::lock_guard lock(memory().mutex);
  const auto found = find(pointer);
  const bool is_known = found != memory().allocations.end();
  const bool is_host = is_known && found->second.host;
  const int device = is_known && found->second.context ? device_of(found->second.context) : 0;
  const auto type = is_host ? cuda::MemoryType::kHost : cuda::MemoryType::kDevice;
  for (unsigned i = 0; i < count; ++i) {
    const auto set = [&]<class T>(T value) { *static_cast<T*>(values[i]) = is_known ? value : T{}; };
    switch (attributes[i]) {
      case kMemoryType:
        set(type);
        break;
      case kHostPointer:
        set(is_host || (is_known && found->second.managed) ? pointer_of(pointer) : nullptr);
        break;
      case kOrdinal:
        set(device);
        break;
      case kStart:
        set(is_known ? found->first : CUdeviceptr{});
        break;
      case kSize:
        set(is_known ? found->second.bytes : size_t{});
        break;
      case kAccess:
        set(3u);
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  if (const CUresult error = enter()) return error;
  if ((bytes && !from) || !allocated(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return submit_and_wait(copy(pointer_of(to), from, bytes));
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  if (const CUresult error = enter()) return error;
  if ((bytes && !to) || !allocated(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return submit_and_wait(copy(to, pointer_of(from), bytes));
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  if (const CUresult error = enter()) return error;
  if ((bytes && !from) || !allocated(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return copy_on(stream, copy_of(to, cuda::MemoryType::kDevice, address_of(from), cuda::MemoryType::kHost, bytes));
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (const CUresult error = enter()) return error;
  if ((bytes && !to) || !allocated(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return copy_on(stream, copy_of(address_of(to), cuda::MemoryType::kHost, from, cuda::MemoryType::kDevice, bytes));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (const CUresult error = enter()) return error;
  if (!allocated(to, bytes) || !allocated(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return copy_on(stream, copy_of(to, cuda::MemoryType::kDevice, from, cuda::MemoryType::kDevice, bytes));
}

// What the driver has not allocated is the host's.
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  if (const CUresult error = enter()) return error;
  const auto type = [&](CUdeviceptr side) {
    return allocated(side, bytes) ? cuda::MemoryType::kUnified : cuda::MemoryType::kHost;
  };
  if (!to || !from || (allocated(to, 1) && !allocated(to, bytes)) || (allocated(from, 1) && !allocated(from, bytes)))
    return CUDA_ERROR_INVALID_VALUE;
  return copy_on(stream, copy_of(to, type(to), from, type(from), bytes));
}

CUresult cuMemcpy3DAsync_v2(const cuda::CopyOfBox* copy, CUstream stream) {
  if (const CUresult error = enter()) return error;
  if (!copy || !can_copy(*copy)) return CUDA_ERROR_INVALID_VALUE;
  return copy_on(stream, *copy);
}

// Between the host and the device, from the first row's first byte on.
CUresult cuMemcpy2DAsync_v2(const cuda::CopyOfRows* copy, CUstream stream) {
  if (const CUresult error = enter()) return error;
  if (!copy || copy->from.x || copy->from.y || copy->to.x || copy->to.y) return CUDA_ERROR_INVALID_VALUE;
  const cuda::CopyOfRows c = *copy;
  if (!c.width || !c.height) return CUDA_SUCCESS;
  if (c.width > c.from.pitch || c.width > c.to.pitch) return CUDA_ERROR_INVALID_VALUE;
  const bool in = c.from.type == cuda::MemoryType::kHost && c.to.type == cuda::MemoryType::kDevice && c.from.host;
  const bool out = c.from.type == cuda::MemoryType::kDevice && c.to.type == cuda::MemoryType::kHost && c.to.host;
  if (!in && !out) return CUDA_ERROR_INVALID_VALUE;
  const size_t device_bytes = (c.height - 1) * (in ? c.to.pitch : c.from.pitch) + c.width;
  if (!allocated(in ? c.to.device : c.from.device, device_bytes)) return CUDA_ERROR_INVALID_VALUE;
  const char* const from = static_cast<const char*>(in ? c.from.host : pointer_of(c.from.device));
  char* const to = static_cast<char*>(in ? pointer_of(c.to.device) : c.to.host);
  return submit(stream, [=] {
    for (size_t row = 0; row < c.height; ++row) {
      std::memmove(to + row * c.to.pitch, from + row * c.from.pitch, c.width);
    }
    return CUDA_SUCCESS;
  });
}

// All host memory can be reached here; what is registered is known, too.
CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int flags) {
  if (const CUresult error = enter()) return error;
  if (!pointer || !bytes || flags > 15) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = forbidden_in_capture()) return error;
  const std::lock_guard lock(memory().mutex);
  memory().allocations[address_of(pointer)] = {bytes, true, context_of_thread(), false, true};
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* pointer) {
  if (const CUresult error = enter()) return error;
  const std::lock_guard lock(memory().mutex);
  return memory().allocations.erase(address_of(pointer)) > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// With MSDA_STAND_IN_UNREACHABLE as where the driver could not register the memory.
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* pointer, void* host, unsigned int flags) {
  if (const CUresult error = enter()) return error;
  if (!pointer || !host || flags != 0 || getenv("MSDA_STAND_IN_UNREACHABLE") != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *pointer = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t bytes) {
  if (const CUresult error = enter()) return error;
  if (!allocated(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return submit_and_wait([=] {
    if (bytes) std::memset(pointer_of(to), value, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  return set_on(stream, {to, 0, value, 1, bytes, 1});
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return set_on(stream, {to, 0, value, 2, count, 1});
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return set_on(stream, {to, 0, value, 4, count, 1});
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream) {
  return set_on(stream, {to, pitch, value, 1, width, height});
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
                            CUstream stream) {
  return set_on(stream, {to, pitch, value, 2, width, height});
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,
                            CUstream stream) {
  return set_on(stream, {to, pitch, value, 4, width, height});
}

}  // extern "C"

}  // namespace msda::stand_in
