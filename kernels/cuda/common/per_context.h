// What is kept for each CUDA context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "kernels/cuda/common/context.h"

namespace msda::kernels::cuda {

// A T for each of the most recent contexts. T::end_of_context() is called when the context has ended, before the T is
// destroyed; if there are too many, one is destroyed whose context may still live. Not thread-safe.
template <class T>
class PerContext {
 public:
  // Returns the context's T, valid until this is called for another context. Throws std::bad_alloc.
  T& of(const Context& context) {
    const auto found = kept_.find(context.number);
    return found != kept_.end() ? found->second.content : added(context);
  }

 private:
  static constexpr size_t kMost = 64;
  struct Kept {
    const void* address;
    T content;
  };

  T& added(const Context& context) {
    for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
      if (kept->second.address != context.address) continue;
      kept->second.content.end_of_context();  // the address is another context's by now, as after a reset of the device
      kept_.erase(kept);
      break;
    }
    if (kept_.size() >= kMost) kept_.erase(kept_.begin());
    Kept& kept = kept_[context.number];
    kept.address = context.address;
    return kept.content;
  }

  std::map<uint64_t, Kept> kept_;  // by the context's number
};

}  // namespace msda::kernels::cuda
