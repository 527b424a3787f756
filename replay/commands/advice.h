// What `advise` found, in words and in Python.
#pragma once

#include <string>

#include "replay/base/json.h"
#include "replay/base/lines.h"
#include "replay/calls/loaded_call.h"

namespace msda::replay {

// Returns the mask, if there is one, and the comparison, for a test in Python.
std::string patch_of(const Json& advice, const LoadedCall& loaded);
Lines advice_text(const Json& advice);
// Returns the text of a pull request.
std::string to_markdown(const Json& advice);

}  // namespace msda::replay
