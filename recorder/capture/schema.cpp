#include "recorder/capture/schema.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>

#include "kernels/operator_rows.h"

namespace msda::capture {
namespace {

const nlohmann::json& named(const nlohmann::json& objects, const std::string& name) {
  return *std::ranges::find_if(objects, [&](const nlohmann::json& object) { return object.at("name") == name; });
}

// A gradient has the dimensions of its tensor, a stage without dimensions those of the gradient that it is.
const nlohmann::json& dimensions_of(const nlohmann::json& object, const nlohmann::json& tensors) {
  if (const auto found = object.find("dimensions"); found != object.end()) return *found;
  return dimensions_of(named(tensors, object.value("of", object.at("name").get<std::string>())), tensors);
}

std::vector<TensorSchema> schemas_in(const char* list) {
  static const nlohmann::json rows = nlohmann::json::parse(kernels::kOperatorRows);  // which the names are views of
  const nlohmann::json& row = *std::ranges::find_if(rows, [](const nlohmann::json& candidate) {
    return candidate.at("marks").at("conventions") == nlohmann::json::array({"dialect"});
  });
  std::vector<TensorSchema> schemas;
  for (const nlohmann::json& object : row.at(list)) {
    TensorSchema schema{object.at("name").get_ref<const std::string&>(), {}, object.value("type", "") == "integer"};
    for (const nlohmann::json& dimension : dimensions_of(object, row.at("tensors"))) {
      schema.dimensions.push_back(dimension.get_ref<const std::string&>());
    }
    schemas.push_back(std::move(schema));
  }
  return schemas;
}

const TensorSchema* find(std::span<const TensorSchema> schemas, std::string_view name) {
  const auto found = std::ranges::find(schemas, name, &TensorSchema::name);
  return found == schemas.end() ? nullptr : &*found;
}

}  // namespace

const TensorSchema* find_tensor(std::string_view name) {
  static const std::vector<TensorSchema> tensors = schemas_in("tensors");
  return find(tensors, name);
}

const TensorSchema* find_stage(std::string_view name) { return find(all_stages(), name); }

std::span<const TensorSchema> all_stages() {
  static const std::vector<TensorSchema> stages = schemas_in("stages");
  return stages;
}

}  // namespace msda::capture
