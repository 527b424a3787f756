#include "replay/diff/trail_pairs.h"

#include <map>
#include <string>
#include <vector>

namespace msda::replay {
namespace {

using capture::kNoEntry;
using capture::TrailKind;
using capture::TrailRow;

// Compares the parameters of pairs. Most pairs have equal entries of the lists, without changes.
class ParameterComparison {
 public:
  ParameterComparison(const TrailRun& a, const TrailRun& b)
      : a_(a), b_(b), changed_a_(changed_rows(a)), changed_b_(changed_rows(b)) {
    std::map<std::vector<std::byte>, uint32_t> numbers;
    const auto numbers_of = [&](const TrailRun& run) {
      std::vector<uint32_t> result;
      for (const auto& bytes : run.trail.parameters) {
        result.push_back(numbers.try_emplace(bytes, static_cast<uint32_t>(numbers.size())).first->second);
      }
      return result;
    };
    numbers_a_ = numbers_of(a);
    numbers_b_ = numbers_of(b);
  }

  bool differ(size_t row_a, size_t row_b) const {
    const uint32_t of_a = a_.row(row_a).parameters, of_b = b_.row(row_b).parameters;
    if (of_a == kNoEntry || of_b == kNoEntry) return of_a != of_b;
    if (!changed_a_[row_a] && !changed_b_[row_b]) return numbers_a_[of_a] != numbers_b_[of_b];
    return a_.parameters(row_a) != b_.parameters(row_b);
  }

 private:
  static std::vector<bool> changed_rows(const TrailRun& run) {
    std::vector<bool> changed(run.trail.rows.size(), false);
    for (const auto& change : run.trail.changes) changed[change.row] = true;
    return changed;
  }

  const TrailRun &a_, &b_;
  std::vector<bool> changed_a_, changed_b_;
  std::vector<uint32_t> numbers_a_, numbers_b_;
};

PairResult result_of(const TrailRun& a, size_t row_a, const TrailRun& b, size_t row_b) {
  if (!is_comparable(a, row_a, b, row_b)) return PairResult::kUnknown;
  const TrailRow &of_a = a.row(row_a), &of_b = b.row(row_b);
  if (of_a.digest == of_b.digest && of_a.bytes == of_b.bytes) return PairResult::kEqual;
  return ((of_a.flags | of_b.flags) & TrailRow::kIsSparse) != 0 ? PairResult::kDoubtful : PairResult::kDiffers;
}

// Compares digests if both have one; the partner may also be another kernel of the library.
bool is_other_code(const TrailRun& a, size_t row_a, const TrailRun& b, size_t row_b) {
  const capture::TrailKernel &of_a = a.kernel(row_a), &of_b = b.kernel(row_b);
  return of_a.name != of_b.name || (!of_a.digest.empty() && !of_b.digest.empty() && of_a.digest != of_b.digest);
}

bool is_other_configuration(const TrailRun& a, size_t row_a, const TrailRun& b, size_t row_b) {
  const auto *of_a = a.configuration(row_a), *of_b = b.configuration(row_b);
  return of_a != nullptr && of_b != nullptr && *of_a != *of_b;
}

}  // namespace

std::vector<ComparedPair> compare_pairs(const TrailRun& a, const TrailRun& b, const TrailAlignment& alignment) {
  const ParameterComparison parameters(a, b);
  std::vector<ComparedPair> pairs;
  pairs.reserve(alignment.pairs.size());
  for (const auto& [row_a, row_b] : alignment.pairs) {
    pairs.push_back({row_a, row_b, result_of(a, row_a, b, row_b), is_other_code(a, row_a, b, row_b),
                     is_other_configuration(a, row_a, b, row_b), parameters.differ(row_a, row_b)});
  }
  return pairs;
}

const char* text_of(TrailKind kind) {
  switch (kind) {
    case TrailKind::kLaunch:
      return "the launch";
    case TrailKind::kGraph:
      return "the graph";
    case TrailKind::kCopyIn:
      return "the copy from the host";
    case TrailKind::kCopyWithin:
      return "the copy on the device";
    case TrailKind::kCopyOut:
      return "the copy to the host";
    case TrailKind::kSet:
      return "the memset";
    case TrailKind::kHostMemory:
      return "the host's memory";
    case TrailKind::kFreshMemory:
      return "the allocation";
    case TrailKind::kCall:
      return "the call";
    case TrailKind::kCount:
      break;
  }
  return "?";
}

}  // namespace msda::replay
