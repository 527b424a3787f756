// The types in which a kernel keeps a sum: how an addition rounds, and the neighbours of a value. `Real` holds every
// value of the type, and more where the type has 16 bits.
//
// Adding a number is monotonic. The sums before an addition that lead into a range of sums after it are therefore a
// range themselves, whose ends the functions below give exactly.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/atomic_sum.h"
#include "kernels/storage.h"

namespace msda::analysis {

// Returns the neighbour of a finite x above or below it, by its bits: std::nextafter is a call.
template <class Bits, class Real>
inline Real neighbour(Real x, bool above) {
  if (x == 0) return above ? std::bit_cast<Real>(Bits{1}) : -std::bit_cast<Real>(Bits{1});
  const Bits bits = std::bit_cast<Bits>(x);
  return std::bit_cast<Real>((x > 0) == above ? bits + 1 : bits - 1);
}

struct Float32Sum {
  using Real = float;
  using Wide = double;  // holds the middle between two values, and nearly always its difference from a third
  static Real round(Wide x) { return static_cast<float>(x); }
  static Real add(Real a, Real b) { return a + b; }
  static Real above(Real x) { return neighbour<uint32_t>(x, true); }
  static Real below(Real x) { return neighbour<uint32_t>(x, false); }
};

// As a GPU's atomic additions of float32: no value is subnormal.
struct FlushingFloat32Sum {
  using Real = float;
  using Wide = double;
  static Real round(Wide x) { return kernels::flushed(static_cast<float>(x)); }
  static Real add(Real a, Real b) { return kernels::atomic_sum(a, b); }
  static Real above(Real x) { return step(x, true); }
  static Real below(Real x) { return step(x, false); }

 private:
  // The neighbour of a subnormal number is zero or the smallest normal number.
  static Real step(Real x, bool above) {
    const Real next = neighbour<uint32_t>(x, above);
    if (kernels::flushed(next) == next) return next;
    return (next > 0) == above ? std::copysign(std::numeric_limits<Real>::min(), next) : std::copysign(Real{0}, next);
  }
};

struct Float64Sum {
  using Real = double;
  using Wide = long double;
  static Real round(Wide x) { return static_cast<double>(x); }
  static Real add(Real a, Real b) { return a + b; }
  static Real above(Real x) { return neighbour<uint64_t>(x, true); }
  static Real below(Real x) { return neighbour<uint64_t>(x, false); }
};

// A sum of two values of 16 bits is rounded to float32 and then to the type, which gives what one rounding would:
// float32 has more than twice their bits, and two.
template <class Stored>
struct NarrowSum {
  using Real = float;
  using Wide = double;
  static Real round(Wide x) { return kernels::widen(kernels::narrow<Stored>(x)); }
  static Real add(Real a, Real b) { return kernels::widen(kernels::narrow<Stored>(a + b)); }
  static Real above(Real x) { return step(x, true); }
  static Real below(Real x) { return step(x, false); }

 private:
  static Real step(Real x, bool above) {
    if (x == 0) return kernels::widen(Stored{static_cast<uint16_t>(above ? 1 : 0x8001)});
    const uint16_t bits = kernels::narrow<Stored>(x).bits;
    return kernels::widen(Stored{static_cast<uint16_t>((x > 0) == above ? bits + 1 : bits - 1)});
  }
};
using Float16Sum = NarrowSum<kernels::Float16>;
using BFloat16Sum = NarrowSum<kernels::BFloat16>;

// Returns the exact sum from which on sums are the bound or more: the middle between the bound and the value below it.
template <class Type>
inline typename Type::Wide reached_at(typename Type::Real bound) {
  return (static_cast<typename Type::Wide>(Type::below(bound)) + static_cast<typename Type::Wide>(bound)) / 2;
}

// What is flushed to zero begins beside the smallest normal numbers.
template <>
inline double reached_at<FlushingFloat32Sum>(float bound) {
  if (std::abs(bound) > std::numeric_limits<float>::min() || bound == -std::numeric_limits<float>::min()) {
    return reached_at<Float32Sum>(bound);
  }
  return bound > 0 ? 0x1p-126 - 0x1p-150 : -0x1p-126 + 0x1p-150;
}

// Returns the lowest value s of the type with add(s, addend) >= bound. All are finite values of the type, and so are
// the sums.
template <class Type>
inline typename Type::Real lowest_before(typename Type::Real bound, typename Type::Real addend) {
  using Real = typename Type::Real;
  using Wide = typename Type::Wide;
  constexpr Real kLargest = std::numeric_limits<Real>::max();
  // Where the exact sum reaches what becomes the bound, but for ties and for the rounding of the difference.
  Real s = Type::round(reached_at<Type>(bound) - static_cast<Wide>(addend));
  if (!(std::abs(s) <= kLargest)) return s;
  if (Type::add(s, addend) >= bound) {
    for (Real lower = Type::below(s); Type::add(lower, addend) >= bound && lower >= -kLargest; lower = Type::below(s)) {
      s = lower;
    }
  } else {
    do {
      s = Type::above(s);
    } while (!(Type::add(s, addend) >= bound) && s <= kLargest);
  }
  return s;
}

// Returns the highest value s with add(s, addend) <= bound: the same with all signs changed, since rounding is
// symmetric.
template <class Type>
inline typename Type::Real highest_before(typename Type::Real bound, typename Type::Real addend) {
  return -lowest_before<Type>(-bound, -addend);
}

}  // namespace msda::analysis
