// What tests set and read of the emulated GPU's contexts, streams and graphs. A program, or ctypes, sees the same.
#pragma once

extern "C" {

// The current context's number, 0 if the driver does not say, and which address it has: another number at the same
// address stands for a reset of the device. Using a graph of another context aborts.
extern int emulated_gpu_context, emulated_gpu_address;
extern int emulated_gpu_captures;  // whether streams are captured

enum { kRefusesNothing, kRefusesInstances, kRefusesParameters, kRefusesLaunches };
extern int emulated_gpu_refuses;

// How often: graphs with branches launched, graphs launched, instances made and destroyed, kernels of instances
// changed.
extern int emulated_gpu_forks, emulated_gpu_graph_launches, emulated_gpu_instances, emulated_gpu_destroyed,
    emulated_gpu_changes;
// How often: functions of the runtime and the driver called, those among them that exchange the thread's capture mode,
// memory allocated and freed.
extern int emulated_gpu_calls, emulated_gpu_exchanges, emulated_gpu_allocations, emulated_gpu_frees;
}

namespace emulated_gpu {

// Shared by several threads.
void count(int& counter);
// Ends the program if this thread's calls may not allocate beside a capture.
void expect_relaxed();

}  // namespace emulated_gpu
