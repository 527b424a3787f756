// Makes the order-free twin of a function: a copy of its cubin in which each floating-point addition to global memory
// is, in place, an operation on the same address whose result does not depend on the order of the operations. If the
// twin gives equal results on equal memory while the function does not, the additions are the same in each launch and
// only their order differs. Pure functions of the bytes, which may be damaged.
//
// Only the function's own code is read: additions of functions that it calls, and that have sections of their own, are
// neither replaced nor listed. An instruction keeps its predicate, address, scope, caching, scheduling and destination.
//
// An addition to a generic address (ATOM) says in a predicate whether the address is in shared memory, for which other
// code follows. Compilers ask for the predicate for floating-point numbers and integers of 64 bits, but not for
// integers of 32 bits, which the hardware can add in shared memory too. Twins keep the predicate.
//
// kCount. Memory should count the additions, whatever is added. INC, with the addend as its other operand, does not do
// that: it computes old >= operand ? 0 : old + 1, so that an addend of 0 sets the count to 0, a small one limits it,
// and the count depends on the order again. In its place the twin adds a number that depends on the address only:
// ADD.U32 of the upper half of the register pair that holds the address. After n additions the 32-bit word at the
// address has grown by n times that number, from which evidence.ptx computes n modulo 2 to the power of (32 - trailing
// zeros of that number). The number may differ from the address' upper half only where an immediate offset, of at most
// 8 MiB, crosses a multiple of 4 GiB. If an instruction has several elements, or elements of 64 bits, its first 32 bits
// count.
//
// kMax. Elements compare as unsigned integers of 32 or 64 bits. Vectors of 128 bits, for which integers have no
// instruction, compare as vectors of 16-bit floating-point numbers; float32 as bfloat16, which for the upper halves is
// float32 with fewer bits. That is order-free if a NaN gives way to any number, and two of them to one and the same.
//
// kGreatest and kLeast. Where memory holds zeros, the first leaves the greatest addend, or 0 if none is positive; the
// second the least, or, if none is negative, any other addend or 0. Floating-point numbers without a sign order as
// their bits do: so kGreatest is the maximum of signed integers, in which numbers with a sign are less than 0, and
// kLeast that of unsigned ones, in which they are greater than all others, the more so the further they lie from 0. A
// NaN without a sign is greater than infinity, one with a sign less than its negative. Pairs of 16-bit numbers have a
// minimum and a maximum of their own from sm_90 on, in which a NaN gives way. Other vectors, and pairs below sm_90,
// have no such twin: integers would compare all of their bits at once.
//
// kNothing adds the integer 0: memory is as the function leaves it without its floating-point additions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace msda::record {

enum class TwinOperation { kAdd, kXor, kMax, kCount, kGreatest, kLeast, kNothing };

// An instruction that adds floating-point numbers in memory, or may be part of such a sum.
struct FloatAddition {
  uint64_t offset = 0;       // in the function's code
  const char* opcode = "";   // "RED"
  const char* type = "";     // of an element: "f16", "bf16", "f32", "f64"; empty if the instruction does not show it
  int elements = 0;          // of an instruction; 0 if it does not show them
  bool result_used = false;  // The twin's results in between depend on the order too, and the function uses them.
  const char* why_no_twin = nullptr;

  bool has_twin() const { return why_no_twin == nullptr; }
};

// Returns them ascending by offset, with what has no twin of this operation: compare-and-swap, of which loops make sums
// that no instruction makes; reductions of blocks and tiles; vectors and addresses that the operation does not support.
// Returns none if the cubin does not hold the function, or the encodings of the architecture ("sm_90") are not known:
// it is none of sm_80 to sm_121.
std::vector<FloatAddition> float_additions_in(std::span<const std::byte> cubin, std::string_view function,
                                              std::string_view architecture, TwinOperation operation);

struct Twin {
  std::vector<std::byte> cubin;
  size_t replaced = 0;                      // instructions
  std::vector<FloatAddition> without_twin;  // These still add floating-point numbers.
};

// Returns nothing if no instruction of the function can be replaced.
std::optional<Twin> twin_of(std::span<const std::byte> cubin, std::string_view function, std::string_view architecture,
                            TwinOperation operation);

}  // namespace msda::record
