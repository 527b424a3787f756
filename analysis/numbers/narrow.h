// Roundings into types of fewer bits than a call's tensors have, as tensor cores, autocast and casts make them.
#pragma once

#include "analysis/numbers/tensor.h"

namespace msda::analysis {

enum class Narrow {
  kTf32Even,       // software that emulates TF32
  kTf32Away,       // cvt.rna.tf32, as cuBLAS and CUTLASS convert
  kTf32Truncated,  // float32 bits given to a tensor core as they are
  kBFloat16,
  kBFloat16Truncated,
  kFloat16,
  kFloat32
};
inline constexpr Narrow kNarrowings[] = {Narrow::kTf32Even, Narrow::kTf32Away,          Narrow::kTf32Truncated,
                                         Narrow::kBFloat16, Narrow::kBFloat16Truncated, Narrow::kFloat16,
                                         Narrow::kFloat32};

const char* type_name(Narrow narrow);      // "tf32", "bfloat16", "float16", "float32"
const char* rounding_name(Narrow narrow);  // "to nearest even", "to nearest, ties away from zero", "truncated"
int significand_bits(Narrow narrow);       // the hidden one included
// Returns the type that tensors may have; TF32 is none, and float32 stands for it.
msda_dtype stored_type(Narrow narrow);
// Returns the precision that a bound on rounding uses.
Precision precision_of(Narrow narrow);

double round_to(Narrow narrow, double x);

// Bits that a result of so many has below the last one of the narrow type; `magnitude` is the sum of its addends'
// absolute values. Where addends cancel, few bits are left of them in any type: the last one of a partial sum is not
// lower than that of its size.
int free_bits(Narrow narrow, int bits, double value, double magnitude);

// A number, and how far the one that was really rounded may be from it.
struct Uncertain {
  double value = 0, error = 0;

  // Returns some number of its sign; 0 where the error leaves it open.
  double sign() const { return std::abs(value) <= error ? 0 : value; }
};
// Rounding leaves no doubt, but where the error reaches over the point between two numbers of the type.
Uncertain round_to(Narrow narrow, const Uncertain& x);

}  // namespace msda::analysis
