// Threads of the recorder in the recorded program.
#pragma once

namespace msda::record {

// Starts a detached thread that handles no signal of the program. False if there can be no thread.
bool start_own_thread(void* (*run)(void*), void* argument) noexcept;

}  // namespace msda::record
