#include "recorder/capture/capture.h"

#include <algorithm>

namespace msda::capture {

int64_t TensorInfo::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

const Invocation::Result* Invocation::reference() const {
  const auto found = std::ranges::find_if(results, [](const Result& r) { return r.facts.role == "reference"; });
  return found == results.end() ? nullptr : &*found;
}

const TensorInfo* find(std::span<const TensorInfo> tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &TensorInfo::name);
  return found == tensors.end() ? nullptr : &*found;
}

}  // namespace msda::capture
