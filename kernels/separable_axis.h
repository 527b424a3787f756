// One axis of a separable linear map: which outputs read an input, and with which weight. All of it follows from a few
// sizes, so no table is kept, on the CPU or on a GPU.
#pragma once

#include "kernels/sample.h"
#include "kernels/separable.h"

namespace msda::kernels {

// What the CPU's and the GPU's kernels know of an axis. Sides, kernels, strides and paddings are so small that no sum
// of two or three of them overflows.
struct SeparableSizes {
  msda_separable map;
  int32_t in, out;
  int32_t kernel, stride;  // of windows
  int32_t padding;         // before the input
  bool counts_padding;
  double divisor;  // of every output, or 0

  // Returns how many outputs may read an input, at most.
  int64_t most_readers() const {
    const int64_t after = int64_t{out} - in - padding;  // of a pad
    const int64_t most = map == MSDA_AVG_POOL            ? (int64_t{kernel} + stride - 1) / stride
                         : map == MSDA_ADAPTIVE_AVG_POOL ? (out - 1) / in + 2
                         : map == MSDA_REFLECTION_PAD    ? 3
                         : in == 1                       ? out
                                                         : 1 + (padding > after ? padding : after);
    return most < out ? most : out;
  }
};

inline namespace MSDA_ISA {

// Which outputs read an input, in their order: at most three, or any number from `third - 2` on.
struct SeparableReaders {
  int32_t count, first, second, third;
  MSDA_HOST_DEVICE int32_t output(int32_t i) const { return i == 0 ? first : i == 1 ? second : third + (i - 2); }
};

// `Quotient` divides by what it is made of; the GPU has a faster one than the CPU's.
template <class Real, class Quotient>
class SeparableAxis : public SeparableSizes {
 public:
  SeparableAxis() = default;
  explicit SeparableAxis(const SeparableSizes& sizes)
      : SeparableSizes(sizes),
        per_step_(map == MSDA_AVG_POOL ? stride : in),
        per_output_(out),
        is_constant_(divisor != 0),
        usual_count_(map == MSDA_AVG_POOL ? kernel : in / out + 1),
        usual_weight_(Real(1) / (divisor != 0 ? static_cast<Real>(divisor) : static_cast<Real>(usual_count_))) {}

  MSDA_HOST_DEVICE SeparableReaders readers(int32_t input) const {
    switch (map) {
      case MSDA_AVG_POOL: {
        const int32_t after = input + padding - kernel;  // the last place at which a window ends before the input
        const int32_t end = per_step_(input + padding) + 1;
        return range(after < 0 ? 0 : per_step_(after) + 1, end < out ? end : out);
      }
      case MSDA_ADAPTIVE_AVG_POOL:  // as start() and end() say, with input and output exchanged
        return range(per_step_(int64_t{input} * out), per_step_(int64_t{input + 1} * out + in - 1));
      case MSDA_REFLECTION_PAD:
        return reflections(input);
      default:
        return range(input == 0 ? 0 : at_least_0(input + padding),
                     input == in - 1 || input + padding >= out ? out : input + padding + 1);
    }
  }

  // Returns the weight of an output, which is that of all inputs that it reads.
  MSDA_HOST_DEVICE Real weight(int32_t output) const {
    if (is_constant_) return usual_weight_;
    const int32_t count = count_of(output);
    return count == usual_count_ ? usual_weight_ : Real(1) / static_cast<Real>(count);
  }

 private:
  MSDA_HOST_DEVICE static SeparableReaders range(int32_t first, int32_t end) {
    return {end > first ? end - first : 0, first, first + 1, first + 2};
  }
  MSDA_HOST_DEVICE static int32_t at_least_0(int32_t x) { return x < 0 ? 0 : x; }

  // An input is read where it lies, and by its mirror images beyond either end.
  MSDA_HOST_DEVICE SeparableReaders reflections(int32_t input) const {
    SeparableReaders found{};
    const auto add = [&](bool is_there, int32_t output) {
      if (!is_there || output < 0 || output >= out) return;
      (found.count == 0 ? found.first : found.count == 1 ? found.second : found.third) = output;
      ++found.count;
    };
    add(input > 0, padding - input);
    add(true, padding + input);
    add(input < in - 1, padding + 2 * (in - 1) - input);
    return found;
  }

  // Returns how many inputs an output is the mean of.
  MSDA_HOST_DEVICE int32_t count_of(int32_t output) const {
    if (map == MSDA_ADAPTIVE_AVG_POOL) {
      return per_output_(int64_t{output + 1} * in + out - 1) - per_output_(int64_t{output} * in);
    }
    const int32_t start = output * stride - padding, limit = counts_padding ? in + padding : in;
    const int32_t end = start + kernel < limit ? start + kernel : limit;
    return end - (counts_padding ? start : at_least_0(start));
  }

  Quotient per_step_, per_output_;
  bool is_constant_;
  int32_t usual_count_;
  Real usual_weight_;
};

}  // namespace MSDA_ISA
}  // namespace msda::kernels
