#include "replay/calls/earlier_results.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "replay/calls/damage.h"
#include "replay/calls/load_operator.h"

namespace msda::replay {
namespace {

// How many calls have their digests compared, and how many of these their data read.
constexpr std::ptrdiff_t kMostCalls = 64, kMostRead = 8;

analysis::Tensor read(const capture::IsolatedReader& reader, const capture::TensorInfo& info, capture::Tensor& memory) {
  if (memory.data == nullptr) memory = reader.read(info);
  if (is_altered(memory)) return {};
  return {memory.data.get(), info.type, info.shape};
}

}  // namespace

// Leaves out a call that cannot be read: the call that is being explained does not depend on it.
const EarlierResults::Outputs& EarlierResults::outputs_of(int64_t id) const {
  const auto [at, is_new] = known_.try_emplace(id);
  if (!is_new) return at->second;
  try {
    capture::Invocation call = reader_.invocation(id);
    at->second = {!operator_of(call).empty(), std::move(call.outputs)};
  } catch (const capture::Error&) {
  }
  return at->second;
}

std::vector<analysis::EarlierResult> EarlierResults::before(int64_t invocation) const {
  const std::vector<int64_t>& ids = reader_.invocation_ids();  // ascending
  const auto end = std::ranges::lower_bound(ids, invocation);
  const auto begin = end - std::min<std::ptrdiff_t>(kMostCalls, end - ids.begin());
  if (begin != end) known_.erase(known_.begin(), known_.lower_bound(*begin));
  std::vector<analysis::EarlierResult> results;
  for (auto id = end; id != begin;) {
    const bool may_read = end - --id <= kMostRead;
    const auto& [of_operator, tensors] = outputs_of(*id);
    for (const capture::TensorInfo& info : tensors) {
      analysis::EarlierResult result{*id, info.name, info.digest, [] { return analysis::Tensor{}; }};
      if (may_read && of_operator && info.name.starts_with("grad_")) {
        // The memory is that of all copies of the result, and lives as long as any.
        result.read = [&reader = reader_, info, memory = std::make_shared<capture::Tensor>()] {
          return read(reader, info, *memory);
        };
      }
      results.push_back(std::move(result));
    }
  }
  return results;
}

}  // namespace msda::replay
