// What to do about a cause: a sentence, and a line to type.
#pragma once

#include <string_view>

#include "analysis/causes/cause.h"
#include "analysis/model/words.h"

namespace msda::analysis {

// Whose kernel was recorded.
enum class Origin {
  kPyTorch,  // or torchvision's, or cuDNN's
  kDefined,  // a kernel that a definition of the user's own describes, which has no stages
  kOther
};

// Returns the origin of a kernel that no definition of the user's own describes, by its name.
Origin origin_of(std::string_view kernel);

// Returns the help for elements with this cause and party at fault. `kind` says what distinguishes them: the evidence's
// kind (unwritten, added) or "launches" for uninitialized_output, the narrow type for reduced_precision. Its texts have
// placeholders: {atol} and {rtol}, a tolerance that rounding keeps; {type}, the narrow type; {devices}, the arguments
// of msda_replay.torch.deterministic.
const Help& help_on(Cause cause, AtFault at_fault, Origin origin, std::string_view kernel, std::string_view kind);

}  // namespace msda::analysis
