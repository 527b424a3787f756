// Counts the instructions by which blocks of one launch can hand results to each other, so that a result can depend on
// the order in which blocks arrive without any floating-point atomic: locks, tickets, counters of finished blocks,
// look-back in scans, barriers of a whole grid. Pure functions of the bytes, which may be damaged.
//
// Instructions count whose scope is the device or the system. Instructions of a block's scope, and of shared memory,
// let the threads of a block communicate. A generic address counts although it may be in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "recorder/device/instructions.h"

namespace msda::record {

struct Communication {
  // By name:
  //   compare_and_swaps     of global memory; loops of them make atomics that no instruction makes, too
  //   exchanges             of global memory, whether or not the old value is used: the last one stays
  //   used_integer_atomics  of global memory that return the old value, as for tickets: all but the former
  //   used_float_atomics    the same, of floating-point numbers
  //   strong_loads          acquire, relaxed and volatile loads; also __ldcg, which is the same instruction
  //   strong_stores         release, relaxed and volatile stores; also __stcg
  //   fences                as of __threadfence and __threadfence_system
  InstructionCounts counts;
  // The function reads what another block may have written during the launch: there is one of the first five. Stores
  // and fences alone hand on nothing that a block reads. True says that it can, not that it does.
  bool may_communicate = false;
};

// Returns nothing if the cubin does not hold the function, or the architecture ("sm_90") is none of sm_80 to sm_121.
std::optional<Communication> communication_in(std::span<const std::byte> cubin, std::string_view function,
                                              std::string_view architecture);

// An instruction by which a block reads what another one may have written, and the name that it counts under.
struct CommunicatingInstruction {
  uint64_t offset = 0;  // in the function's code
  const char* kind = "";
};

// Returns the instructions that make may_communicate true, ascending by offset; none if communication_in() returns
// nothing.
std::vector<CommunicatingInstruction> communicating_in(std::span<const std::byte> cubin, std::string_view function,
                                                       std::string_view architecture);

}  // namespace msda::record
