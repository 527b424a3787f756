// How a command ends other than by finishing its work.
#pragma once

#include <stdexcept>

namespace msda::replay {

enum ExitStatus { kWithinTolerance = 0, kDrift = 1, kBadInput = 2, kUnavailable = 3 };

// Bad usage, or input that makes no sense: exit status 2.
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A mode or device that is not to be had here: exit status 3.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace msda::replay
