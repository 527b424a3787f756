// A page of HTML that needs nothing else: a result as JSON, and the script that draws it.
#pragma once

#include <string>

#include "replay/base/json.h"

namespace msda::replay {

// Returns the page. `data` has "kind", which says what to draw: "capture", "index", "survey" or "trails". `text` stands
// there if no script runs. Whatever a capture brings into the three is shown, and never interpreted.
std::string page_of_html(const std::string& title, const std::string& text, const Json& data);

}  // namespace msda::replay
