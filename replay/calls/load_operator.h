// From an invocation of a capture to the call of its operator.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "analysis/model/call.h"
#include "recorder/capture/capture.h"

namespace msda::replay {

// Returns the operator whose backward the invocation is, "grid_sample", by the marks of its row; empty for a kernel of
// no operator that is known.
std::string operator_of(const capture::Invocation& invocation);

// The input of that name; throws BadInput if there is none.
using GetInput = std::function<analysis::Tensor(const char* name)>;

// The output of that name, what its buffer held before the call, or the result that it was compared with; without data
// if it was not recorded.
using GetResult = std::function<analysis::Tensor(const char* name)>;

// Returns why a call is not looked at though its operator is known: it would take too long. Empty for others, and for
// those that call_of() refuses. Asks for inputs of which it needs no data, but of roi_align's boxes.
std::string why_too_large(const capture::Invocation& invocation, const std::string& where, const GetInput& input);

// Throws BadInput for an unknown one.
msda_dialect dialect_from(const std::string& name, const std::string& where);

// Checks sizes and conventions. Throws BadInput, whose message begins with `where`.
std::shared_ptr<const analysis::Call> call_of(const capture::Invocation& invocation, const std::string& where,
                                              const GetInput& input, const GetResult& before, const GetResult& recorded,
                                              const GetResult& reference);

}  // namespace msda::replay
