// Charts of the report.
#pragma once

#include <nlohmann/json.hpp>

#include "replay/report/html/pictures.h"
#include "replay/report/html/writer.h"

namespace msda::replay {

void draw_histogram(Html& html, const UlpHistogram& histogram);

// One map, in colours of its own scale. `wide`: its bins need not be square.
void draw_map(Html& html, const ErrorMap& map, bool wide);

// The share of inverted pairs by distance; `bins` of docs/order.schema.json.
void draw_schedule(Html& html, const nlohmann::ordered_json& bins, const std::string& index_name);

// The failure probability by a tolerance, `name`; `points` of docs/stress.schema.json.
void draw_curve(Html& html, const nlohmann::ordered_json& points, const char* name, double own);

}  // namespace msda::replay
