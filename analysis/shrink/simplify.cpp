#include "analysis/shrink/simplify.h"

#include <cmath>
#include <cstring>
#include <set>

namespace msda::analysis {
namespace {

// Up to this many elements of an input are tried one by one; of more the first ones.
constexpr int64_t kMostAlone = 512;

class Simplifier {
 public:
  Simplifier(Inputs inputs, const TryInputs& accepts) : inputs_(std::move(inputs)), accepts_(accepts) {}

  Inputs run() {
    constexpr int kMostRounds = 3;
    for (int round = 0; round < kMostRounds; ++round) {
      accepted_ = false;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        if (!inputs_[i].is_floating()) continue;
        zero(i, 0, inputs_[i].view().elements());
        round_together(i);
        round_singly(i);
      }
      if (!accepted_) break;
    }
    return std::move(inputs_);
  }

 private:
  // Tries `number` of what each element from `begin` to `end` is, where that is another one.
  template <class Change>
  bool change(size_t input, int64_t begin, int64_t end, Change&& number) {
    OwnedTensor changed = inputs_[input];
    for (int64_t at = begin; at < end; ++at) {
      store(changed.bytes.data(), changed.dtype, at, number(changed.view().at(at)));
    }
    if (changed.bytes == inputs_[input].bytes) return false;
    std::swap(changed, inputs_[input]);
    if (accepts_(inputs_)) {
      accepted_ = true;
      return true;
    }
    std::swap(changed, inputs_[input]);
    return false;
  }

  // All of a range at once or, if that fails, its halves.
  void zero(size_t input, int64_t begin, int64_t end) {
    if (change(input, begin, end, [](double) { return 0.0; })) return;
    if (end - begin <= 1 || is_zero(input, begin, end)) return;
    const int64_t middle = begin + (end - begin) / 2;
    zero(input, begin, middle);
    zero(input, middle, end);
  }

  bool is_zero(size_t input, int64_t begin, int64_t end) const {
    for (int64_t at = begin; at < end; ++at) {
      if (inputs_[input].view().at(at) != 0) return false;
    }
    return true;
  }

  int bits_of_type(size_t input) const { return Precision::of(inputs_[input].dtype).bits; }

  void round_together(size_t input) {
    const int64_t count = inputs_[input].view().elements();
    for (int bits = 1; bits < bits_of_type(input); bits = bits < 8 ? bits + 1 : bits + 4) {
      if (change(input, 0, count, [&](double x) { return with_bits(x, bits); })) return;
    }
  }

  void round_singly(size_t input) {
    const int64_t count = std::min(inputs_[input].view().elements(), kMostAlone);
    for (int64_t at = 0; at < count; ++at) {
      const double x = inputs_[input].view().at(at);
      const auto try_number = [&](double number) { return change(input, at, at + 1, [&](double) { return number; }); };
      if (x == 0 || x == 1 || (x != -1 && (try_number(1) || try_number(-1)))) continue;
      for (int bits = 1; bits < bits_of(x); ++bits) {
        if (try_number(with_bits(x, bits))) break;
      }
    }
  }

  Inputs inputs_;
  const TryInputs& accepts_;
  bool accepted_ = false;
};

}  // namespace

double with_bits(double x, int bits) {
  if (!std::isfinite(x) || x == 0) return x;
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

int bits_of(double x) {
  if (!std::isfinite(x) || x == 0) return 0;
  int exponent = 0;
  double fraction = std::abs(std::frexp(x, &exponent));
  int bits = 0;
  for (; fraction != 0; ++bits) {
    fraction = 2 * fraction;
    fraction -= std::floor(fraction);
  }
  return bits;
}

Inputs simplify_numbers(Inputs inputs, const TryInputs& accepts) {
  return Simplifier(std::move(inputs), accepts).run();
}

}  // namespace msda::analysis
