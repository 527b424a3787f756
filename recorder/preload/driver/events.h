// Tells which of the program's events record time, and so may be used for measuring.
#pragma once

#include "recorder/preload/driver/driver_api.h"

namespace msda::record {

void event_created(cuda::Event event, unsigned flags) noexcept;
void event_destroyed(cuda::Event event) noexcept;
// False for an event that was created without timing, to order streams only.
bool keeps_time(cuda::Event event) noexcept;

}  // namespace msda::record
