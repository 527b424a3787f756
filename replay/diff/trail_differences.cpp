#include "replay/diff/trail_differences.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/causes/finding.h"
#include "recorder/text/demangle.h"
#include "replay/diff/trail_first.h"
#include "replay/diff/trail_notes.h"
#include "replay/survey/kernel_name.h"

namespace msda::replay {
namespace {

using analysis::thousands;
using capture::TrailKind;
using capture::TrailRow;

class Comparison {
 public:
  Comparison(const TrailRun& a, const TrailRun& b)
      : a_(a), b_(b), alignment_(align_trails(a, b)), pairs_(compare_pairs(a, b, alignment_)) {}

  TrailDifferences differences() {
    TrailDifferences result;
    count(result);
    FirstDivergence found = find_first(a_, b_, alignment_, pairs_);
    result.first = std::move(found.part);
    const size_t from = !result.first ? 0 : found.gap != nullptr ? found.gap->at : result.first->a.front();
    if (result.first) {
      count_after(from, result);
      result.around = around(from);
    }
    result.notes =
        notes_of(a_, b_, alignment_, pairs_, {found.gap, result.first.has_value(), from, found.without_effect});
    return result;
  }

 private:
  void count(TrailDifferences& result) const {
    auto& compared = result.compared;
    compared.measuring = alignment_.measuring;
    compared.ended_early = a_.has_ended_early() + b_.has_ended_early();
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
    constexpr size_t kRows = 10;  // for each side, and for each stretch without partner
    std::vector<std::pair<size_t, TrailDifferences::Beside>> rows;  // with a place in A
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
