// msda_cuda_backward for tests on machines without a GPU: on the memory of the stand-in driver, with the numbers of
// libmsda's msda_backward. As the real one it finds the driver when it is first called, takes the first device's
// context where the thread has none, launches five kernels, and returns before its results are there.
#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/msda.h"
#include "tests/stand_in_driver/driver_api.h"

namespace msda::stand_in {
namespace {

constexpr size_t kBytesOf[] = {2, 2, 4, 8, 4, 8};  // by msda_dtype
constexpr int kKernels = 5;

// The functions of the driver that are used, found as CUDA's runtime finds them.
struct Driver {
  Driver() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error("no driver");
    const auto find = reinterpret_cast<decltype(&cuGetProcAddress_v2)>(dlsym(library, "cuGetProcAddress_v2"));
    const auto get = [&]<class F>(F*& function, const char* name) {
      void* found = nullptr;
      CUdriverProcAddressQueryResult status{};
      if (find(name, &found, 13000, 0, &status) || found == nullptr) throw std::runtime_error(name);
      function = reinterpret_cast<F*>(found);
    };
    get(init, "cuInit");
    get(current_context, "cuCtxGetCurrent");
    get(set_context, "cuCtxSetCurrent");
    get(retain_context, "cuDevicePrimaryCtxRetain");
    get(synchronize, "cuStreamSynchronize");
    get(is_capturing, "cuStreamIsCapturing");
    get(copy_in, "cuMemcpyHtoDAsync");
    get(allocate, "cuMemAlloc");
    get(set_bytes, "cuMemsetD8");
    get(load, "cuModuleLoadData");
    get(get_function, "cuModuleGetFunction");
    get(launch, "cuLaunchKernel");
  }

  decltype(&cuInit) init;
  decltype(&cuCtxGetCurrent) current_context;
  decltype(&cuCtxSetCurrent) set_context;
  decltype(&cuDevicePrimaryCtxRetain) retain_context;
  decltype(&cuStreamSynchronize) synchronize;
  decltype(&cuStreamIsCapturing) is_capturing;
  decltype(&cuMemcpyHtoDAsync_v2) copy_in;
  decltype(&cuMemAlloc_v2) allocate;
  decltype(&cuMemsetD8_v2) set_bytes;
  decltype(&cuModuleLoadData) load;
  decltype(&cuModuleGetFunction) get_function;
  decltype(&cuLaunchKernel) launch;
};

void check(CUresult result) {
  if (result != CUDA_SUCCESS) throw std::runtime_error(std::to_string(result));
}

// What the call launches, which adds 1 to a sum.
struct Kernel {
  explicit Kernel(const Driver& driver) {
    CUmodule module = nullptr;
    check(driver.load(&module, "stand-in\ntiny_kernel\n"));
    check(driver.get_function(&function, module, "tiny_kernel"));
    check(driver.allocate(&sum, sizeof(int)));
    check(driver.set_bytes(sum, 0, sizeof(int)));
  }
  CUfunction function = nullptr;
  CUdeviceptr sum = 0;
};
const Kernel* the_kernel = nullptr;

int64_t elements_of(const msda_tensor& tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
  return count;
}

// A result in row-major order in memory that is never given back: the stream copies from it when it comes to that.
struct KeptResult {
  explicit KeptResult(const msda_tensor* to) : to_(to) {
    if (to == nullptr) return;
    // What makes no sense the CPU's function refuses.
    if (to->rank < 0 || to->rank > MSDA_MAX_RANK || to->dtype < 0 || to->dtype > MSDA_INT64) {
      here_ = *to;
      return;
    }
    auto* const bytes = new std::vector<std::byte>(static_cast<size_t>(elements_of(*to)) * kBytesOf[to->dtype]);
    here_ = msda_contiguous(bytes->data(), to->dtype, to->rank, to->shape);
  }
  const msda_tensor* here() const { return to_ != nullptr ? &here_ : nullptr; }

  void store(const Driver& driver, CUstream stream) const {
    if (to_ == nullptr) return;
    const size_t size = kBytesOf[to_->dtype];
    int64_t index[MSDA_MAX_RANK] = {};
    for (int64_t flat = 0; flat < elements_of(*to_); ++flat) {
      int64_t at = 0;
      for (int i = 0; i < to_->rank; ++i) at += index[i] * to_->stride[i];
      const auto address = reinterpret_cast<uintptr_t>(to_->data) + static_cast<uintptr_t>(at) * size;
      check(driver.copy_in(address, static_cast<std::byte*>(here_.data) + static_cast<size_t>(flat) * size, size,
                           stream));
      for (int i = to_->rank - 1; i >= 0 && ++index[i] == to_->shape[i]; --i) index[i] = 0;
    }
  }

 private:
  const msda_tensor* to_;
  msda_tensor here_{};
};

msda_status backward(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
                     const msda_tensor* grad_value, const msda_tensor* grad_sampling_locations,
                     const msda_tensor* grad_attention_weights, CUstream stream) {
  static const Driver kDriver;
  check(kDriver.init(0));
  CUcontext context = nullptr;
  check(kDriver.current_context(&context));
  if (context == nullptr) {
    check(kDriver.retain_context(&context, 0));
    check(kDriver.set_context(context));
  }
  static const Kernel kKernel(kDriver);
  the_kernel = &kKernel;
  int capturing = 0;
  check(kDriver.is_capturing(stream, &capturing));
  if (capturing == CU_STREAM_CAPTURE_STATUS_NONE) check(kDriver.synchronize(stream));
  // On a GPU additions come in another order every time.
  static std::atomic<uint64_t> seed{0};
  msda_options chosen = options != nullptr ? *options : msda_options{};
  if (chosen.mode == MSDA_MODE_ATOMIC) chosen.seed = seed++;
  // The real one: for RTLD_NEXT no recorder answers.
  const auto real = reinterpret_cast<decltype(&msda_backward)>(dlsym(RTLD_NEXT, "msda_backward"));
  const KeptResult to_value(grad_value), to_locations(grad_sampling_locations), to_weights(grad_attention_weights);
  const msda_status status = real(call, grad_output, &chosen, to_value.here(), to_locations.here(), to_weights.here());
  if (status != MSDA_OK) return status;
  for (int i = 0; i < kKernels; ++i) {
    int unit = 1;
    CUdeviceptr sum = kKernel.sum;
    void* parameters[] = {&sum, &unit};
    check(kDriver.launch(kKernel.function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  }
  for (const KeptResult* result : {&to_value, &to_locations, &to_weights}) result->store(kDriver, stream);
  return MSDA_OK;
}

}  // namespace
}  // namespace msda::stand_in

extern "C" {

// How many kernels ran, all that was put onto streams being done.
MSDA_API int stand_in_msda_kernels() {
  return *reinterpret_cast<const int*>(static_cast<uintptr_t>(msda::stand_in::the_kernel->sum));
}

MSDA_API msda_status msda_cuda_backward(const msda_call* call, const msda_tensor* grad_output,
                                        const msda_options* options, const msda_tensor* grad_value,
                                        const msda_tensor* grad_sampling_locations,
                                        const msda_tensor* grad_attention_weights, void* stream) {
  try {
    return msda::stand_in::backward(call, grad_output, options, grad_value, grad_sampling_locations,
                                    grad_attention_weights, static_cast<msda::stand_in::CUstream>(stream));
  } catch (const std::exception&) {
    return MSDA_CUDA_ERROR;
  }
}
}
