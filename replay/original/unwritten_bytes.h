// Which bytes of a recorded tensor nobody had written before the launch: the attribute `unwritten` of a launch that a
// survey kept (docs/capture-format.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace msda::replay {

// Runs of bytes of one size, at equal distances.
struct UnwrittenBytes {
  uint64_t offset = 0, bytes = 0, count = 1, stride = 0;
};

// Returns the bytes by tensor: "inputs/memory_0". Throws CannotRelaunch if the text cannot be read.
std::map<std::string, std::vector<UnwrittenBytes>> parse_unwritten(const std::string& text);

// Returns whether all runs lie within so many bytes.
bool lie_within(std::span<const UnwrittenBytes> all, uint64_t bytes);

// Calls visit(begin, end) for each run.
template <class Visit>
void for_each_run(std::span<const UnwrittenBytes> all, Visit&& visit) {
  for (const auto& [offset, bytes, count, stride] : all) {
    for (uint64_t i = 0; i < count; ++i) visit(offset + i * stride, offset + i * stride + bytes);
  }
}

}  // namespace msda::replay
