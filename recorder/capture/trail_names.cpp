// The lists of a trail whose entries are named: kernels, configurations, callers and parts, as JSON.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stdexcept>

#include "recorder/capture/trail_data.h"

namespace msda::capture {
namespace {

using Json = nlohmann::json;

void put(Json& json, const char* name, const std::string& text) {
  if (!text.empty()) json[name] = text;
}

Json to_json(const TrailKernel& kernel) {
  Json json = Json::object();
  put(json, "name", kernel.name);
  put(json, "digest", kernel.digest);
  put(json, "architecture", kernel.architecture);
  if (!kernel.facts.empty()) json["facts"] = kernel.facts;
  return json;
}

Json to_json(const TrailCaller& caller) {
  Json json = Json::object();
  put(json, "python", caller.python);
  put(json, "node", caller.node);
  put(json, "operation", caller.operation);
  put(json, "label", caller.label);
  return json;
}

Json to_json(const TrailConfiguration& configuration) {
  return {configuration.grid[0],  configuration.grid[1],  configuration.grid[2],     configuration.block[0],
          configuration.block[1], configuration.block[2], configuration.shared_bytes};
}

TrailKernel kernel_of(const Json& json) {
  return {json.value("name", ""), json.value("digest", ""), json.value("architecture", ""),
          json.value("facts", std::map<std::string, int64_t>())};
}

TrailCaller caller_of(const Json& json) {
  return {json.value("python", ""), json.value("node", ""), json.value("operation", ""), json.value("label", "")};
}

TrailConfiguration configuration_of(const Json& json) {
  const auto numbers = json.get<std::vector<uint32_t>>();
  if (numbers.size() != 7) throw std::invalid_argument("names has a configuration that is not seven numbers");
  return {{numbers[0], numbers[1], numbers[2]}, {numbers[3], numbers[4], numbers[5]}, numbers[6]};
}

}  // namespace

std::string names_to_json(const Trail& trail) {
  Json json = {{"kernels", Json::array()}, {"configurations", Json::array()}, {"callers", Json::array()}};
  for (const TrailKernel& kernel : trail.kernels) json["kernels"].push_back(to_json(kernel));
  for (const TrailConfiguration& configuration : trail.configurations)
    json["configurations"].push_back(to_json(configuration));
  for (const TrailCaller& caller : trail.callers) json["callers"].push_back(to_json(caller));
  json["parts"] = trail.parts;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void names_from_json(std::string_view text, Trail& trail) try {
  const Json json = Json::parse(text);
  for (const Json& entry : json.at("kernels")) trail.kernels.push_back(kernel_of(entry));
  for (const Json& entry : json.at("configurations")) trail.configurations.push_back(configuration_of(entry));
  for (const Json& entry : json.at("callers")) trail.callers.push_back(caller_of(entry));
  json.at("parts").get_to(trail.parts);
} catch (const Json::exception& e) {
  throw std::invalid_argument(fmt::format("names is not the JSON that is expected ({})", e.what()));
}

}  // namespace msda::capture
