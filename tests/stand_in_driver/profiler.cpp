#include "tests/stand_in_driver/profiler.h"

#include <dlfcn.h>

#include <atomic>
#include <stdexcept>
#include <string_view>

#include "tests/stand_in_driver/trace.h"

namespace msda::stand_in {
namespace {

std::atomic<int> launches_begun{0};

// The program's own launches: a recorder's digests are launches too, as a profiler of the real driver would show.
void called_back(void*, int domain, uint32_t, const void* data) {
  const auto* call = static_cast<const CallbackData*>(data);
  if (domain != kDomainDriver || call->site != 0) return;
  if (std::string_view(call->symbol_name).starts_with("msda_record_")) return;
  ++launches_begun;
}

}  // namespace

ProfilerApi profiler_api(Via via) {
  ProfilerApi api{};
  if (via == Via::kLinked) {
    Api unused;
    find_linked(unused, api);
    return api;
  }
  void* const library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  const auto find = [&]<class F>(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
  };
  find(api.subscribe, "cuptiSubscribe");
  find(api.unsubscribe, "cuptiUnsubscribe");
  find(api.enable_callback, "cuptiEnableCallback");
  find(api.finalize, "cuptiFinalize");
  return api;
}

Profiler::Profiler(const ProfilerApi& api) : api_(api) {
  void* subscriber = nullptr;
  if (const int error = api_.subscribe(&subscriber, called_back, nullptr)) {
    throw std::runtime_error("cuptiSubscribe: error " + std::to_string(error));
  }
  for (const uint32_t id : {kCbidLaunch, kCbidLaunchPtsz, kCbidLaunchEx, kCbidLaunchExPtsz}) {
    api_.enable_callback(1, subscriber, kDomainDriver, id);
  }
}

int Profiler::launches() const { return launches_begun; }

}  // namespace msda::stand_in
