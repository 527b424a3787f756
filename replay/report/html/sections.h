// The sections of the report beside the findings. What comes as JSON is what the commands of that name print with
// --json.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "replay/report/html/pictures.h"
#include "replay/report/html/writer.h"

namespace msda::replay {

void add_comparisons(Html& html, const InvocationResult& result);
void add_maps(Html& html, const Pictures& pictures);
void add_histograms(Html& html, const Pictures& pictures, const InvocationResult& result);
// docs/stages schema: the summary of all samples, and elements stage by stage.
void add_stages(Html& html, const nlohmann::ordered_json& summary, const nlohmann::ordered_json& elements);
// One of the invocations of docs/order.schema.json.
void add_order(Html& html, const nlohmann::ordered_json& order);
// docs/stress.schema.json. Throws nlohmann::json::exception for anything else.
void add_probability(Html& html, const nlohmann::ordered_json& stress);
// Adds an invocation as `show` prints it.
void add_launch(Html& html, const nlohmann::ordered_json& invocation, const nlohmann::ordered_json& kernels);
// Adds the recorded program and machine, as `show` prints them.
void add_program(Html& html, const nlohmann::ordered_json& run);

// Returns a JSON value as plain text: without quotes, lists with spaces.
std::string plain_text(const nlohmann::ordered_json& value);

}  // namespace msda::replay
