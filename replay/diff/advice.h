// What to do about the first divergence of two captures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "replay/diff/differences.h"

namespace msda::replay {

struct Advice {
  std::string why;      // what equal or other inputs say
  std::string type;     // a line to type in the program; empty: none is known for the kernel
  std::string note;     // what else is to be known about it
  std::string command;  // what to type next; empty: `next` says what to do
  std::string next;
};

// Returns the first difference of each call that varies by itself: its inputs are equal and its outputs are not, and
// nothing else is known that may be why.
std::vector<const Difference*> calls_that_vary(const Differences& differences);

// Returns advice if the first call that differs has other inputs, or if it varies by itself: its inputs are equal, and
// nothing else is known that may have changed its outputs. `a` is the capture A, as the user named it.
std::optional<Advice> advice_on(const Differences& differences, const std::string& a);

}  // namespace msda::replay
