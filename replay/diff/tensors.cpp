#include "replay/diff/tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "analysis/numbers/compare.h"
#include "recorder/device/digest.h"

namespace msda::replay {
namespace {

std::string tensor_text(const capture::TensorInfo& info) {
  return fmt::format("{} {}{}{}", kernels::name_of(info.type), fmt::join(info.shape, "x"),
                     info.digest.empty() ? "" : " ", info.digest);
}

Difference::Elements compare_elements(const capture::Tensor& a, const capture::Tensor& b) {
  Difference::Elements elements;
  elements.total = a.info.elements();
  const auto size = static_cast<size_t>(kernels::bytes_of(a.info.type));
  for (int64_t at = 0; at < elements.total; ++at) {
    const size_t offset = static_cast<size_t>(at) * size;
    if (std::memcmp(a.data.get() + offset, b.data.get() + offset, size) == 0) continue;
    if (elements.different++ == 0) {
      elements.first = kernels::index_of(a.info.shape, at);
    }
  }
  if (!kernels::is_float(a.info.type)) return elements;
  const auto view = [](const capture::Tensor& tensor) {
    return analysis::Tensor{tensor.data.get(), tensor.info.type, tensor.info.shape};
  };
  const auto compared = analysis::compare(view(a), view(b), {}, analysis::NonFinite::kAsTorch, 0, 0);
  elements.max_abs = compared.max_abs;
  elements.max_ulp = compared.max_ulp;
  return elements;
}

// Returns the recorder's digest; computes it if only the data were recorded.
std::string recorders_digest(const capture::IsolatedReader& reader, const HeldTensor& tensor) {
  if (!tensor.digest.empty()) return tensor.digest;
  const capture::Tensor data = reader.read(*tensor.info);
  return record::describe_digest(kernels::name_of(data.info.type), data.info.shape,
                                 record::digest_on_host(data.bytes().data(), data.bytes().size()));
}

Difference difference_of(const std::string& name, std::string a, std::string b) {
  return {{}, "", name, std::move(a), std::move(b)};
}

}  // namespace

std::string tensor_text(const HeldTensor& tensor) {
  return tensor.info != nullptr ? tensor_text(*tensor.info) : tensor.digest;
}

std::vector<HeldTensor> held_tensors(const capture::Invocation& invocation, const std::string& section,
                                     const std::vector<capture::TensorInfo>& recorded) {
  std::vector<HeldTensor> all;
  for (const capture::TensorInfo& info : recorded) all.push_back({info.name, &info, ""});
  for (const auto& [path, digest] : invocation.digests) {
    if (!path.starts_with(section + "/")) continue;
    const std::string name = path.substr(section.size() + 1);
    const auto found = std::ranges::find(all, name, &HeldTensor::name);
    if (found != all.end()) {
      found->digest = digest;
    } else {
      all.push_back({name, nullptr, digest});
    }
  }
  return all;
}

std::optional<Difference> differing_tensors(const capture::IsolatedReader& reader_a, const HeldTensor& a,
                                            const capture::IsolatedReader& reader_b, const HeldTensor& b) {
  if (a.info == nullptr || b.info == nullptr) {
    const std::string of_a = recorders_digest(reader_a, a), of_b = recorders_digest(reader_b, b);
    return of_a == of_b ? std::nullopt : std::optional(difference_of(a.name, of_a, of_b));
  }
  const bool alike = a.info->type == b.info->type && a.info->shape == b.info->shape;
  if (alike && !a.info->digest.empty() && a.info->digest == b.info->digest) return std::nullopt;
  Difference difference = difference_of(a.name, tensor_text(a), tensor_text(b));
  if (!alike) return difference;
  difference.elements = compare_elements(reader_a.read(*a.info), reader_b.read(*b.info));
  return difference.elements->different > 0 ? std::optional(difference) : std::nullopt;
}

}  // namespace msda::replay
