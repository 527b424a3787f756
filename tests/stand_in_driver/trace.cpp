#include "tests/stand_in_driver/trace.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

namespace msda::stand_in {
namespace {

std::atomic<Tracer> current_tracer{nullptr};

}  // namespace

Tracer tracer() { return current_tracer; }

void trace_module(uint32_t id, uint32_t module, const std::vector<std::byte>& cubin) {
  const Tracer report = tracer();
  if (!report || cubin.empty()) return;
  // A copy that dies on return, as the driver's does.
  const std::vector<std::byte> copy = cubin;
  const ModuleData data{module, copy.size(), reinterpret_cast<const char*>(copy.data())};
  const ResourceData resource{nullptr, nullptr, &data};
  report(kDomainResource, id, &resource);
}

void inject() {
  static const bool kDone = [] {
    const char* path = getenv("CUDA_INJECTION64_PATH");
    void* library = path ? dlopen(path, RTLD_NOW) : nullptr;
    if (library) {
      if (auto* start = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"))) start();
    }
    return true;
  }();
  (void)kDone;
}

}  // namespace msda::stand_in

void stand_in_set_tracer(msda::stand_in::Tracer tracer) { msda::stand_in::current_tracer = tracer; }
