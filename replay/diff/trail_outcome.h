// Compares what a command names: two files, two folders with a file for each rank, or several runs.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "replay/base/json.h"
#include "replay/base/lines.h"

namespace msda::replay {

struct TrailOutcome {
  Json json;             // docs/diff.schema.json, "trail"
  std::string headline;  // the answer
  std::string place;     // where the runs part, if they do
  Lines text;            // the rest
  bool is_equal() const { return json["equal"].get<bool>(); }
};

// Compares files, or folders of files: the first with each other one. Throws BadInput.
TrailOutcome compare_trails(const std::vector<std::string>& operands);

}  // namespace msda::replay
