// How simulated inputs are drawn, and which generator a recorded tensor looks drawn by.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/numbers/tensor.h"

namespace msda::analysis::stress {

struct Generator {
  enum class Kind {
    kUniform,    // in [low, high), of 32 random bits as PyTorch's CUDA generator makes float32: finer than 2^-24 near 0
    kUniform24,  // the same of 24 random bits, multiples of 2^-24, as PyTorch has them on the CPU, and NumPy
    kNormal,     // by mean and deviation
    kSoftmax,    // of `group` adjacent normal numbers of that deviation
    kResample    // numbers of the recorded tensor, their low bits drawn anew
  };
  Kind kind = Kind::kUniform;
  double low = 0, high = 1;
  double mean = 0, deviation = 1;
  int64_t group = 1;
  std::shared_ptr<const std::vector<float>> numbers;  // of kResample

  // "uniform(0,1)", "uniform24(0,1)", "normal(0,1)", "softmax(1,12)", "resample": what parse() reads.
  std::string text() const;
};

// Throws std::invalid_argument, in words that follow the name of an option. `recorded` is for "resample".
Generator parse_generator(std::string_view text, const Tensor& recorded);

// Returns the generator that the numbers look drawn by; kResample if none. `groups`: how many adjacent numbers may have
// been normalized together by a softmax.
Generator fit_generator(const Tensor& recorded, const std::vector<int64_t>& groups);

// Draws `count` numbers that depend on the seed alone. `bits` is memory for the purpose.
void draw(const Generator& generator, uint64_t seed, int64_t count, float* numbers, std::vector<uint32_t>& bits);

// Returns a seed for the tensor `tensor` of one slice of one run.
uint64_t seed_of(uint64_t seed, int64_t run, int64_t slice, int64_t tensor);

}  // namespace msda::analysis::stress
