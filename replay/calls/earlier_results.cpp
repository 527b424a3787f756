#include "replay/calls/earlier_results.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "replay/calls/damage.h"
#include "replay/calls/load_operator.h"
#include "replay/calls/loaded_call.h"

namespace msda::replay {
namespace {

// Of so many calls digests are compared, of so many the data read.
constexpr size_t kMostCalls = 64, kMostRead = 8;

analysis::Tensor read(const capture::IsolatedReader& reader, const capture::TensorInfo& info, capture::Tensor& memory) {
  if (memory.data == nullptr) memory = reader.read(info);
  if (is_altered(memory)) return {};
  return {memory.data.get(), dtype_of(info.type), info.shape};
}

// A call that cannot be read is left out: the one that is being explained does not hang on it.
std::optional<capture::Invocation> call_of(const capture::IsolatedReader& reader, int64_t id) {
  try {
    return reader.invocation(id);
  } catch (const capture::Error&) {
    return std::nullopt;
  }
}

// Other kernels may have outputs of any type.
bool is_gradient(const capture::Invocation& call, const capture::TensorInfo& info) {
  return !operator_of(call).empty() && info.name.starts_with("grad_");
}

}  // namespace

std::vector<analysis::EarlierResult> earlier_results(const capture::IsolatedReader& reader, int64_t invocation) {
  std::vector<int64_t> ids;
  std::ranges::copy_if(reader.invocation_ids(), std::back_inserter(ids), [&](int64_t id) { return id < invocation; });
  std::ranges::sort(ids, std::greater());
  if (ids.size() > kMostCalls) ids.resize(kMostCalls);
  std::vector<analysis::EarlierResult> results;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto earlier = call_of(reader, ids[i]);
    if (!earlier) continue;
    for (const capture::TensorInfo& info : earlier->outputs) {
      analysis::EarlierResult result{earlier->id, info.name, info.digest, [] { return analysis::Tensor{}; }};
      if (i < kMostRead && is_gradient(*earlier, info)) {
        // The memory is that of all copies of the result, and lives as long as any.
        result.read = [&reader, info, memory = std::make_shared<capture::Tensor>()] {
          return read(reader, info, *memory);
        };
      }
      results.push_back(std::move(result));
    }
  }
  return results;
}

}  // namespace msda::replay
