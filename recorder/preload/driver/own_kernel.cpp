#include "recorder/preload/driver/own_kernel.h"

namespace msda::record {

cuda::Result OwnKernel::load() {
  const cuda::Driver& driver = cuda::driver();
  cuda::Function found = nullptr;
  cuda::Result result = driver.library_load(&library_, ptx_, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == cuda::kSuccess) result = driver.library_kernel(&found, library_, name_);
  if (result == cuda::kSuccess) kernel_ = found;
  return result;
}

[[gnu::hot]] cuda::Result OwnKernel::launch(unsigned blocks, unsigned rows, unsigned threads, cuda::Stream stream,
                                            std::span<void*> parameters, unsigned shared_bytes) const {
  return cuda::driver().launch(kernel_, blocks, rows, 1, threads, 1, 1, shared_bytes, stream, parameters.data(),
                               nullptr);
}

void OwnKernel::unload() {
  unload_own(library_);
  context_ends();
}

void unload_own(cuda::Library library) {
  const auto unload = cuda::driver().library_unload;
  if (library == nullptr || unload == nullptr || unload(library) != cuda::kSuccess) {
  }  // it stays until the program ends
}

}  // namespace msda::record
