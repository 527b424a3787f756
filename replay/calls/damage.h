// Finds tensors that do not match their digests.
#pragma once

#include <string>
#include <vector>

#include "recorder/capture/isolated_reader.h"
#include "replay/base/lines.h"
#include "replay/base/options.h"

namespace msda::replay {

// Returns whether the data do not match their digest. False without a digest.
bool is_altered(const capture::Tensor& tensor);

// Returns the tensors on which a verdict on the call rests: inputs, outputs_before, outputs, and every result.
std::vector<capture::TensorInfo> tensors_of(const capture::Invocation& invocation);

// Returns the stages recorded in full.
std::vector<capture::TensorInfo> stage_tensors_of(const capture::Invocation& invocation);

// Returns the paths of the altered ones; reads all of them.
std::vector<std::string> altered_among(const capture::IsolatedReader& reader,
                                       const std::vector<capture::TensorInfo>& tensors);

// Returns the altered tensors among all of the invocation's.
std::vector<std::string> altered_tensors(const capture::IsolatedReader& reader, const capture::Invocation& invocation);

// Adds those of `more` that are not among them yet.
void add_altered(std::vector<std::string>& altered, const std::vector<std::string>& more);

// Throws BadInput, naming the tensors, if there are any and --damaged is not given.
void refuse_altered(const Options& options, const std::vector<std::string>& altered);

// One indented line for each.
Lines warnings(const std::vector<std::string>& altered);

// Returns the summary for printing, which says if it rests on damaged data.
std::string headline(const std::string& summary, bool damaged);

}  // namespace msda::replay
