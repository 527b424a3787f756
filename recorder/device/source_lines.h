// Finds the atomic instructions of a cubin's function, and source lines of instructions by the cubin's line table,
// which compilers write for -lineinfo. Needs no disassembler. Pure functions of the bytes, which may be damaged.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msda::record {

struct SourceLine {
  std::string file;
  uint64_t line = 0;

  auto operator<=>(const SourceLine&) const = default;
};

struct AtomicInstruction {
  uint64_t offset = 0;      // in the function's code
  const char* opcode = "";  // "RED"
  // Where it is, from the inside out: the line of an inlined function, then the line that calls it. Empty if the cubin
  // has no line table, or names that no compiler makes.
  std::vector<SourceLine> lines;
};

// Returns the atomic instructions (instructions.h), ascending by offset; none if the architecture ("sm_90") is not
// decodable.
std::vector<AtomicInstruction> atomics_in(std::span<const std::byte> cubin, std::string_view function,
                                          std::string_view architecture);

// Returns the lines of the instructions at these offsets in the function's code, each as those of an AtomicInstruction.
std::vector<std::vector<SourceLine>> source_lines_at(std::span<const std::byte> cubin, std::string_view function,
                                                     std::span<const uint64_t> offsets);

}  // namespace msda::record
