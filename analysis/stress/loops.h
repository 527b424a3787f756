// The inner loops that draw numbers, behind a table of function pointers: loops.cpp is compiled once for each
// instruction set, as kernels/cpu/loops.cpp is. The bits do not depend on which is chosen.
#pragma once

#include <cstdint>

namespace msda::analysis::stress {

struct Loops {
  const char* isa;  // the instruction set, as in MSDA_CPU_ISA
  // `count` numbers of 32 random bits each, by xoshiro128++ in eight lanes that `seed` begins.
  void (*bits)(uint64_t seed, uint32_t* bits, int64_t count);
  // In place: curand_uniform's conversion, with 1 turned to 0 as PyTorch does; multiples of 2^-24 as PyTorch has them
  // on the CPU; pairs of them to standard normal numbers by Box and Muller's method.
  void (*uniform_32)(const uint32_t* bits, float* numbers, int64_t count);
  void (*uniform_24)(const uint32_t* bits, float* numbers, int64_t count);
  void (*normal)(const uint32_t* bits, float* numbers, int64_t count);  // of an even count
  void (*scale)(float* numbers, int64_t count, float factor, float offset);
  void (*exponentials)(float* numbers, int64_t count);
};

const Loops& loops();

}  // namespace msda::analysis::stress
