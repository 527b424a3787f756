// What the stand-in driver reports to a tool: the stand-in libcupti (cupti.cpp), which registers by
// stand_in_set_tracer. Numbers and layouts are those of CUPTI 13.0's headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/stand_in_driver/driver_api.h"

namespace msda::stand_in {

enum : int { kDomainDriver = 1, kDomainResource = 3 };
enum : uint32_t { kCbidModuleLoaded = 6, kCbidModuleUnloadStarting = 7 };
enum : uint32_t { kCbidLaunch = 307, kCbidLaunchPtsz = 442, kCbidLaunchEx = 652, kCbidLaunchExPtsz = 653 };
enum : uint32_t { kCbidLaunchCooperative = 477, kCbidLaunchCooperativePtsz = 478 };

struct CallbackData {
  int site;  // 0: enter, 1: exit
  const char* function_name;
  const void* parameters;
  void* result;
  const char* symbol_name;
  CUcontext context;
  uint32_t context_id;
  uint64_t* correlation_data;
  uint32_t correlation_id;
};

struct ModuleData {
  uint32_t id;
  size_t bytes;
  const char* cubin;
};

struct ResourceData {
  CUcontext context;
  void* handle;
  const void* descriptor;
};

struct LaunchParameters {
  CUfunction function;
  unsigned int grid[3], block[3], shared_bytes;
  CUstream stream;
  void** parameters;
  void** extra;
};

struct LaunchExParameters {
  const cuda::LaunchConfig* config;
  CUfunction function;
  void** parameters;
  void** extra;
};

using Tracer = void (*)(int domain, uint32_t id, const void* data);

// Null if no tool listens.
Tracer tracer();

void trace_module(uint32_t id, uint32_t module, const std::vector<std::byte>& cubin);

// Calls, and notifies the tool before and after it. `symbol` is the kernel's name.
template <class Call>
CUresult traced(uint32_t id, const char* symbol, const void* parameters, Call&& call) {
  const Tracer report = tracer();
  if (!report) return call();
  static thread_local uint32_t correlation = 0;
  uint64_t correlation_data = 0;
  CUresult result = CUDA_SUCCESS;
  CallbackData data{0, "", parameters, &result, symbol, nullptr, 0, &correlation_data, ++correlation};
  report(kDomainDriver, id, &data);
  result = call();
  data.site = 1;
  report(kDomainDriver, id, &data);
  return result;
}

// In cuInit: InitializeInjection of the library that CUDA_INJECTION64_PATH names, once.
void inject();

}  // namespace msda::stand_in

extern "C" __attribute__((visibility("default"))) void stand_in_set_tracer(msda::stand_in::Tracer tracer);
