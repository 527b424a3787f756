// The conventions of a recorded call in JSON, the same in every command.
#pragma once

#include <nlohmann/json.hpp>

#include "recorder/capture/capture.h"

namespace msda::replay {

// Adds dialect (null for a kernel that is not the operator's), padding_mode and align_corners; then the facts with
// other names, among them those of a kernel without a dialect.
inline void put_conventions(nlohmann::ordered_json& json, const capture::CallFacts& facts) {
  json["dialect"] = nullptr;
  if (!facts.dialect.empty()) {
    json["dialect"] = facts.dialect;
    json["padding_mode"] = facts.padding_mode;
    json["align_corners"] = facts.align_corners;
  }
  for (const auto& [name, text] : facts.texts) json.emplace(name, text);
  for (const auto& [name, number] : facts.integers) json.emplace(name, number);
}

}  // namespace msda::replay
