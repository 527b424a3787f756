// The gradients that an operator returns, the dimensions of their tensors, and their elements.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "analysis/numbers/tensor.h"

namespace msda::analysis {

// A gradient that an operator returns. Refers to what its operator says of it, which is never destroyed.
class Gradient {
 public:
  struct Description {
    const char* name;  // "grad_value"
    int place;         // among those of the operator
    bool scattered;    // adds up many samples
  };
  constexpr Gradient() = default;
  constexpr explicit Gradient(const Description& description) : description_(&description) {}

  const char* name() const { return description_->name; }
  size_t place() const { return static_cast<size_t>(description_->place); }
  bool scattered() const { return description_->scattered; }
  friend bool operator==(Gradient, Gradient) = default;
  friend auto operator<=>(Gradient a, Gradient b) { return a.place() <=> b.place(); }

 private:
  const Description* description_ = nullptr;
};
inline const char* name_of(Gradient gradient) { return gradient.name(); }
// No operator returns more.
inline constexpr size_t kMostGradients = 3;

// What an element's index says, whatever the tensor's layout: its batch, its channel, ... Refers to its operator, too.
class Dimension {
 public:
  struct Description {
    const char* name;  // "batch"
    int place;         // among those of the operator
    bool is_axis;      // 0 is x, 1 is y, 2 is z
    bool implied;      // in scattered gradients another dimension determines it
  };
  constexpr Dimension() = default;
  constexpr explicit Dimension(const Description& description) : description_(&description) {}

  const char* name() const { return description_->name; }
  size_t place() const { return static_cast<size_t>(description_->place); }
  bool is_axis() const { return description_->is_axis; }
  bool implied() const { return description_->implied; }
  friend bool operator==(Dimension, Dimension) = default;

 private:
  const Description* description_ = nullptr;
};
inline const char* name_of(Dimension dimension) { return dimension.name(); }
inline constexpr size_t kMostDimensions = 8;
// By Dimension; -1 where the tensor has no such dimension.
using Coordinates = std::array<int64_t, kMostDimensions>;

// Returns what these descriptions describe: the gradients, or the dimensions, of an operator in their order.
template <class Described, size_t kCount>
constexpr std::array<Described, kCount> described(const typename Described::Description (&descriptions)[kCount]) {
  std::array<Described, kCount> all{};
  for (size_t i = 0; i < kCount; ++i) all[i] = Described(descriptions[i]);
  return all;
}

// One element of one gradient.
struct ElementId {
  Gradient gradient;
  int64_t flat = 0;
  Index index;
};

}  // namespace msda::analysis
