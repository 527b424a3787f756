// The bytes that the target sends through the socket to its writer. One may be lost if the socket is full of others.
#pragma once

namespace msda::spool {

enum class News : char {
  kFrames = 0,  // the spool has new frames
  kEnding = 1   // the target is ending, and all that it has recorded is in the spool
};

}  // namespace msda::spool
