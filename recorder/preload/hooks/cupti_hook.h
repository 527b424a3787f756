// Intercepts loaded code, and launches that the driver hook misses, through CUPTI, if CUPTI is available.
//
// In cuInit, and so only in processes that use CUDA, the driver calls InitializeInjection() of the library that
// CUDA_INJECTION64_PATH names. CUPTI accepts one subscriber: if the program subscribes, the recorder unsubscribes and
// continues with the driver hook alone.
#pragma once

namespace msda::record {

// Sets CUDA_INJECTION64_PATH to this library, unless the settings forbid it or another one is named. Called when the
// library is loaded.
void offer_injection() noexcept;

// Returns whether CUPTI handles launches (--hook cupti), so that the driver hook ignores them.
bool cupti_takes_launches() noexcept;

// Whether the driver hook is handling this thread's launch.
extern constinit thread_local bool launch_is_seen;

}  // namespace msda::record
