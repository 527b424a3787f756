// Finds the atomic instructions of a cubin's function, and their source lines by the cubin's line table, which
// compilers write for -lineinfo. Needs no disassembler. Pure functions of the bytes, which may be damaged.
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

// The instructions RED, ATOM, ATOMG, ATOMS, UTMAREDG, UBLKRED and REDAS, ascending by offset, for sm_70 to sm_129; none
// for other architectures, whose encoding is not known. `architecture`: 90 for sm_90.
std::vector<AtomicInstruction> atomics_in(std::span<const std::byte> cubin, std::string_view function,
                                          int architecture);

}  // namespace msda::record
