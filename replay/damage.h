// Tensors that are not what was recorded, as their digests tell.
#pragma once

#include <string>
#include <vector>

#include "recorder/capture/isolated_reader.h"
#include "replay/lines.h"
#include "replay/options.h"

namespace msda::replay {

// Whether the data are others than the digest beside them says. Without a digest nothing is known.
bool is_altered(const capture::Tensor& tensor);

// What a verdict on the call rests on: inputs, outputs_before, outputs, and every result.
std::vector<capture::TensorInfo> tensors_of(const capture::Invocation& invocation);

// The paths of those that are altered; reads them all.
std::vector<std::string> altered_tensors(const capture::IsolatedReader& reader, const capture::Invocation& invocation);

// Throws BadInput, naming the tensors, if there are any and --damaged does not ask to go on.
void refuse_altered(const Options& options, const std::vector<std::string>& altered);

// A line for each, indented.
Lines warnings(const std::vector<std::string>& altered);

// A summary as it is printed: it says if it rests on damaged data.
std::string headline(const std::string& summary, bool damaged);

}  // namespace msda::replay
