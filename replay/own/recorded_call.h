// What operators of the user's own take from an invocation: numbers of the launch, inputs, and sizes of outputs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/model/call.h"
#include "recorder/adapters/user_spec.h"
#include "recorder/capture/capture.h"
#include "replay/own/own_operator.h"

namespace msda::replay {

// What names mean in expressions, by their numbers; a name without an integer is one of reals only.
struct NamedValues {
  std::vector<std::optional<int64_t>> integers;
  std::vector<double> reals;

  void set(size_t name, int64_t integer) {
    integers[name] = integer;
    reals[name] = static_cast<double>(integer);
  }
};

// Returns the numbers that the launch had, as its adapter recorded them: "rows=6 scale.alpha=0.5". A call that no
// adapter recorded has those of its facts and of its tensors' sizes. In the order of the adapter's scalars and then
// kExtents, with room for `names` in all.
NamedValues recorded_values(const adapters::UserSpec& spec, size_t names, const capture::Invocation& invocation,
                            const std::string& where);

// Returns the tensors of these numbers in the adapter, of the ranks and kinds that it says.
std::vector<analysis::Tensor> recorded_inputs(const adapters::UserSpec& spec, std::span<const size_t> tensors,
                                              const capture::Invocation& invocation, const std::string& where,
                                              const GetOwnTensor& input);

// An output of an operator. Dimensions by their numbers.
struct OwnOutput {
  size_t tensor;                              // in the adapter
  std::vector<size_t> index, over, channels;  // of its axes; that it is a sum over; along which addends arrive together
  int64_t addends = 1;                        // for each point that it is a sum over
  bool begins_with_itself = false;            // with what it held, which is an input of its name
};
// Returns sizes as recorded, 0 for dimensions that no output has. A call may lack outputs that have a condition.
// `names`: of the dimensions.
analysis::Coordinates recorded_sizes(const adapters::UserSpec& spec, std::span<const OwnOutput> outputs,
                                     std::span<const analysis::Dimension> names, const capture::Invocation& invocation,
                                     const std::string& where, const GetOwnTensor& output);

}  // namespace msda::replay
