// What calls of our own C ABI have in common, on the CPU and on a GPU: their facts, and row-major copies of their
// tensors.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/msda.h"
#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/session/recording.h"

namespace msda::record {

// Copies of tensors. One that makes no sense, which the real function will refuse, leaves it not ok().
class Copies {
 public:
  bool ok() const { return ok_; }
  const std::vector<HostTensor>& tensors() const { return tensors_; }

  // Of a tensor in host memory; one that is contiguous is not copied. Null is none.
  void add(const char* name, const msda_tensor* tensor);
  // Of tensors in device memory, once the stream has come to this point. Empty, or why they cannot be copied.
  struct Named {
    const char* name;
    const msda_tensor* tensor;
  };
  std::string add_from_device(const std::vector<Named>& tensors, cuda::Stream stream);

 private:
  std::vector<std::byte>& new_memory(int64_t bytes);

  std::vector<std::unique_ptr<std::vector<std::byte>>> memory_;
  std::vector<HostTensor> tensors_;
  bool ok_ = true;
};

// Empty for conventions that there are not.
std::optional<CallFacts> facts_of(const char* kernel, const msda_call& call);

// What a call is to write: calls with equal inputs that do not want the same are not the same.
struct Wanted {
  const msda_tensor *grad_value, *grad_sampling_locations, *grad_attention_weights;
};
std::string in_words(const Wanted& wanted);

// A function of libmsda behind the preload's own of that name, also where only a plug-in that is linked to libmsda
// brought it into the process; null if there is none.
void* real_of_libmsda(const char* name) noexcept;

// That function, once it is known. F: its type.
template <class F>
class RealFunction {
 public:
  // Null if nobody but the preload defines it: the program was not linked to libmsda.
  F get(const char* name) noexcept {
    F real = real_.load();
    if (real == nullptr) {
      real = reinterpret_cast<F>(real_of_libmsda(name));
      real_ = real;
    }
    return real;
  }
  // What dlsym gives for a function that it has `found`: the preload's `own`, or null for what was found.
  void* substitute(F own, void* found) noexcept {
    const auto real = reinterpret_cast<F>(found);
    if (real == own) return nullptr;
    F none = nullptr;
    // One libmsda in a process; of a second copy the calls go by unrecorded.
    if (!real_.compare_exchange_strong(none, real) && none != real) return nullptr;
    return reinterpret_cast<void*>(own);
  }

 private:
  std::atomic<F> real_{nullptr};
};

}  // namespace msda::record
