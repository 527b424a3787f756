// The surveys of several captures, joined by kernel, as a part of the index page.
#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>

#include "replay/report/html/writer.h"

namespace msda::replay {

// The name of a capture, as a link to its page if it has one.
void add_capture_name(Html& html, const std::string& capture, const std::string& page);

// A row for each kernel that varies in a capture: in which, and how often. `surveys`: docs/survey-many.schema.json;
// `page_of`: by capture.
void add_joined_surveys(Html& html, const nlohmann::ordered_json& surveys,
                        const std::map<std::string, std::string>& page_of);

}  // namespace msda::replay
