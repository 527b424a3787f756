// Threads of the recorder in the recorded program. They handle no signal of the program, and have a stack of their own
// size: the program's threads may have 16 KiB, and so may those that ulimit -s leaves the default.
#pragma once

#include <functional>

namespace msda::record {

// Starts a detached thread. False if there can be no thread.
bool start_own_thread(void* (*run)(void*), void* argument) noexcept;

// Does the work on a thread, and waits for it. False if there can be no thread, or the work throws.
bool on_own_thread(const std::function<void()>& work) noexcept;

// Whether this thread has 64 KiB of stack left. False also on a stack of the program's own making, as of a coroutine or
// of a signal handler.
bool has_much_stack() noexcept;

// Does the work here if this thread has much stack left, or else on_own_thread(). For what a recording does once: what
// it does for each call takes little.
bool on_enough_stack(const std::function<void()>& work) noexcept;

}  // namespace msda::record
