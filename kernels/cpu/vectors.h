// Channels of a row in vector registers. Written with the vector types of GCC and Clang, because neither compiler
// reliably keeps an array that is summed over a loop in registers, and memory that is read and written for every addend
// takes longer than the addition.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/sample.h"

namespace msda::kernels::cpu {
inline namespace MSDA_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

// Gives every NaN the same bits: processors differ in the NaN that an operation produces, and results must not. Takes
// numbers and vectors of them.
template <class Real, class Numbers>
inline Numbers one_nan(Numbers x) {
  return x == x ? x : Numbers{} + std::numeric_limits<Real>::quiet_NaN();
}

// kWidth channels, a power of two. Every operation is one rounding in each channel.
template <class Real, int kWidth>
class Block {
 public:
  // Loads numbers from memory of any alignment.
  template <class In>
  static Block load(const In* from) {
    typedef In Loaded __attribute__((vector_size(kLanesOfVector * sizeof(In))));
    Block block;
    for (int i = 0; i < kVectors; ++i) {
      Loaded loaded;
      __builtin_memcpy(&loaded, from + i * kLanesOfVector, sizeof(loaded));
      block.vectors_[i] = __builtin_convertvector(loaded, Vector);
    }
    return block;
  }
  void store(Real* to) const {
    for (int i = 0; i < kVectors; ++i) __builtin_memcpy(to + i * kLanesOfVector, &vectors_[i], sizeof(Vector));
  }
  Block with_one_nan() const {
    Block block;
    for (int i = 0; i < kVectors; ++i) block.vectors_[i] = one_nan<Real>(vectors_[i]);
    return block;
  }
  friend Block operator+(const Block& a, const Block& b) {
    Block sum;
    for (int i = 0; i < kVectors; ++i) sum.vectors_[i] = a.vectors_[i] + b.vectors_[i];
    return sum;
  }
  friend Block operator*(Real a, const Block& b) {
    Block product;
    for (int i = 0; i < kVectors; ++i) product.vectors_[i] = a * b.vectors_[i];
    return product;
  }

 private:
  static constexpr int kLanesOfRegister = kVectorBytes / static_cast<int>(sizeof(Real));
  static constexpr int kLanesOfVector = kWidth < kLanesOfRegister ? kWidth : kLanesOfRegister;
  static constexpr int kVectors = kWidth / kLanesOfVector;
  typedef Real Vector __attribute__((vector_size(kLanesOfVector * sizeof(Real))));

  Vector vectors_[kVectors];
};

// The widest block for which the four corner sums of a cell, and what is added to them, fit into the registers.
template <class Real>
inline constexpr int kWidestBlock = 2 * kVectorBytes / static_cast<int>(sizeof(Real));

// Calls visit(width, channel) for blocks that cover [channel, channels), widest first; `width` is a type whose `value`
// is constant.
template <int kWidth>
struct Width {
  static constexpr int value = kWidth;
};
template <int kWidth, class Visit>
inline void for_each_block(int64_t channel, int64_t channels, Visit&& visit) {
  for (; channels - channel >= kWidth; channel += kWidth) visit(Width<kWidth>{}, channel);
  if constexpr (kWidth > 1) {
    if (channel < channels) for_each_block<kWidth / 2>(channel, channels, visit);
  }
}

}  // namespace MSDA_ISA
}  // namespace msda::kernels::cpu
