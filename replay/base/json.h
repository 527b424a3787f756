// JSON whose objects keep the order in which their members were added: what the commands print.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace msda::replay {

using Json = nlohmann::ordered_json;

}  // namespace msda::replay
