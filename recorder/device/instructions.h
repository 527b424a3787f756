// Counts the instructions of a function that affect its reproducibility, by decoding its machine code: atomics, and
// fused multiply-adds. Needs no disassembler. Pure functions of the bytes, which may be damaged.
//
// For sm_70 to sm_129, whose instructions have 16 bytes, the lowest nine bits of which say what it does. The meaning of
// the bits is what nvdisasm 13.5 prints of code for sm_75, 80, 86, 89, 90, 100, 103, 110, 120 and 121.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "recorder/device/instruction_words.h"

namespace msda::record {

// Returns 90 for "sm_90" and "sm_90a"; nothing for other names, and for architectures whose instructions are not known.
std::optional<int> decodable_architecture(std::string_view name);

// Returns whether fields of atomics beside the opcode are known: of sm_80 to sm_121.
bool atomic_fields_are_known(int architecture);

struct Atomic {
  enum class Kind { kReduction, kGlobal, kShared };  // its result is not used; memory of the device, of a block

  Kind kind;
  const char* opcode;  // "RED"
  // It may add floating-point numbers: by its type, or as a compare-and-swap, of which loops make sums that no
  // instruction makes, or as a reduction of a tensor's tile, whose type is not in the code.
  bool may_be_float;
};

// Returns the atomic instruction that these bytes are, if they are one. `architecture` is decodable.
std::optional<Atomic> atomic_in(std::span<const std::byte, kInstructionBytes> instruction, int architecture);

// Counts by the names that docs/recording.md explains: instructions, fused_multiply_adds, reductions, global_atomics,
// shared_atomics, float_atomics, atomics.
using InstructionCounts = std::map<std::string, int64_t>;

// Returns nothing if the cubin does not hold the function, or the architecture ("sm_90") is not decodable.
InstructionCounts count_instructions(std::span<const std::byte> cubin, std::string_view function,
                                     std::string_view architecture);

}  // namespace msda::record
