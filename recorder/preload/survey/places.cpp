#include "recorder/preload/survey/places.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder/device/communication.h"
#include "recorder/device/source_lines.h"
#include "recorder/device/twin.h"

namespace msda::record {
namespace {

constexpr size_t kMostText = 16 << 10;  // an attribute of a capture has 64 KiB at most

struct NamedInstruction {
  uint64_t offset;
  std::string_view name;
};

// Names of files come from outside: those that would break the format are left out.
bool is_plain(const std::string& name) {
  return std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

Places places_of(const Image& image, const std::string& kernel, const std::vector<NamedInstruction>& instructions) {
  std::vector<uint64_t> offsets;
  for (const NamedInstruction& instruction : instructions) offsets.push_back(instruction.offset);
  const auto lines = source_lines_at(image.bytes, kernel, offsets);
  using Place = std::pair<std::string_view, std::string>;
  std::map<Place, int64_t> counts;
  std::vector<Place> in_order;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string text;
    for (const auto& [file, line] : lines[i]) {
      if (is_plain(file)) text += "\t" + file + ":" + std::to_string(line);
    }
    if (text.empty()) continue;
    Place place{instructions[i].name, std::move(text)};
    if (counts[place]++ == 0) in_order.push_back(std::move(place));
  }
  Places places;
  for (const Place& place : in_order) {
    const std::string row = std::string(place.first) + "\t" + std::to_string(counts[place]) + place.second + "\n";
    if (places.text.size() + row.size() > kMostText) {
      ++places.left_out;
    } else {
      places.text += row;
    }
  }
  return places;
}

}  // namespace

Places places_of_additions(const Image& image, const std::string& kernel, const std::string& architecture) {
  std::vector<NamedInstruction> additions;
  for (const auto& addition : float_additions_in(image.bytes, kernel, architecture, TwinOperation::kAdd)) {
    additions.push_back({addition.offset, addition.opcode});
  }
  return places_of(image, kernel, additions);
}

Places places_of_communication(const Image& image, const std::string& kernel, const std::string& architecture) {
  std::vector<NamedInstruction> instructions;
  for (const auto& instruction : communicating_in(image.bytes, kernel, architecture)) {
    instructions.push_back({instruction.offset, instruction.kind});
  }
  return places_of(image, kernel, instructions);
}

}  // namespace msda::record
