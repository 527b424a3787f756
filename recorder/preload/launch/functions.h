// The program's functions: which are kernels to record, and which no adapter matches.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "recorder/adapters/adapter.h"
#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/driver/images.h"

namespace msda::record {

// Returns an empty name if the driver does not know it. Sets `is_kernel` if the function is a CUkernel.
const char* name_of_function(cuda::Function function, bool& is_kernel);

// A handle may mean another function once its module is unloaded: what is known of a function is remembered only until
// code is unloaded. launch.cpp remembers launches of matched functions, by thread.
class Functions {
 public:
  Functions();
  static Functions& instance();

  bool is_unmatched(cuda::Function function) const {
    return slot(function).load(std::memory_order_relaxed) == tag(function);
  }

  // Returns null for a function that no adapter knows or that is not selected; from then on it is unmatched.
  const adapters::Adapter* adapter_of(cuda::Function function, std::string& name, bool& is_kernel);

  // Warns once for each kernel and reason.
  void refuse(const std::string& name, const std::string& reason);

 private:
  const adapters::Adapter* adapter_of(const std::string& name);
  void forget_in_child();

  // Returns a handle and the number of unloads in one word. The factor is odd, so that for one handle no two numbers
  // give the same word.
  static uintptr_t tag(cuda::Function function) {
    return reinterpret_cast<uintptr_t>(function) ^ unloads() * 0x9e3779b97f4a7c15;
  }
  std::atomic<uintptr_t>& slot(cuda::Function function) const {
    return unmatched_[(reinterpret_cast<uintptr_t>(function) >> 4) % kUnmatchedSlots];
  }

  static constexpr size_t kUnmatchedSlots = 16384;
  mutable std::atomic<uintptr_t> unmatched_[kUnmatchedSlots] = {};
  std::mutex mutex_;
  std::unordered_map<std::string, const adapters::Adapter*> known_;
  std::unordered_set<std::string> refused_;
};

}  // namespace msda::record
