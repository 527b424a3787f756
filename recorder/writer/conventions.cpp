#include "recorder/writer/conventions.h"

namespace msda::record {

std::optional<Conventions> ConventionsOfKernels::known(uint64_t invocation, const std::string& image) const {
  if (const auto found = decided_.find(image); found != decided_.end()) return found->second;
  const auto found = undecided_.find({invocation, image});
  return found != undecided_.end() ? std::optional(found->second) : std::nullopt;
}

std::optional<Conventions> ConventionsOfKernels::find(uint64_t invocation, const std::string& image,
                                                      msda_dialect dialect,
                                                      const std::map<std::string, msda_tensor>& tensors) {
  const auto conventions = confirm(dialect, tensors);
  if (conventions && !image.empty()) {
    if (conventions->are_only_ones()) {
      decided_[image] = *conventions;
    } else {
      undecided_[{invocation, image}] = *conventions;
    }
  }
  return conventions;
}

void ConventionsOfKernels::note_ambiguous(const std::string& image, const std::string& kernel, int64_t invocation) {
  open_.push_back({image, kernel, invocation});
}

std::vector<std::pair<int64_t, Conventions>> ConventionsOfKernels::decided_later() const {
  std::vector<std::pair<int64_t, Conventions>> decided;
  for (const Open& open : open_) {
    const auto found = decided_.find(open.image);
    if (found != decided_.end()) decided.emplace_back(open.invocation, found->second);
  }
  return decided;
}

std::map<std::string, int64_t> ConventionsOfKernels::ambiguous() const {
  std::map<std::string, int64_t> counts = ambiguous_earlier_;
  for (const Open& open : open_) {
    if (!decided_.contains(open.image)) ++counts[open.kernel];
  }
  return counts;
}

void ConventionsOfKernels::begin_next_capture(bool kept) {
  if (kept) ambiguous_earlier_ = ambiguous();
  open_.clear();
}

}  // namespace msda::record
