#include "recorder/capture/capture.h"

#include <algorithm>

#include "recorder/capture/call_attributes.h"

namespace msda::capture {

const Invocation::Result* Invocation::reference() const {
  const auto found = std::ranges::find_if(results, [](const Result& r) { return r.facts.role == "reference"; });
  return found == results.end() ? nullptr : &*found;
}

const TensorInfo* find(std::span<const TensorInfo> tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &TensorInfo::name);
  return found == tensors.end() ? nullptr : &*found;
}

void share_images(std::vector<KernelImage>& kernels) {
  std::map<std::string_view, const KernelImage*> with_image;
  for (const KernelImage& kernel : kernels) {
    if (!kernel.image.empty()) with_image[kernel.digest] = &kernel;
  }
  for (KernelImage& kernel : kernels) {
    const auto same = with_image.find(kernel.digest);
    if (kernel.image.empty() && same != with_image.end()) kernel.image = same->second->image;
  }
}

std::optional<KernelImage> code_of(const CallFacts& facts, const std::vector<KernelImage>& kernels) {
  if (facts.kernel_digest.empty()) return std::nullopt;
  const KernelImage* same_image = nullptr;
  for (const KernelImage& code : kernels) {
    if (code.digest != facts.kernel_digest) continue;
    if (code.name == facts.kernel) return code;
    same_image = &code;
  }
  if (same_image == nullptr) return std::nullopt;
  return KernelImage{facts.kernel_digest, facts.kernel, same_image->architecture, {}, same_image->image};
}

bool is_call_attribute(std::string_view name, bool has_dialect) {
  if (name == "atol" || name == "rtol") return true;
  bool found = false;
  const CallFacts facts;
  const auto compare = [&](std::string_view attribute, const auto&) { found = found || attribute == name; };
  for_each_call_attribute(facts, compare);
  if (has_dialect) for_each_convention(facts, compare);
  return found && name != "tolerance";
}

}  // namespace msda::capture
