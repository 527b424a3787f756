// Threads of the recorder in the recorded program. They handle no signal of the program, and have a stack of their own
// size: the program's threads may have 16 KiB, and so may those that ulimit -s leaves the default.
#pragma once

#include <functional>

namespace msda::record {

// Starts a detached thread. Returns false if no thread can be started.
bool start_own_thread(void* (*run)(void*), void* argument) noexcept;

// Does the work on a thread, and waits for it. Returns false if no thread can be started, or the work throws.
bool on_own_thread(const std::function<void()>& work) noexcept;

// Returns whether this thread has 64 KiB of stack left. Returns false also on a stack of the program's own making, as
// of a coroutine or of a signal handler.
bool has_much_stack() noexcept;

// Does the work here if this thread has much stack left, or else on_own_thread(). Meant for what a recording does once:
// what it does for each call takes little stack.
bool on_enough_stack(const std::function<void()>& work) noexcept;

}  // namespace msda::record
