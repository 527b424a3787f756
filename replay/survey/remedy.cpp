#include "replay/survey/remedy.h"

#include <nlohmann/json.hpp>

#include <regex>
#include <utility>
#include <vector>

#include "replay/survey/remedies.h"

namespace msda::replay {
namespace {

using Row = std::pair<std::regex, Remedy>;

std::vector<Row> rows() {
  std::vector<Row> rows;
  for (const auto& file : nlohmann::json::parse(kRemedies)) {
    for (const auto& row : file) {
      rows.emplace_back(std::regex(row.at("kernel").get<std::string>(), std::regex::optimize),
                        Remedy{row.at("type"), row.at("note"), row.at("source")});
    }
  }
  return rows;
}

}  // namespace

const Remedy* remedy_for(const std::string& kernel) {
  static const std::vector<Row> known = rows();
  // libstdc++ searches a long text recursively. The beginning of a name distinguishes kernels.
  constexpr size_t kLongest = 400;
  const std::string name = kernel.substr(0, kLongest);
  for (const auto& [pattern, remedy] : known) {
    if (std::regex_search(name, pattern)) return &remedy;
  }
  return nullptr;
}

}  // namespace msda::replay
