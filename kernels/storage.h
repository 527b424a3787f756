// float16 and bfloat16 as bits, and conversions of all floating-point types: widening is exact, narrowing is one
// rounding to nearest even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace msda::kernels {

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

inline float widen(Float16 x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16;
  const uint32_t exponent = (x.bits >> 10) & 0x1fu, mantissa = x.bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

template <class To>
To narrow(float x);

template <>
inline BFloat16 narrow<BFloat16>(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

template <>
inline Float16 narrow<Float16>(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu))};  // NaN
  if (magnitude >= 0x47800000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // 65536 on
  if (magnitude < 0x38800000u) {  // under 2^-14: a multiple of 2^-24; adding 0.5 makes the FPU round at that bit
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};  // a carry makes 65520 and more infinite
}

// To float, rounding to odd: the last bit is set if the result is inexact. A second rounding to fewer bits then gives
// what one rounding from double would give.
inline float to_odd_float(double x) {
  float nearest = static_cast<float>(x);
  if (std::isnan(x) || std::isinf(nearest) || static_cast<double>(nearest) == x) return nearest;
  if (std::abs(static_cast<double>(nearest)) > std::abs(x)) nearest = std::nextafter(nearest, 0.0f);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(nearest) | 1u);
}

template <class To>
To narrow(double x) {
  return narrow<To>(to_odd_float(x));
}

template <>
inline float narrow<float>(float x) {
  return x;
}
template <>
inline float narrow<float>(double x) {
  return static_cast<float>(x);
}
template <>
inline double narrow<double>(float x) {
  return x;
}
template <>
inline double narrow<double>(double x) {
  return x;
}

}  // namespace msda::kernels
