// Which of the program's events keep time, as those do that it measures with.
#pragma once

#include "recorder/preload/driver/driver_api.h"

namespace msda::record {

void event_created(cuda::Event event, unsigned flags) noexcept;
void event_destroyed(cuda::Event event) noexcept;
// False for one that was created to order streams only.
bool keeps_time(cuda::Event event) noexcept;

}  // namespace msda::record
