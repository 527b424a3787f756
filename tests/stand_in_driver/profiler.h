// A profiler in the client, as torch.profiler is one: subscribes to CUPTI, and counts launches.
#pragma once

#include <cstdint>

#include "tests/stand_in_driver/client.h"

extern "C" {
int cuptiSubscribe(void** subscriber, void (*callback)(void*, int, uint32_t, const void*), void* user);
int cuptiUnsubscribe(void* subscriber);
int cuptiEnableCallback(uint32_t enable, void* subscriber, int domain, uint32_t id);
int cuptiFinalize(void);
}

namespace msda::stand_in {

struct ProfilerApi {
  decltype(&::cuptiSubscribe) subscribe;
  decltype(&::cuptiUnsubscribe) unsubscribe;
  decltype(&::cuptiEnableCallback) enable_callback;
  decltype(&::cuptiFinalize) finalize;
};

// libcupti.so.13, loaded if it is not there, its functions by dlsym, or, with `via` kLinked, as the plug-in has them.
// Throws std::runtime_error.
ProfilerApi profiler_api(Via via);

class Profiler {
 public:
  // Subscribes. Throws std::runtime_error with CUPTI's result if it may not.
  explicit Profiler(const ProfilerApi& api);
  int launches() const;

 private:
  ProfilerApi api_;
};

}  // namespace msda::stand_in
