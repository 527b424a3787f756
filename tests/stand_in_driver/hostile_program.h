// What the words of stand_in_hostile_client do. Each launch of the program adds to a number: one that runs again and is
// not put back shows.
#pragma once

#include <atomic>
#include <span>
#include <string>

#include "tests/stand_in_driver/client.h"
#include "tests/stand_in_driver/survey_images.h"

namespace msda::stand_in {

// What a context has of the program's; made in the calling thread's.
struct ContextState {
  explicit ContextState(const Client& client);

  void add_one(CUstream on) const;
  void add_one() const { add_one(stream); }
  // A sum in an order that is drawn anew.
  void sum() const;
  CUfunction load(const std::string& kernel, Code code, CUmodule* module = nullptr) const;
  void launch(CUfunction function, CUstream on, std::span<const Argument> arguments) const {
    client.launch({}, function, {4}, {32}, on, arguments);
  }
  int number_now() const;

  const Client& client;
  CUstream stream = nullptr;
  CUmodule module = nullptr;
  CUfunction tiny = nullptr, drawn = nullptr;
  CUdeviceptr number = 0, values = 0, total = 0;
};

// The driver's functions that Client has not.
struct MoreFunctions {
  decltype(&cuStreamQuery) query = nullptr;
  decltype(&cuLaunchHostFunc) host_function = nullptr;
  decltype(&cuStreamWaitValue32_v2) wait_value = nullptr;
  decltype(&cuCtxGetCurrent) current_context = nullptr;
  decltype(&cuIpcGetMemHandle) export_memory = nullptr;
  decltype(&cuIpcOpenMemHandle_v2) import_memory = nullptr;
  MoreFunctions();
};

// hostile_waits.cpp: launches that wait for what comes later; `times` of them.
void awaits_the_host(const Client& client, int times);
void awaits_a_stream(const Client& client, int times);
void launches_beside_a_host_function(const Client& client, int times);
void launches_beside_a_value(const Client& client, int times);
void launches_beside_an_event(const Client& client, int times);
void takes_long(const Client& client, int milliseconds);
void writes_beside_a_long_launch(const Client& client, int milliseconds);

// hostile_devices.cpp: several contexts, and memory of several processes.
void alternates_devices(const Client& client, int times);
void reaches_the_other_device(const Client& client, int times);
void launches_a_graph_of_two_contexts(const Client& client, int times);
void exports_memory(const Client& client, int times);
void imports_memory(const Client& client, int times);
void makes_contexts(const Client& client, int times);

}  // namespace msda::stand_in
