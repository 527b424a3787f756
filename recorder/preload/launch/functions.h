// What is known of the program's functions: which of them are kernels to record, and which are none of the recorder's.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "recorder/adapters/adapter.h"
#include "recorder/preload/driver/driver_api.h"

namespace msda::record {

// A handle may come to mean another function when its module is unloaded, so a match is made sure of by the name at
// each launch; a function that was nothing to us stays that.
class Functions {
 public:
  static Functions& instance();

  bool is_stranger(cuda::Function function) const {
    return stranger(function).load(std::memory_order_relaxed) == reinterpret_cast<uintptr_t>(function);
  }

  // Null for a function that no adapter knows or nobody asked for: from then on it is a stranger.
  const adapters::Adapter* adapter_of(cuda::Function function, std::string& name, bool& is_kernel);

  // One line for each kernel and reason.
  void refuse(const std::string& name, const std::string& reason);

 private:
  const adapters::Adapter* adapter_of(const std::string& name);

  std::atomic<uintptr_t>& stranger(cuda::Function function) const {
    return strangers_[(reinterpret_cast<uintptr_t>(function) >> 4) % kStrangers];
  }

  static constexpr size_t kStrangers = 16384;
  mutable std::atomic<uintptr_t> strangers_[kStrangers] = {};
  std::mutex mutex_;
  std::unordered_map<std::string, const adapters::Adapter*> known_;
  std::unordered_set<std::string> refused_;
};

}  // namespace msda::record
