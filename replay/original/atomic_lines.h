// The source lines of the atomic instructions in a recorded kernel's machine code, as `show`, `order` and `run
// --poison` print them.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/capture/capture.h"
#include "recorder/device/source_lines.h"
#include "replay/base/lines.h"

namespace msda::replay {

// Atomic instructions of one kind in one place.
struct AtomicPlace {
  std::string opcode;                     // "RED"
  std::vector<record::SourceLine> lines;  // from the inside out, as an AtomicInstruction's
  int64_t count = 1;
};

// Returns places in the order of the code; none if the code has no line table, which compilers write for -lineinfo.
std::vector<AtomicPlace> atomic_places(const capture::KernelImage& code);

nlohmann::ordered_json to_json(const std::vector<AtomicPlace>& places);
// Returns a line each, of the first ones, indented by so many spaces.
Lines to_text(const std::vector<AtomicPlace>& places, size_t indent);

}  // namespace msda::replay
