// From an invocation of a capture to the call of its operator.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "analysis/model/call.h"
#include "recorder/capture/capture.h"

namespace msda::replay {

// Returns the name of the operator whose backward the invocation is, by the marks of its row; empty for a kernel of no
// operator that is known.
std::string operator_of(const capture::Invocation& invocation);

// Returns the tensor of that name.
using GetTensor = std::function<analysis::Tensor(const char* name)>;

// What a call is loaded from.
struct CallSource {
  const capture::Invocation& invocation;
  std::string where;  // begins the message of each BadInput
  GetTensor input;    // throws BadInput if there is none of the name
  // The output of that name, what its buffer held before the call, and the result that it was compared with; without
  // data if it was not recorded.
  GetTensor recorded = {}, before = {}, reference = {};
};

// How calls of an operator are loaded: a file for each operator in operators/ defines its loader.
struct OperatorLoader {
  // Checks sizes and conventions. Throws BadInput.
  std::shared_ptr<const analysis::Call> (*load)(const CallSource& source);
  // Returns why a call would take too long to look at, or nothing. Throws BadInput where load() does.
  std::string (*why_too_large)(const CallSource& source) = nullptr;
  const char* sized_by = "";  // the input whose data why_too_large() reads
};
// Returns null for an operator of the user's own, and for none.
const OperatorLoader* loader_of(const std::string& operator_name);

// Throws BadInput, also for conventions that the operator does not have.
std::shared_ptr<const analysis::Call> call_of(const CallSource& source);

}  // namespace msda::replay
