#include "replay/diff/trail_differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "analysis/finding.h"
#include "recorder/text/demangle.h"
#include "replay/diff/trail_causes.h"
#include "replay/diff/trail_notes.h"
#include "replay/survey/kernel_name.h"

namespace msda::replay {
namespace {

using analysis::thousands;
using capture::TrailKind;
using capture::TrailRow;

// Whether it leaves what a row shortly before it left, as where a tuner measures.
bool is_repeated(const TrailRun& run, size_t row) {
  constexpr size_t kShortly = 4;
  const TrailRow& one = run.row(row);
  for (size_t i = row; i-- > 0 && i + kShortly >= row;) {
    const TrailRow& other = run.row(i);
    if (other.kind == one.kind && other.kernel == one.kernel && other.parts == one.parts && other.bytes == one.bytes &&
        other.digest == one.digest) {
      return true;
    }
  }
  return false;
}

// A gap whose rows can have changed the device's memory. Reading it, and memory of the host as it was, cannot.
bool may_decide(const TrailRun& run, size_t row) {
  const TrailKind kind = run.row(row).kind;
  return kind != TrailKind::kCopyOut && kind != TrailKind::kHostMemory && !is_repeated(run, row);
}

class Comparison {
 public:
  Comparison(const TrailRun& a, const TrailRun& b)
      : a_(a), b_(b), alignment_(align_trails(a, b)), pairs_(compare_pairs(a, b, alignment_)) {}

  TrailDifferences differences() {
    TrailDifferences result;
    count(result);
    const auto found = std::ranges::find(pairs_, PairResult::kDiffers, &ComparedPair::result);
    const std::optional<size_t> differing =
        found == pairs_.end() ? std::nullopt : std::optional(static_cast<size_t>(found - pairs_.begin()));
    const TrailGap* const decided_by = differing ? first_of(*differing, result) : trailing_gap();
    if (!differing && decided_by != nullptr) result.first = part_of(*decided_by);
    const size_t from = !result.first ? 0 : decided_by != nullptr ? decided_by->at : result.first->a.front();
    if (result.first) {
      count_after(from, result);
      result.around = around(from);
    }
    result.notes = notes_of(a_, b_, alignment_, pairs_, {decided_by, result.first.has_value(), from});
    return result;
  }

 private:
  void count(TrailDifferences& result) const {
    auto& compared = result.compared;
    compared.measuring = alignment_.measuring;
    for (const ComparedPair& pair : pairs_) {
      const TrailRow& row = a_.row(pair.a);
      int64_t& kind = is_launch(row)                ? compared.launches
                      : row.kind == TrailKind::kSet ? compared.sets
                                                    : compared.copies;
      const bool is_known = pair.result == PairResult::kEqual || pair.result == PairResult::kDiffers;
      ++(is_known ? kind : compared.unknown);
    }
  }

  void count_after(size_t from, TrailDifferences& result) const {
    auto& after = result.after;
    for (const ComparedPair& pair : pairs_) {
      if (pair.a < from) continue;
      ++after.rows;
      after.differ += pair.result == PairResult::kDiffers;
      after.unknown += pair.result == PairResult::kUnknown || pair.result == PairResult::kDoubtful;
    }
    for (const TrailGap& gap : alignment_.gaps) {
      if (gap.at < from) continue;
      after.unpaired += static_cast<int64_t>(gap.a.size() + gap.b.size());
    }
    after.rows += after.unpaired;
  }

  std::vector<TrailDifferences::Beside> around(size_t from) const {
    constexpr size_t kRows = 10;                                    // of each side, and of each stretch without partner
    std::vector<std::pair<size_t, TrailDifferences::Beside>> rows;  // by a place in A
    const auto add_gap = [&](const TrailGap& gap) {
      for (size_t i = 0; i < std::min(kRows, std::max(gap.a.size(), gap.b.size())); ++i) {
        const auto row_of = [i](const std::vector<size_t>& all) {
          return i < all.size() ? std::optional(all[i]) : std::nullopt;
        };
        rows.push_back({gap.at, {row_of(gap.a), row_of(gap.b), PairResult::kUnknown}});
      }
    };
    const auto middle = std::ranges::lower_bound(pairs_, from, {}, &ComparedPair::a);
    const auto begin = middle - std::min<std::ptrdiff_t>(kRows, middle - pairs_.begin()),
               end = middle + std::min<std::ptrdiff_t>(kRows, pairs_.end() - middle);
    const size_t first = begin == middle ? from : begin->a, last = end == middle ? from : (end - 1)->a;
    for (const TrailGap& gap : alignment_.gaps) {
      if (gap.at >= first && gap.at <= std::max(last, from)) add_gap(gap);
    }
    for (auto pair = begin; pair != end; ++pair) rows.push_back({pair->a, {pair->a, pair->b, pair->result}});
    std::ranges::stable_sort(rows, {}, [](const auto& row) { return row.first; });
    std::vector<TrailDifferences::Beside> beside;
    for (const auto& [at, row] : rows) beside.push_back(row);
    return beside;
  }

  // What of a gap may have decided something.
  TrailGap deciding(const TrailGap& gap) const {
    TrailGap part{{}, {}, gap.at};
    std::ranges::copy_if(gap.a, std::back_inserter(part.a), [&](size_t row) { return may_decide(a_, row); });
    std::ranges::copy_if(gap.b, std::back_inserter(part.b), [&](size_t row) { return may_decide(b_, row); });
    return part;
  }

  static bool has_launch(const TrailRun& run, const std::vector<size_t>& rows) {
    return std::ranges::any_of(rows, [&](size_t row) { return is_launch(run.row(row)); });
  }

  // Of kernels in place of others the first kernels are meant, and not the memsets before them.
  static void begin_with_launch(const TrailRun& run, std::vector<size_t>& rows) {
    rows.erase(rows.begin(), std::ranges::find_if(rows, [&](size_t row) { return is_launch(run.row(row)); }));
  }

  TrailPart part_of(const TrailGap& gap) const {
    TrailPart part;
    TrailGap rows = deciding(gap);
    part.kind = rows.b.empty()   ? TrailDivergence::kOnlyInA
                : rows.a.empty() ? TrailDivergence::kOnlyInB
                                 : TrailDivergence::kAnotherKernel;
    if (has_launch(a_, rows.a) && has_launch(b_, rows.b)) {
      begin_with_launch(a_, rows.a);
      begin_with_launch(b_, rows.b);
    }
    part.a = std::move(rows.a);
    part.b = std::move(rows.b);
    find_cause(a_, b_, alignment_, part);
    return part;
  }

  TrailPart part_of(const ComparedPair& pair) const {
    TrailPart part;
    part.a = {pair.a};
    part.b = {pair.b};
    const TrailKind kind = a_.row(pair.a).kind;
    if (kind == TrailKind::kCopyIn || kind == TrailKind::kHostMemory || kind == TrailKind::kSet) {
      part.kind = TrailDivergence::kOtherInput;
    } else if (pair.other_code) {
      part.kind = TrailDivergence::kAnotherKernel;
    } else {
      part.parameters = deciding_parameters(pair);
      const bool other = pair.other_configuration || !part.parameters.empty();
      part.kind = other ? TrailDivergence::kOtherParameters : TrailDivergence::kOtherOutput;
    }
    if (pair.other_code) part.parameters = parameter_differences(a_, pair.a, b_, pair.b);
    find_cause(a_, b_, alignment_, part);
    return part;
  }

  // Without words that also differ where the same kernel gave equal results: padding, handles, addresses of the host.
  std::vector<ParameterDifference> deciding_parameters(const ComparedPair& pair) const {
    std::vector<ParameterDifference> differences = parameter_differences(a_, pair.a, b_, pair.b);
    if (differences.empty() || draws_random_numbers(a_, pair.a)) return differences;
    std::set<size_t> of_no_account;
    for (const ComparedPair& other : pairs_) {
      const bool tells = other.result == PairResult::kEqual && other.other_parameters && !other.other_code &&
                         a_.row(other.a).kernel == a_.row(pair.a).kernel;
      if (!tells) continue;
      for (const auto& word : parameter_differences(a_, other.a, b_, other.b)) of_no_account.insert(word.offset);
    }
    std::erase_if(differences, [&](const auto& word) { return of_no_account.contains(word.offset); });
    return differences;
  }

  // Whether a launch between the two places has an equal result, so that what was at the first did not reach it.
  bool is_equal_between(size_t from, size_t to) const {
    for (auto pair = std::ranges::lower_bound(pairs_, from, {}, &ComparedPair::a); pair != pairs_.end(); ++pair) {
      if (pair->a >= to) return false;
      if (pair->result == PairResult::kEqual && is_launch(a_.row(pair->a))) return true;
    }
    return false;
  }

  // Of stretches that replace one another: whether their last results are equal; nothing if they cannot be compared.
  std::optional<bool> is_same_result(const TrailGap& gap) const {
    if (gap.a.empty() || gap.b.empty()) return std::nullopt;
    const size_t a = gap.a.back(), b = gap.b.back();
    if (!is_comparable(a_, a, b_, b) || a_.row(a).bytes != b_.row(b).bytes) return std::nullopt;
    return a_.row(a).digest == b_.row(b).digest;
  }

  // Launches without partner before a row of A.
  struct GapsBefore {
    const TrailGap* deciding = nullptr;     // no launch between gave an equal result, or they left another themselves
    const TrailGap* last = nullptr;         // shortly before it
    const TrailGap* last_random = nullptr;  // with random numbers that only one run draws
  };
  GapsBefore gaps_before(size_t row) const {
    GapsBefore found;
    for (const TrailGap& gap : alignment_.gaps) {
      if (gap.at > row || found.deciding != nullptr) break;
      const TrailGap rows = deciding(gap);
      const std::optional<bool> same = is_same_result(rows);
      if ((rows.a.empty() && rows.b.empty()) || same == true) continue;
      if (same == false || !is_equal_between(gap.at, row)) found.deciding = &gap;
      if (gap.at + kShortly >= row) found.last = &gap;
      const auto draws = [](const TrailRun& run, const std::vector<size_t>& all) {
        return std::ranges::any_of(all, [&](size_t one) { return draws_random_numbers(run, one); });
      };
      if (draws(a_, rows.a) != draws(b_, rows.b)) found.last_random = &gap;
    }
    return found;
  }

  // Sets result.first, given the first pair with different results: that pair, or what must have come before it, or, if
  // nothing else explains it, what may have. Returns the gap that is first, or null.
  const TrailGap* first_of(size_t differing, TrailDifferences& result) const {
    const ComparedPair& pair = pairs_[differing];
    TrailPart part = part_of(pair);
    const GapsBefore gaps = gaps_before(pair.a);
    const bool is_unexplained = part.kind == TrailDivergence::kOtherOutput && part.cause.empty();
    const TrailGap* decided_by = gaps.deciding;
    if (decided_by == nullptr && is_unexplained) decided_by = gaps.last;
    if (decided_by == nullptr && part.cause == "generator") decided_by = gaps.last_random;
    const ComparedPair* const doubtful = is_unexplained && decided_by == nullptr ? doubtful_before(differing) : nullptr;
    if (doubtful != nullptr) part = part_of(*doubtful);
    const ComparedPair* other_code = nullptr;
    if (decided_by == nullptr && part.kind != TrailDivergence::kOtherInput) {
      decided_by = replacing_before(pair.a);
      other_code = unknown_before(differing);
      // The later of the two.
      if (decided_by != nullptr && other_code != nullptr && other_code->a > decided_by->at) decided_by = nullptr;
      if (decided_by != nullptr) other_code = nullptr;
    }
    result.first = decided_by != nullptr   ? part_of(*decided_by)
                   : other_code != nullptr ? part_of(*other_code)
                                           : std::move(part);
    if (decided_by != nullptr || other_code != nullptr) {
      result.first->evidence.push_back(fmt::format("the first pair with other results behind it is {}, {}",
                                                   where_of(a_, pair.a), what_of(a_, pair.a, 48)));
    }
    return decided_by;
  }

  // Other kernels in place of others, and launches of other code or another grid whose results cannot be compared,
  // shortly before a row of A: their results may be read only later.
  static constexpr size_t kShortly = 256;
  const TrailGap* replacing_before(size_t row) const {
    const TrailGap* found = nullptr;
    for (const TrailGap& gap : alignment_.gaps) {
      if (gap.at > row) break;
      if (gap.at + kShortly < row || is_same_result(gap) == true) continue;
      if (has_launch(a_, gap.a) && has_launch(b_, gap.b)) found = &gap;
    }
    return found;
  }

  // The last launch that may have left another result: it changed a part of what is digested, and the digests differ;
  // or its results cannot be compared, as of one that read what it should not, and so wrote elsewhere.
  const ComparedPair* doubtful_before(size_t differing) const {
    constexpr int kMost = 256;  // whose parameters are compared
    int compared = 0;
    for (size_t i = differing; i-- > 0;) {
      const ComparedPair& pair = pairs_[i];
      if (pair.result == PairResult::kDoubtful) return &pair;
      if (pair.result != PairResult::kUnknown || !is_launch(a_.row(pair.a))) continue;
      const bool is_near = pair.a + kShortly >= pairs_[differing].a;
      if (is_near || (pair.other_parameters && compared++ < kMost && !deciding_parameters(pair).empty())) return &pair;
    }
    return nullptr;
  }
  const ComparedPair* unknown_before(size_t differing) const {
    for (size_t i = differing; i-- > 0 && pairs_[i].a + kShortly >= pairs_[differing].a;) {
      const ComparedPair& pair = pairs_[i];
      const bool is_other = pair.other_code || pair.other_configuration;
      if (pair.result == PairResult::kUnknown && is_other && is_launch(a_.row(pair.a))) return &pair;
    }
    return nullptr;
  }

  // Of runs without other results: launches that only one has, and behind which nothing is known to be equal.
  const TrailGap* trailing_gap() const {
    size_t last_a = 0, last_b = 0;
    bool is_known = false;
    for (const ComparedPair& pair : pairs_) {
      if (pair.result != PairResult::kEqual) continue;
      is_known = true;
      last_a = std::max(last_a, pair.a);
      last_b = std::max(last_b, pair.b);
    }
    for (const TrailGap& gap : alignment_.gaps) {
      const TrailGap rows = deciding(gap);
      if (rows.a.empty() && rows.b.empty()) continue;
      const bool behind_a = rows.a.empty() || !is_known || rows.a.front() > last_a;
      const bool behind_b = rows.b.empty() || !is_known || rows.b.front() > last_b;
      if (behind_a && behind_b && is_same_result(rows) != true) return &gap;
    }
    return nullptr;
  }

  const TrailRun &a_, &b_;
  const TrailAlignment alignment_;
  const std::vector<ComparedPair> pairs_;
};

}  // namespace

const char* name_of(TrailDivergence divergence) {
  constexpr const char* kNames[] = {"another_kernel", "other_parameters", "other_input",
                                    "other_output",   "only_in_a",        "only_in_b"};
  return kNames[static_cast<size_t>(divergence)];
}

std::string where_of(const TrailRun& run, size_t row) {
  const TrailKind kind = run.row(row).kind;
  const std::string at = thousands(run.launches[row] + (kind == TrailKind::kLaunch ? 0 : 1));
  if (kind == TrailKind::kLaunch) return "launch " + at;
  return fmt::format("{} before launch {}", text_of(kind), at);
}

std::string what_of(const TrailRun& run, size_t row, size_t columns) {
  const std::string& name = run.kernel(row).name;
  if (!name.empty()) return short_name(text::demangled(name), columns);
  return fmt::format("{} bytes", thousands(static_cast<int64_t>(run.row(row).bytes)));
}

TrailDifferences find_differences(const TrailRun& a, const TrailRun& b) { return Comparison(a, b).differences(); }

}  // namespace msda::replay
