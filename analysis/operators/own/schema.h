// What a user says of an operator, whatever the call.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "analysis/model/gradient.h"

namespace msda::analysis {

// Never destroyed.
class OwnSchema {
 public:
  virtual ~OwnSchema() = default;

  virtual const std::string& name() const = 0;  // "segment_sum"
  virtual std::span<const Gradient> outputs() const = 0;
  virtual std::span<const Dimension> dimensions() const = 0;  // one for each name of an index
  // Returns the dimensions of an output's axes, and those along which addends arrive together.
  virtual std::span<const size_t> dimensions_of(size_t output) const = 0;
  virtual std::span<const size_t> channels_of(size_t output) const = 0;
  virtual const std::vector<size_t>& cuts() const = 0;  // dimensions whose indices may be left out
  // Returns whether an output begins with what it held, which is an input of its name.
  virtual bool begins_with_itself(size_t output) const = 0;
  // Returns the definition, as an adapter file says it, if no capture does; empty otherwise.
  virtual std::string text() const { return ""; }
  // Returns whether each operation rounds to the tensors' type, also one of 16 bits.
  virtual bool rounds_to_tensors() const { return false; }
};

}  // namespace msda::analysis
