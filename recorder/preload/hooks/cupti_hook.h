// Catches loaded code, and the launches that the driver hook does not see, by CUPTI, where it is to be had.
//
// The driver calls InitializeInjection() of the library that CUDA_INJECTION64_PATH names, in cuInit, and so only in
// processes that really use CUDA. CUPTI takes one subscriber: whoever else asks for it gets it, and the driver hook
// goes on alone.
#pragma once

namespace msda::record {

// Names this library to the driver, unless the settings forbid it or another one is named. Called when it is loaded.
void offer_injection() noexcept;

// Whether launches are CUPTI's to handle (--hook cupti), and the driver hook lets them pass.
bool cupti_takes_launches() noexcept;

// Whether the driver hook has this thread's launch in hand.
extern constinit thread_local bool launch_is_seen;

}  // namespace msda::record
