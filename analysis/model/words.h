// Where elements lie, in numbers and in words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "analysis/model/gradient.h"

namespace msda::analysis {

// A convention by its name in captures. Numbers may be of each axis.
struct Convention {
  std::string name;
  std::variant<std::string, bool, int64_t, std::vector<double>> value;
};

// What to do about a cause.
struct Help {
  const char* text;   // a sentence that ends with a colon
  const char* type;   // a line of Python, or a command; empty if only stages help
  bool shows_stages;  // msda-replay stages, of the farthest element, helps as well
};

class Words {
 public:
  virtual ~Words() = default;

  virtual std::span<const Dimension> dimensions() const = 0;
  virtual Coordinates sizes() const = 0;  // by Dimension
  virtual Coordinates coordinates_of(Gradient gradient, int64_t flat) const = 0;
  // Dimensions whose indices may separate wrong values of one kind from those of another: tried in this order.
  using Part = std::vector<Dimension>;
  virtual std::span<const Part> parts() const = 0;

  virtual std::string operator_name() const = 0;  // as in its row
  // Returns what a program that computes the gradients alone has to know beside the tensors and the dialect.
  virtual std::vector<Convention> convention_values() const { return {}; }
  virtual std::string text_of_sizes() const = 0;  // "batch 1, queries 1000, ..."
  // "query 3", "level 1 (32 x 32)", "x".
  virtual std::string text_of(Dimension dimension, int64_t index) const;
  // Returns where an element lies, from what is largest to what is smallest.
  virtual std::vector<std::string> text_of_place(Gradient gradient, int64_t flat) const = 0;
  // Returns what rounding decides where gradients jump, and what to do so that it does not; null: as where coordinates
  // have cells.
  virtual const char* jump_text() const { return "a rounded coordinate landed in the neighbouring cell"; }
  virtual const Help* jump_help() const { return nullptr; }
};

}  // namespace msda::analysis
