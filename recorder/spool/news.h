// What the target says through the socket that it shares with its writer: a byte each time, which may be lost where the
// socket is full of others.
#pragma once

namespace msda::spool {

enum class News : char {
  kFrames = 0,  // the spool has new frames
  kEnding = 1   // the target is ending, and all that it has recorded is in the spool
};

}  // namespace msda::spool
