// Exceptions that end a command.
#pragma once

#include <stdexcept>

namespace msda::replay {

enum ExitStatus { kWithinTolerance = 0, kDrift = 1, kBadInput = 2, kUnavailable = 3 };

// Bad usage or invalid input: exit status 2.
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A mode or device that is unavailable here: exit status 3.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace msda::replay
