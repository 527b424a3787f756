// The part of CUPTI that the recorder uses, declared here because the recorder builds without CUDA. Layouts and numbers
// are those of cupti_callbacks.h, cupti_driver_cbid.h, cupti_result.h and generated_cuda_meta.h of CUDA 12.0 to 13.0;
// numbers of callbacks never change, new ones come at the end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "recorder/preload/driver/driver_api.h"

namespace msda::record::cupti {

using Result = int;
using Subscriber = struct SubscriberHandle*;
using Callback = void(void* user, int domain, uint32_t id, const void* data);

inline constexpr Result kSuccess = 0, kNotInitialized = 15;

inline constexpr int kDriverApi = 1, kResource = 3;                      // CUPTI_CB_DOMAIN_*
inline constexpr uint32_t kModuleLoaded = 6, kModuleUnloadStarting = 7;  // CUPTI_CBID_RESOURCE_*
inline constexpr uint32_t kLaunchKernel = 307, kLaunchKernelPtsz = 442;  // CUPTI_DRIVER_TRACE_CBID_cu*
inline constexpr uint32_t kLaunchCooperative = 477, kLaunchCooperativePtsz = 478;
inline constexpr uint32_t kLaunchKernelEx = 652, kLaunchKernelExPtsz = 653;
inline constexpr int kEnter = 0, kExit = 1;  // CUPTI_API_*

struct CallbackData {  // CUpti_CallbackData
  int site;
  const char* function_name;
  const void* parameters;
  void* result;
  const char* symbol_name;
  cuda::Context context;
  uint32_t context_id;
  uint64_t* correlation_data;
  uint32_t correlation_id;
};
static_assert(offsetof(CallbackData, result) == 24 && offsetof(CallbackData, correlation_id) == 64);

struct ResourceData {  // CUpti_ResourceData
  cuda::Context context;
  void* handle;
  const void* descriptor;  // ModuleData for the two callbacks above
};

struct ModuleData {  // CUpti_ModuleResourceData
  uint32_t id;
  size_t bytes;
  const void* cubin;
};

struct LaunchKernelParameters {  // cuLaunchKernel_params, and those of its twin
  cuda::Function function;
  unsigned grid[3], block[3], shared_bytes;
  cuda::Stream stream;
  void** parameters;
  void** extra;  // not of cooperative launches
};
static_assert(offsetof(LaunchKernelParameters, stream) == 40);

struct LaunchKernelExParameters {  // cuLaunchKernelEx_params, and those of its twin
  const cuda::LaunchConfig* config;
  cuda::Function function;
  void** parameters;
  void** extra;
};

using Subscribe = Result(Subscriber*, Callback*, void*);
using Unsubscribe = Result(Subscriber);
using EnableCallback = Result(uint32_t enable, Subscriber, int domain, uint32_t id);

}  // namespace msda::record::cupti
