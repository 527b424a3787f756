// From an invocation to the call of an operator that scatters.
#pragma once

#include "replay/calls/load_operator.h"

namespace msda::replay {

// These load the call as call_of() does.
std::shared_ptr<const analysis::Call> scatter_add_call_of(const capture::Invocation& invocation,
                                                          const std::string& where, const GetInput& input,
                                                          const GetResult& before);

std::shared_ptr<const analysis::Call> interpolate_call_of(const capture::Invocation& invocation,
                                                          const std::string& where, const GetInput& input,
                                                          const GetResult& before, const GetResult& recorded,
                                                          const GetResult& reference);
std::shared_ptr<const analysis::Call> roi_align_call_of(const capture::Invocation& invocation, const std::string& where,
                                                        const GetInput& input);

// Does the same as why_too_large().
std::string why_roi_align_is_too_large(const capture::Invocation& invocation, const std::string& where,
                                       const GetInput& input);

}  // namespace msda::replay
