// What a library says of its operator, copied out of its process; and the words of its answers.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/own_operator.h"

namespace msda::replay {

// kernels/own_operator.h explains the members. Nothing has been checked but the counts.
struct LibrarySchema {
  struct Dimension {
    std::string name;
    bool may_be_left_out;
  };
  struct Tensor {
    std::string name;
    int32_t role;
    bool is_integer;
    std::vector<int32_t> dimensions;
  };
  struct Output {
    int32_t tensor, coordinates, addends;
    std::vector<int32_t> over, channels;
  };

  std::string name;
  std::vector<Dimension> dimensions;
  std::vector<Tensor> tensors;
  std::vector<Output> outputs;
  bool has_coordinates = false;  // the function
};

// Addends of elements: for each addend a word of its form, its weight, its number, and the places of its inputs; after
// each element kEndOfElement. Coordinates: tensor, place, size, number of steps, and for each step operation and
// operand.
namespace words {

struct Form {
  uint8_t inputs = 0;
  uint8_t fractions[MSDA_OWN_MOST_COORDINATES] = {};
  uint8_t tensors[MSDA_OWN_MOST_INPUTS] = {};
};
static_assert(sizeof(Form) == sizeof(uint64_t));
inline uint64_t word_of(const Form& form) { return std::bit_cast<uint64_t>(form); }
inline Form form_of(uint64_t word) { return std::bit_cast<Form>(word); }

inline constexpr uint64_t kEndOfElement = ~uint64_t{0};
inline constexpr size_t kBeforeInputs = 3, kBeforeSteps = 4;

}  // namespace words

}  // namespace msda::replay
