// Every function that the preload replaces, in one table, from which declarations, exports, wrappers and the list of
// exports (exports.map.in) are generated. Macros only, because the preprocessor makes that list.
//
// A row is X(name, result, parameters, arguments, handler, ...): the wrapper of that name calls handler(hook) with the
// arguments, and the hook knows the real function.
#pragma once

#include "recorder/preload/hooks/graph_table.h"
#include "recorder/preload/hooks/memory_table.h"

// cuda.h. After the handler: the name for cuGetProcAddress, CUDA's version up to which that name has this signature,
// and whether it is the twin for per-thread default streams (CUPTI and the driver call it _ptsz), which follows the
// function that it is the twin of.
// clang-format off
#define MSDA_DRIVER_HOOKS(X)                                                                                           \
  X(cuLaunchKernel, cuda::Result,                                                                                      \
    (cuda::Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,            \
     unsigned shared_bytes, cuda::Stream stream, void** parameters, void** extra),                                     \
    (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters, extra),                                       \
    launched_plainly, "cuLaunchKernel", 13000, false)                                                                  \
  X(cuLaunchKernel_ptsz, cuda::Result,                                                                                 \
    (cuda::Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,            \
     unsigned shared_bytes, cuda::Stream stream, void** parameters, void** extra),                                     \
    (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters, extra),                                       \
    launched_plainly, "cuLaunchKernel", 13000, true)                                                                   \
  X(cuLaunchKernelEx, cuda::Result,                                                                                    \
    (const cuda::LaunchConfig* config, cuda::Function function, void** parameters, void** extra),                      \
    (config, function, parameters, extra), launched_by_config, "cuLaunchKernelEx", 13000, false)                       \
  X(cuLaunchKernelEx_ptsz, cuda::Result,                                                                               \
    (const cuda::LaunchConfig* config, cuda::Function function, void** parameters, void** extra),                      \
    (config, function, parameters, extra), launched_by_config, "cuLaunchKernelEx", 13000, true)                        \
  X(cuLaunchCooperativeKernel, cuda::Result,                                                                           \
    (cuda::Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,            \
     unsigned shared_bytes, cuda::Stream stream, void** parameters),                                                   \
    (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters),                                              \
    launched_cooperatively, "cuLaunchCooperativeKernel", 13000, false)                                                 \
  X(cuLaunchCooperativeKernel_ptsz, cuda::Result,                                                                      \
    (cuda::Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,            \
     unsigned shared_bytes, cuda::Stream stream, void** parameters),                                                   \
    (function, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters),                                              \
    launched_cooperatively, "cuLaunchCooperativeKernel", 13000, true)                                                  \
  X(cuCtxSynchronize, cuda::Result, (), (), waited, "cuCtxSynchronize", 12000, false)                                  \
  X(cuCtxSynchronize_v2, cuda::Result, (cuda::Context context), (context), waited, "cuCtxSynchronize", 13000, false)   \
  X(cuCtxDestroy_v2, cuda::Result, (cuda::Context context), (context), ended_context, "cuCtxDestroy", 13000, false)    \
  X(cuDevicePrimaryCtxReset_v2, cuda::Result, (int device), (device), ended_context, "cuDevicePrimaryCtxReset", 13000, \
    false)                                                                                                             \
  X(cuDevicePrimaryCtxRelease_v2, cuda::Result, (int device), (device), ended_context, "cuDevicePrimaryCtxRelease",    \
    13000, false)                                                                                                      \
  X(cuStreamSynchronize, cuda::Result, (cuda::Stream stream), (stream), waited, "cuStreamSynchronize", 13000, false)   \
  X(cuStreamSynchronize_ptsz, cuda::Result, (cuda::Stream stream), (stream), waited, "cuStreamSynchronize", 13000,     \
    true)                                                                                                              \
  X(cuStreamDestroy_v2, cuda::Result, (cuda::Stream stream), (stream), destroyed_stream, "cuStreamDestroy", 13000,     \
    false)                                                                                                             \
  X(cuEventSynchronize, cuda::Result, (cuda::Event event), (event), waited, "cuEventSynchronize", 13000, false)        \
  X(cuEventCreate, cuda::Result, (cuda::Event* event, unsigned flags), (event, flags), created_event, "cuEventCreate", \
    13000, false)                                                                                                      \
  X(cuEventDestroy_v2, cuda::Result, (cuda::Event event), (event), destroyed_event, "cuEventDestroy", 13000, false)    \
  X(cuEventRecord, cuda::Result, (cuda::Event event, cuda::Stream stream), (event, stream), recorded_event,            \
    "cuEventRecord", 13000, false)                                                                                     \
  X(cuEventRecord_ptsz, cuda::Result, (cuda::Event event, cuda::Stream stream), (event, stream), recorded_event,       \
    "cuEventRecord", 13000, true)                                                                                      \
  X(cuEventRecordWithFlags, cuda::Result, (cuda::Event event, cuda::Stream stream, unsigned flags),                    \
    (event, stream, flags), recorded_event, "cuEventRecordWithFlags", 13000, false)                                    \
  X(cuEventRecordWithFlags_ptsz, cuda::Result, (cuda::Event event, cuda::Stream stream, unsigned flags),               \
    (event, stream, flags), recorded_event, "cuEventRecordWithFlags", 13000, true)                                     \
  X(cuModuleLoadData, cuda::Result, (cuda::Module* module, const void* image), (module, image), loaded_module,         \
    "cuModuleLoadData", 13000, false)                                                                                  \
  X(cuModuleLoadDataEx, cuda::Result,                                                                                  \
    (cuda::Module* module, const void* image, unsigned count, int* options, void** values),                            \
    (module, image, count, options, values), loaded_module, "cuModuleLoadDataEx", 13000, false)                        \
  X(cuModuleLoadFatBinary, cuda::Result, (cuda::Module* module, const void* image), (module, image), loaded_module,    \
    "cuModuleLoadFatBinary", 13000, false)                                                                             \
  X(cuModuleUnload, cuda::Result, (cuda::Module module), (module), unloaded_module, "cuModuleUnload", 13000, false)    \
  X(cuLibraryLoadData, cuda::Result,                                                                                   \
    (cuda::Library* library, const void* image, int* jit_options, void** jit_values, unsigned jit_count, int* options, \
     void** values, unsigned count),                                                                                   \
    (library, image, jit_options, jit_values, jit_count, options, values, count), loaded_library, "cuLibraryLoadData", \
    13000, false)                                                                                                      \
  X(cuLibraryUnload, cuda::Result, (cuda::Library library), (library), unloaded_library, "cuLibraryUnload", 13000,     \
    false)                                                                                                             \
  MSDA_MEMORY_HOOKS(X)                                                                                                 \
  MSDA_GRAPH_HOOKS(X)                                                                                                  \
  X(cuGetProcAddress, cuda::Result, (const char* symbol, void** function, int version, uint64_t flags),                \
    (symbol, function, version, flags), asked_for_function, "", 13000, false)                                          \
  X(cuGetProcAddress_v2, cuda::Result, (const char* symbol, void** function, int version, uint64_t flags, int* status),\
    (symbol, function, version, flags, status), asked_for_function, "", 13000, false)

// cupti.h
#define MSDA_CUPTI_HOOKS(X)                                                                                            \
  X(cuptiSubscribe, cupti::Result, (cupti::Subscriber* theirs, cupti::Callback* callback, void* user),                 \
    (theirs, callback, user), makes_room)                                                                              \
  X(cuptiSubscribe_v2, cupti::Result,                                                                                  \
    (cupti::Subscriber* theirs, cupti::Callback* callback, void* user, void* parameters),                              \
    (theirs, callback, user, parameters), makes_room)                                                                  \
  X(cuptiFinalize, cupti::Result, (), (), ends_cupti)

// stdlib.h. None of these throws.
#define MSDA_LIBC_SEED_HOOKS(X)                                                                                        \
  X(srand, void, (unsigned seed), (seed), sets_seed)                                                                   \
  X(srandom, void, (unsigned seed), (seed), sets_seed)                                                                 \
  X(srand48, void, (long seed), (seed), sets_seed)                                                                     \
  X(initstate, char*, (unsigned seed, char* state, size_t size), (seed, state, size), sets_state)                      \
  X(seed48, unsigned short*, (unsigned short seed[3]), (seed), sets_48_bits)

// Functions of torch and cuRAND. After the handler: the symbol. Torch's functions throw if a seed must not be set, for
// example while a graph is captured.
#define MSDA_LIBRARY_SEED_HOOKS(X)                                                                                     \
  X(_ZN2at17CUDAGeneratorImpl16set_current_seedEm, void, (void* generator, uint64_t seed), (generator, seed),          \
    sets_cuda_seed)                                                                                                    \
  X(_ZN2at16CPUGeneratorImpl16set_current_seedEm, void, (void* generator, uint64_t seed), (generator, seed),           \
    sets_cpu_seed)                                                                                                     \
  X(curandSetPseudoRandomGeneratorSeed, int, (void* generator, unsigned long long seed), (generator, seed),            \
    sets_curand_seed)

// kernels/msda.h
#define MSDA_ABI_HOOKS(X)                                                                                              \
  X(msda_backward, msda_status,                                                                                        \
    (const msda_call* call, const msda_tensor* grad_output, const msda_options* options,                               \
     const msda_tensor* grad_value, const msda_tensor* grad_sampling_locations,                                        \
     const msda_tensor* grad_attention_weights),                                                                       \
    (call, grad_output, options, grad_value, grad_sampling_locations, grad_attention_weights), records_cpu_call)       \
  X(msda_cuda_backward, msda_status,                                                                                   \
    (const msda_call* call, const msda_tensor* grad_output, const msda_options* options,                               \
     const msda_tensor* grad_value, const msda_tensor* grad_sampling_locations,                                        \
     const msda_tensor* grad_attention_weights, void* stream),                                                         \
    (call, grad_output, options, grad_value, grad_sampling_locations, grad_attention_weights, stream),                 \
    records_gpu_call)

// Functions of the preload itself, or with wrappers that no row can describe: X(name).
#define MSDA_OTHER_EXPORTS(X) X(InitializeInjection) X(_Exit) X(_exit) X(dlsym) X(msda_record_complete) X(msda_record_discard) X(msda_record_label) X(msda_record_survey)
// clang-format on
