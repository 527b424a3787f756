// A trail as the file has it: one dataset for each field of its rows, and its lists as JSON. Internal to the reader and
// the writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/capture/trail.h"

namespace msda::capture {

// In /trail: a list of unsigned integers of so many bytes each.
struct TrailDataset {
  std::string_view name;
  size_t element_bytes;
  bool is_by_row = false;  // it has an element for each row
};
std::span<const TrailDataset> trail_datasets();

struct TrailData {
  int64_t missing = 0;
  std::map<std::string, std::vector<std::byte>, std::less<>> datasets;  // by name; little-endian, as in the file
};

TrailData to_data(const Trail& trail);

// Checks lengths and indices: every index of the result is in its list, or kNoEntry. Throws std::invalid_argument,
// which says what is wrong.
Trail to_trail(const TrailData& data);

// Returns the lists of names, /trail/names, as JSON; throws the same exception. Text that is not UTF-8 is replaced.
std::string names_to_json(const Trail& trail);
void names_from_json(std::string_view json, Trail& trail);

}  // namespace msda::capture
