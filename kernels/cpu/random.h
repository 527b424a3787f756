// Steele, Lea and Flood's SplitMix64: a counter through a mixing function.
#pragma once

#include <cstdint>

#include "kernels/sample.h"

namespace msda::kernels::cpu {
inline namespace MSDA_ISA {

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Returns a number in [0, bound). The modulo's bias is negligible: bounds are far below 2^64.
  uint64_t below(uint64_t bound) { return next() % bound; }

 private:
  uint64_t state_;
};

// Puts the elements into an order drawn from `random`.
template <class T>
void shuffle(T* elements, int64_t count, SplitMix64& random) {
  for (int64_t i = count - 1; i > 0; --i) {
    const auto j = static_cast<int64_t>(random.below(static_cast<uint64_t>(i) + 1));
    const T swapped = elements[i];
    elements[i] = elements[j];
    elements[j] = swapped;
  }
}

}  // namespace MSDA_ISA
}  // namespace msda::kernels::cpu
