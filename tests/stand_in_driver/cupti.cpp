// A libcupti for tests: one subscriber, which is notified of the stand-in driver's launches and modules. Results are
// those of CUPTI 13.0.
#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "tests/stand_in_driver/trace.h"

namespace msda::stand_in {
namespace {

using Callback = void (*)(void* user, int domain, uint32_t id, const void* data);
enum : int { kSuccess = 0, kInvalidParameter = 1, kMultipleSubscribers = 39 };

struct Subscriber {
  Callback callback;
  void* user;
  std::set<std::pair<int, uint32_t>> enabled;
};

std::mutex mutex;
Subscriber* the_one = nullptr;

void set_tracer(Tracer tracer) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  reinterpret_cast<decltype(&stand_in_set_tracer)>(dlsym(driver, "stand_in_set_tracer"))(tracer);
}

void report(int domain, uint32_t id, const void* data) {
  Callback callback = nullptr;
  void* user = nullptr;
  {
    const std::lock_guard lock(mutex);
    if (!the_one || !the_one->enabled.contains({domain, id})) return;
    callback = the_one->callback;
    user = the_one->user;
  }
  callback(user, domain, id, data);
}

void end_subscription() {
  delete the_one;
  the_one = nullptr;
  set_tracer(nullptr);
}

}  // namespace

extern "C" {

#pragma GCC visibility push(default)

int cuptiSubscribe(Subscriber** subscriber, Callback callback, void* user) {
  const std::lock_guard lock(mutex);
  if (!subscriber) return kInvalidParameter;
  if (the_one) return kMultipleSubscribers;
  *subscriber = the_one = new Subscriber{callback, user, {}};
  set_tracer(report);
  return kSuccess;
}

int cuptiSubscribe_v2(Subscriber** subscriber, Callback callback, void* user, void*) {
  return cuptiSubscribe(subscriber, callback, user);
}

int cuptiUnsubscribe(Subscriber* subscriber) {
  const std::lock_guard lock(mutex);
  if (!subscriber || subscriber != the_one) return kInvalidParameter;
  end_subscription();
  return kSuccess;
}

int cuptiEnableCallback(uint32_t enable, Subscriber* subscriber, int domain, uint32_t id) {
  const std::lock_guard lock(mutex);
  if (!subscriber || subscriber != the_one) return kInvalidParameter;
  if (enable) {
    subscriber->enabled.insert({domain, id});
  } else {
    subscriber->enabled.erase({domain, id});
  }
  return kSuccess;
}

int cuptiFinalize(void) {
  const std::lock_guard lock(mutex);
  end_subscription();
  return kSuccess;
}

#pragma GCC visibility pop
}

}  // namespace msda::stand_in
