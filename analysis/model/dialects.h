// Optional: an operator whose kernels follow several conventions, which tests compare with each other.
#pragma once

#include <memory>
#include <string>

#include "analysis/model/call.h"

namespace msda::analysis {

class Dialects {
 public:
  virtual ~Dialects() = default;

  virtual const char* dialect() const = 0;
  // Returns the call in another dialect, by its name; null if that is its own.
  virtual std::shared_ptr<const Call> in_dialect(const std::string& name) const = 0;
  // Returns the call with this padding; null if that is its own.
  virtual std::shared_ptr<const Call> padded(msda_padding padding, bool align_corners) const = 0;
  // Returns the call in the dialect that most tests compare with; null if that is its own. What misses it is reported
  // as advice.
  virtual std::shared_ptr<const Call> in_dialect_of_tests() const = 0;
  // Returns the call's tensors under the conventions of another call; null if they are the same.
  virtual std::shared_ptr<const Call> under(const Call& another) const = 0;
};

// Returns the call's dialect; empty for an operator without dialects.
inline const char* dialect_of(const Call& call) { return call.dialects() != nullptr ? call.dialects()->dialect() : ""; }

}  // namespace msda::analysis
