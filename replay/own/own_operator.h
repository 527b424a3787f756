// Operators that are described in an adapter file: one that a user names on the command line, or stores in the capture,
// or one that is built in. A stored definition consists of expressions, which are data: no file is read and no library
// is loaded because a capture says so.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "analysis/numbers/tensor.h"
#include "recorder/capture/capture.h"

namespace msda::replay {

// Gives a tensor of the invocation by its name; one without data and shape if it was not recorded.
using GetOwnTensor = std::function<analysis::Tensor(const std::string& name)>;

class OwnCall;

class OwnOperator {
 public:
  virtual ~OwnOperator() = default;

  virtual const std::string& name() const = 0;       // "segment_sum"
  virtual const std::string& adapter() const = 0;    // whose launches it is of
  virtual bool has_stages() const { return false; }  // intermediate tensors
  // Binds to a call, whose every term has been looked at. Throws BadInput, whose message begins with `where`.
  virtual std::shared_ptr<const OwnCall> bind(const capture::Invocation& invocation, const std::string& where,
                                              const GetOwnTensor& input, const GetOwnTensor& output) const = 0;
};

// Reads the operators of an adapter file, which stay for the process. Throws BadInput, which names --operator.
void read_operators(const std::string& file);

// Returns the operator of the invocation's adapter in the files that were named, or else of the definition that the
// invocation holds, or else the one that is built in; null if there is none. A definition that cannot be used says so
// when it is bound.
const OwnOperator* own_operator_of(const capture::Invocation& invocation);

// Returns the names of the adapters in the files that were named: "segment_sum, slope".
std::string read_adapters();

}  // namespace msda::replay
