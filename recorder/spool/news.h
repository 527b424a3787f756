// What the target and its writer send each other through their socket. The target sends a byte when the spool has new
// frames; it may be lost if the socket is full of others.
#pragma once

#include <cstdint>

namespace msda::spool {

// The writer's answer to a Cut (messages.h) that completes a capture: the file is closed.
struct CutDone {
  uint64_t number = 0;
  int64_t invocations = 0;  // in the completed capture
  uint64_t renamed = 0;     // it has next_name() of this number; 0: the name that the target knows
};

}  // namespace msda::spool
