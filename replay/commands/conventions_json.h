// The conventions of a recorded call in JSON, the same in every command.
#pragma once

#include <nlohmann/json.hpp>

#include "recorder/capture/capture.h"
#include "replay/calls/load_operator.h"

namespace msda::replay {

// Adds operator (null for a kernel of none that is known), dialect (null for other operators than msda), padding_mode
// and align_corners; then the facts with other names, among them those of a kernel without a dialect.
inline void put_conventions(nlohmann::ordered_json& json, const capture::Invocation& invocation) {
  const capture::CallFacts& facts = invocation.facts;
  const std::string name = operator_of(invocation);
  json["operator"] = name.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(name);
  json["dialect"] = nullptr;
  if (!facts.dialect.empty()) {
    json["dialect"] = facts.dialect;
    json["padding_mode"] = facts.padding_mode;
    json["align_corners"] = facts.align_corners;
  }
  for_each_type(facts, [&](const auto& values) {
    for (const auto& [fact, value] : values) json.emplace(fact, value);
  });
}

}  // namespace msda::replay
