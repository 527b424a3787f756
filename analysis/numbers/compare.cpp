#include "analysis/numbers/compare.h"

#include <algorithm>

#include "kernels/parallel.h"

namespace msda::analysis {
namespace {

// Returns the bits of a floating-point number as an integer that counts representable numbers, with -0 and +0 both 0.
int64_t ordinal(float x) {
  const auto bits = std::bit_cast<int32_t>(x);
  return bits < 0 ? -int64_t{bits & 0x7fffffff} : bits;
}
int64_t ordinal(double x) {
  const auto bits = std::bit_cast<int64_t>(x);
  return bits < 0 ? -(bits & 0x7fffffffffffffff) : bits;
}
int64_t ordinal(kernels::Float16 x) { return x.bits & 0x8000 ? -int64_t{x.bits & 0x7fff} : x.bits; }
int64_t ordinal(kernels::BFloat16 x) { return x.bits & 0x8000 ? -int64_t{x.bits & 0x7fff} : x.bits; }

uint64_t distance(int64_t a, int64_t b) {
  return a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b)
               : static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
}

struct Part : Comparison {
  double worst_abs = -1;
  bool worst_non_finite = false;
};

template <class O, class E>
Part compare_part(const O* observed, const E* expected, int64_t begin, int64_t end, const Tolerance& tolerance,
                  NonFinite policy, int64_t most) {
  Part part;
  for (int64_t i = begin; i < end; ++i) {
    const double o = kernels::widen(observed[i]), e = kernels::widen(expected[i]);
    const double difference = o - e;
    if (difference == 0) {  // the common case; false for NaN and for two infinities
      if (part.worst_abs < 0) {
        part.worst_abs = 0;
        part.worst = i;
      }
      continue;
    }
    const bool finite = std::isfinite(o) && std::isfinite(e);
    bool mismatch;
    if (finite) {
      const double magnitude = std::abs(difference);
      mismatch = magnitude > tolerance.atol + tolerance.rtol * std::abs(e);
      part.max_abs = std::max(part.max_abs, magnitude);
      if (e != 0) part.max_rel = std::max(part.max_rel, magnitude / std::abs(e));
      part.max_ulp = std::max(part.max_ulp, distance(ordinal(observed[i]), ordinal(kernels::narrow<O>(e))));
      if (magnitude > part.worst_abs && !part.worst_non_finite) {
        part.worst_abs = magnitude;
        part.worst = i;
      }
    } else {
      mismatch = policy == NonFinite::kMismatch ? true : !(o == e);
      part.non_finite += mismatch;
      if (mismatch && !part.worst_non_finite) {
        part.worst_non_finite = true;
        part.worst = i;
      }
    }
    if (mismatch) {
      ++part.mismatched;
      if (static_cast<int64_t>(part.mismatches.size()) < most) part.mismatches.push_back(i);
    }
  }
  return part;
}

}  // namespace

Comparison compare(const Tensor& observed, const Tensor& expected, const Tolerance& tolerance, NonFinite non_finite,
                   int64_t most_mismatches, int threads) {
  const int64_t total = observed.elements();
  constexpr int64_t kPart = int64_t{1} << 16;
  const int64_t count = (total + kPart - 1) / kPart;
  std::vector<Part> parts(static_cast<size_t>(count));
  const auto compare_all = [&](const auto* o, const auto* e) {
    kernels::parallel_for(count, kernels::thread_count(threads, count), [&](int64_t part, int) {
      parts[part] =
          compare_part(o, e, part * kPart, std::min(total, (part + 1) * kPart), tolerance, non_finite, most_mismatches);
    });
  };
  kernels::visit_dtype(
      observed.dtype,
      [&](const auto* o) {
        kernels::visit_dtype(
            expected.dtype, [&](const auto* e) { compare_all(o, e); }, expected.data);
      },
      observed.data);
  Part result;
  for (const Part& part : parts) {
    result.mismatched += part.mismatched;
    result.non_finite += part.non_finite;
    result.max_abs = std::max(result.max_abs, part.max_abs);
    result.max_rel = std::max(result.max_rel, part.max_rel);
    result.max_ulp = std::max(result.max_ulp, part.max_ulp);
    const bool worse = part.worst_non_finite ? !result.worst_non_finite
                                             : !result.worst_non_finite && part.worst_abs > result.worst_abs;
    if (worse) {
      result.worst = part.worst;
      result.worst_abs = part.worst_abs;
      result.worst_non_finite = part.worst_non_finite;
    }
    const int64_t room = most_mismatches - static_cast<int64_t>(result.mismatches.size());
    const auto taken = std::min<int64_t>(room, static_cast<int64_t>(part.mismatches.size()));
    result.mismatches.insert(result.mismatches.end(), part.mismatches.begin(), part.mismatches.begin() + taken);
  }
  result.total = total;
  return result;
}

uint64_t ulp_distance(double a, double b, msda_dtype dtype) {
  return kernels::visit_dtype(dtype, [&]<class T>(const T*) {
    return distance(ordinal(kernels::narrow<T>(a)), ordinal(kernels::narrow<T>(b)));
  });
}

Tolerance customary_tolerance(msda_dtype stored) {
  switch (stored) {
    case MSDA_FLOAT16:
      return {1e-2, 1e-2};
    case MSDA_BFLOAT16:
      return {5e-2, 5e-2};
    case MSDA_FLOAT64:
      return {1e-7, 1e-7};
    default:
      return {1e-3, 1e-2};
  }
}

}  // namespace msda::analysis
