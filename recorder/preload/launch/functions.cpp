#include "recorder/preload/launch/functions.h"

#include <pthread.h>

#include <new>

#include "recorder/adapters/made_once.h"
#include "recorder/preload/session/asked_adapters.h"
#include "recorder/preload/session/config.h"
#include "recorder/preload/session/observations.h"
#include "recorder/preload/session/own_thread.h"
#include "recorder/preload/session/recording.h"
#include "recorder/preload/session/warn.h"

namespace msda::record {
namespace {

// Definitions of operators and files of adapters hold regular expressions, which take stack, and this thread may have
// little.
const adapters::Adapter* find_adapter(const std::string& name) {
  const adapters::Adapter* match = nullptr;
  const auto find = [&] {
    for (const adapters::Adapter* adapter : asked_adapters()) {
      if (match == nullptr && adapter->matches(name)) match = adapter;
    }
  };
  if (!(config().adapters.empty() ? on_enough_stack(find) : on_own_thread(find))) {
    warn("kernel " + name + " is not recorded: no thread can be started to compare it with those of the adapters");
  }
  return match;
}

}  // namespace

const char* name_of_function(cuda::Function function, bool& is_kernel) {
  // The driver is slow to reject a handle of the wrong kind, so the kind that the thread launched last is tried first.
  static thread_local bool kernels = false;
  for (const bool kernel : {kernels, !kernels}) {
    const char* name = nullptr;
    const auto ask = kernel ? cuda::driver().kernel_name : cuda::driver().function_name;
    if (ask(&name, function) != cuda::kSuccess || name == nullptr) continue;
    is_kernel = kernels = kernel;
    return name;
  }
  is_kernel = false;
  return "";
}

Functions::Functions() {
  pthread_atfork(nullptr, nullptr, [] { instance().forget_in_child(); });
}

// Nothing is destroyed, because another thread of the parent may have been changing it.
void Functions::forget_in_child() {
  new (&mutex_) std::mutex;
  new (&known_) std::unordered_map<std::string, const adapters::Adapter*>;
  new (&refused_) std::unordered_set<std::string>;
}

[[gnu::hot]] Functions& Functions::instance() {
  static constinit MadeOnce<Functions> functions;
  return functions.get();
}

const adapters::Adapter* Functions::adapter_of(cuda::Function function, std::string& name, bool& is_kernel) {
  const adapters::Adapter* adapter = nullptr;
  if (cuda::driver().missing == nullptr) {
    name = name_of_function(function, is_kernel);
    adapter = adapter_of(name);
  } else {
    static constinit std::atomic<bool> said{false};
    if (!said.exchange(true)) {
      warn(std::string("this CUDA driver lacks ") + cuda::driver().missing +
           ", which drivers have from CUDA 12 on; launches are not recorded");
    }
  }
  if (adapter == nullptr) slot(function).store(tag(function), std::memory_order_relaxed);
  return adapter;
}

const adapters::Adapter* Functions::adapter_of(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(name);
  if (found != known_.end()) return found->second;
  const adapters::Adapter* match = find_adapter(name);
  const bool excluded = match != nullptr && !recording().wants(name.c_str());
  observe(match == nullptr ? "unmatched"
          : excluded       ? "excluded"
                           : "matched",
          match != nullptr && !excluded ? std::string(match->name()) + "\t" + name : name);
  if (excluded) match = nullptr;
  known_.emplace(name, match);
  return match;
}

void Functions::refuse(const std::string& name, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!refused_.insert(name + reason).second) return;
  }
  observe("refused", name + "\t" + reason);
  warn("kernel " + name + " is not recorded: " + reason);
}

}  // namespace msda::record
