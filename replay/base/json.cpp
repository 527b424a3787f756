#include "replay/base/json.h"

#include <nlohmann/json.hpp>

namespace msda::replay {

Json json_of(std::string_view text) { return Json::parse(text); }

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string text_of(const Json& json) { return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n"; }

}  // namespace msda::replay
