// Linked to libcuda and libcupti, and loaded by the client as Python loads Triton's launchers and PyTorch: what it
// calls is found by the dynamic linker, in the global scope first, and its libraries are in nobody else's scope.
#include "tests/stand_in_driver/client.h"
#include "tests/stand_in_driver/profiler.h"

extern "C" __attribute__((visibility("default"))) void plugin_find(msda::stand_in::Api* api,
                                                                   msda::stand_in::ProfilerApi* profiler) {
  using namespace msda::stand_in;
#define MSDA_STAND_IN_LINKED(name) api->name = &msda::stand_in::name;
  MSDA_STAND_IN_FUNCTIONS(MSDA_STAND_IN_LINKED)
#undef MSDA_STAND_IN_LINKED
  *profiler = {&cuptiSubscribe, &cuptiUnsubscribe, &cuptiEnableCallback, &cuptiFinalize};
}
