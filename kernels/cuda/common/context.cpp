#include "kernels/cuda/common/context.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <mutex>
#include <set>
#include <utility>

#include "kernels/cuda/common/memory.h"
#include "kernels/cuda/common/target.h"

namespace msda::kernels::cuda {
namespace {

// Returns a function of the driver, to which libmsda is not linked; null if the driver has none of that name.
template <class Function>
Function* of_driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  constexpr unsigned kVersion = 12000;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Function*>(found) : nullptr;
}

}  // namespace

Context current_context() {
  static const auto current = of_driver<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent");
  static const auto number_of = of_driver<decltype(cuCtxGetId)>("cuCtxGetId");
  CUcontext context = nullptr;
  unsigned long long number = 0;
  if (current == nullptr || number_of == nullptr || current(&context) != CUDA_SUCCESS || context == nullptr) return {};
  return number_of(context, &number) == CUDA_SUCCESS ? Context{number, context} : Context{};
}

void allow_shared(const void* kernel, Target& target) {
  static std::mutex mutex;
  static auto* allowed = new std::set<std::pair<uint64_t, const void*>>;
  const uint64_t context = target.context().number;
  {
    const std::lock_guard lock(mutex);
    if (context != 0 && allowed->contains({context, kernel})) return;
  }
  cudaFuncAttributes own{};
  check(cudaFuncGetAttributes(&own, kernel), "cudaFuncGetAttributes");
  const int most = target.device().shared_bytes - static_cast<int>(own.sharedSizeBytes);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most), "cudaFuncSetAttribute");
  const std::lock_guard lock(mutex);
  if (context != 0) allowed->emplace(context, kernel);
}

}  // namespace msda::kernels::cuda
