#include "replay/original/atomic_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace msda::replay {
namespace {

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// "RED at /home/me/scatter.cu:52, through sm_20_atomic_functions.hpp:84"
std::string place_words(const AtomicPlace& place) {
  const record::SourceLine& outermost = place.lines.back();
  std::string words = fmt::format("{} at {}:{}", place.opcode, outermost.file, outermost.line);
  for (size_t i = place.lines.size() - 1; i-- > 0;) {
    words += fmt::format("{}{}:{}", i + 2 == place.lines.size() ? ", through " : ", ", base_name(place.lines[i].file),
                         place.lines[i].line);
  }
  if (place.count > 1) words += fmt::format(" ({} instructions)", place.count);
  return words;
}

}  // namespace

std::vector<AtomicPlace> atomic_places(const capture::KernelImage& code) {
  std::vector<AtomicPlace> places;
  std::map<std::pair<std::string, std::vector<record::SourceLine>>, size_t> numbers;  // of the places
  for (const auto& atomic : record::atomics_in(code.image, code.name, code.architecture)) {
    if (atomic.lines.empty()) continue;
    const auto [known, is_new] = numbers.try_emplace({atomic.opcode, atomic.lines}, places.size());
    if (is_new) {
      places.push_back({atomic.opcode, atomic.lines});
    } else {
      ++places[known->second].count;
    }
  }
  return places;
}

nlohmann::ordered_json to_json(const std::vector<AtomicPlace>& places) {
  auto json = nlohmann::ordered_json::array();
  for (const AtomicPlace& place : places) {
    auto lines = nlohmann::ordered_json::array();
    for (const auto& [file, line] : place.lines) lines.push_back({{"file", file}, {"line", line}});
    json.push_back({{"opcode", place.opcode}, {"count", place.count}, {"lines", std::move(lines)}});
  }
  return json;
}

Lines to_text(const std::vector<AtomicPlace>& places, size_t indent) {
  constexpr size_t kMostListed = 10;
  Lines lines;
  for (size_t i = 0; i < std::min(places.size(), kMostListed); ++i) {
    lines.add("{:{}}{}", "", indent, place_words(places[i]));
  }
  if (places.size() > kMostListed) {
    lines.add("{:{}}and in {} other places (--json)", "", indent, places.size() - kMostListed);
  }
  return lines;
}

}  // namespace msda::replay
