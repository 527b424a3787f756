#include "replay/calls/damage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "recorder/capture/digest.h"
#include "replay/base/errors.h"

namespace msda::replay {

bool is_altered(const capture::Tensor& tensor) {
  return !tensor.info.digest.empty() && capture::digest(tensor.bytes()) != tensor.info.digest;
}

std::vector<capture::TensorInfo> tensors_of(const capture::Invocation& invocation) {
  std::vector<capture::TensorInfo> tensors;
  const auto add = [&](const std::vector<capture::TensorInfo>& more) {
    tensors.insert(tensors.end(), more.begin(), more.end());
  };
  add(invocation.inputs);
  add(invocation.outputs_before);
  add(invocation.outputs);
  for (const auto& result : invocation.results) add(result.tensors);
  return tensors;
}

std::vector<capture::TensorInfo> stage_tensors_of(const capture::Invocation& invocation) {
  std::vector<capture::TensorInfo> tensors;
  for (const auto& stage : invocation.stages) {
    if (stage.full) tensors.push_back(*stage.full);
  }
  return tensors;
}

std::vector<std::string> altered_among(const capture::IsolatedReader& reader,
                                       const std::vector<capture::TensorInfo>& tensors) {
  std::vector<std::string> altered;
  for (const capture::TensorInfo& info : tensors) {
    if (!info.digest.empty() && is_altered(reader.read(info))) altered.push_back(info.path);
  }
  return altered;
}

std::vector<std::string> altered_tensors(const capture::IsolatedReader& reader, const capture::Invocation& invocation) {
  std::vector<std::string> altered = altered_among(reader, tensors_of(invocation));
  add_altered(altered, altered_among(reader, stage_tensors_of(invocation)));
  return altered;
}

void add_altered(std::vector<std::string>& altered, const std::vector<std::string>& more) {
  std::ranges::copy_if(more, std::back_inserter(altered),
                       [&](const std::string& path) { return std::ranges::find(altered, path) == altered.end(); });
}

void refuse_altered(const Options& options, const std::vector<std::string>& altered) {
  constexpr size_t kMostNamed = 3;
  if (altered.empty() || options.damaged) return;
  const size_t named = std::min(altered.size(), kMostNamed);
  const std::vector<std::string> first(altered.begin(), altered.begin() + static_cast<std::ptrdiff_t>(named));
  const std::string more = altered.size() > named ? fmt::format(" and {} more", altered.size() - named) : "";
  throw BadInput(
      fmt::format("{0}: damaged, so there is no verdict: the data of {1}{2} do not match their digests; "
                  "msda-replay verify {0} lists the damage; --damaged continues anyway",
                  options.capture, fmt::join(first, ", "), more));
}

Lines warnings(const std::vector<std::string>& altered) {
  Lines lines;
  for (const std::string& path : altered) {
    lines.add("  warning: {} is not what was recorded, its digest differs", path);
  }
  return lines;
}

std::string headline(const std::string& summary, bool damaged) {
  return damaged ? "On damaged data: " + summary : summary;
}

}  // namespace msda::replay
