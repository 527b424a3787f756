#include "analysis/numbers/narrow.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace msda::analysis {
namespace {

enum class Ties { kEven, kAway, kTruncated };

struct Format {
  const char* type;
  int bits;             // of the significand, the hidden one included
  int lowest_exponent;  // of a normal number
  double largest;
  Ties ties;
  msda_dtype stored;
};
// By Narrow.
constexpr Format kFormats[] = {{"tf32", 11, -126, 0x1.ffcp127, Ties::kEven, MSDA_FLOAT32},
                               {"tf32", 11, -126, 0x1.ffcp127, Ties::kAway, MSDA_FLOAT32},
                               {"tf32", 11, -126, 0x1.ffcp127, Ties::kTruncated, MSDA_FLOAT32},
                               {"bfloat16", 8, -126, 0x1.fep127, Ties::kEven, MSDA_BFLOAT16},
                               {"bfloat16", 8, -126, 0x1.fep127, Ties::kTruncated, MSDA_BFLOAT16},
                               {"float16", 11, -14, 65504, Ties::kEven, MSDA_FLOAT16},
                               {"float32", 24, -126, 0x1.fffffep127, Ties::kEven, MSDA_FLOAT32}};

const Format& format_of(Narrow narrow) { return kFormats[static_cast<size_t>(narrow)]; }

// Rounds to a subnormal of the type: a multiple of its smallest number.
double round_subnormal(const Format& format, double x) {
  const double smallest = std::ldexp(1.0, format.lowest_exponent + 1 - format.bits), multiple = x / smallest;
  switch (format.ties) {
    case Ties::kEven:
      return std::nearbyint(multiple) * smallest;
    case Ties::kAway:
      return std::round(multiple) * smallest;
    case Ties::kTruncated:
      return std::trunc(multiple) * smallest;
  }
  return x;
}

}  // namespace

const char* type_name(Narrow narrow) { return format_of(narrow).type; }

const char* rounding_name(Narrow narrow) {
  constexpr const char* kNames[] = {"to nearest even", "to nearest, ties away from zero", "truncated"};
  return kNames[static_cast<size_t>(format_of(narrow).ties)];
}

int significand_bits(Narrow narrow) { return format_of(narrow).bits; }

msda_dtype stored_type(Narrow narrow) { return format_of(narrow).stored; }

Precision precision_of(Narrow narrow) {
  const Format& format = format_of(narrow);
  const double whole = format.ties == Ties::kTruncated ? 2 : 1;
  return {format.bits, whole * std::ldexp(1.0, -format.bits),
          whole * std::ldexp(1.0, format.lowest_exponent - format.bits), format.largest};
}

double round_to(Narrow narrow, double x) {
  if (!std::isfinite(x) || x == 0) return x;
  const Format& format = format_of(narrow);
  constexpr uint64_t kSign = uint64_t{1} << 63;
  const auto bits = std::bit_cast<uint64_t>(x);
  uint64_t magnitude = bits & ~kSign;
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  if (exponent < format.lowest_exponent) return round_subnormal(format, x);
  // The bits below the type's last are cut off, after adding what carries into it; a carry may reach the exponent.
  const int cut = 53 - format.bits;
  const uint64_t last = uint64_t{1} << cut, half = last >> 1;
  if (format.ties == Ties::kEven) magnitude += half - 1 + ((magnitude >> cut) & 1);
  if (format.ties == Ties::kAway) magnitude += half;
  magnitude &= ~(last - 1);
  const auto rounded = std::bit_cast<double>(magnitude | (bits & kSign));
  if (std::abs(rounded) <= format.largest) return rounded;
  return std::copysign(format.ties == Ties::kTruncated ? format.largest : INFINITY, x);
}

int free_bits(Narrow narrow, int bits, double value, double magnitude) {
  if (value == 0 || magnitude == 0) return 0;  // 0 is a number of every type, and has no last bit
  const int below = significand_bits(narrow) - bits + std::ilogb(magnitude) - std::ilogb(value);
  return std::clamp(-below, 0, bits - significand_bits(narrow));
}

Uncertain round_to(Narrow narrow, const Uncertain& x) {
  const double value = round_to(narrow, x.value);
  if (x.error == 0) return {value, 0};
  return {value, std::max(round_to(narrow, x.value + x.error) - value, value - round_to(narrow, x.value - x.error))};
}

}  // namespace msda::analysis
