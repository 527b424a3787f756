#include "recorder/writer/conventions.h"

namespace msda::record {

std::optional<Conventions> ConventionsOfKernels::known(const std::string& image) const {
  const auto found = decided_.find(image);
  return found != decided_.end() ? std::optional(found->second) : std::nullopt;
}

std::optional<Conventions> ConventionsOfKernels::find(const std::string& image, msda_dialect dialect,
                                                      const std::map<std::string, msda_tensor>& tensors) {
  const auto conventions = confirm(dialect, tensors);
  if (conventions && conventions->only_ones && !image.empty()) decided_[image] = *conventions;
  return conventions;
}

void ConventionsOfKernels::note_ambiguous(const std::string& image, const std::string& kernel, int64_t invocation) {
  open_.push_back({image, kernel, invocation});
}

std::vector<std::pair<int64_t, Conventions>> ConventionsOfKernels::decided_later() const {
  std::vector<std::pair<int64_t, Conventions>> decided;
  for (const Open& open : open_) {
    if (const auto conventions = known(open.image)) decided.emplace_back(open.invocation, *conventions);
  }
  return decided;
}

std::map<std::string, int64_t> ConventionsOfKernels::ambiguous() const {
  std::map<std::string, int64_t> counts;
  for (const Open& open : open_) {
    if (!known(open.image)) ++counts[open.kernel];
  }
  return counts;
}

}  // namespace msda::record
