// Knows which of the program's events record time, and so may be used for measuring.
#pragma once

#include "recorder/preload/driver/driver_api.h"

namespace msda::record {

void event_created(cuda::Event event, unsigned flags) noexcept;
void event_destroyed(cuda::Event event) noexcept;
// Returns false for an event that was created without timing, only to order streams.
bool keeps_time(cuda::Event event) noexcept;

}  // namespace msda::record
