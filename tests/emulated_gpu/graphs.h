// What tests set and read of the emulated GPU's contexts, streams and graphs. A program, or ctypes, sees the same.
#pragma once

extern "C" {

// The current context's number: another one stands for a reset of the device. Using a graph of another context aborts.
extern int emulated_gpu_context;
extern int emulated_gpu_captures;  // whether streams are captured

enum { kRefusesNothing, kRefusesInstances, kRefusesParameters, kRefusesLaunches };
extern int emulated_gpu_refuses;

// How often: graphs with branches launched, graphs launched, instances made and destroyed, kernels of instances
// changed.
extern int emulated_gpu_forks, emulated_gpu_graph_launches, emulated_gpu_instances, emulated_gpu_destroyed,
    emulated_gpu_changes;
}
