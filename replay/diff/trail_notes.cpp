#include "replay/diff/trail_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/causes/finding.h"
#include "recorder/text/words.h"
#include "replay/base/words.h"
#include "replay/diff/trail_causes.h"
#include "replay/diff/trail_differences.h"

namespace msda::replay {
namespace {

using analysis::thousands;
using Notes = std::vector<std::string>;

// Adds what differed, before the runs part, without another result.
void add_same_results(const TrailRun& a, const std::vector<ComparedPair>& pairs, const TrailDecision& decision,
                      Notes& notes) {
  const std::pair<bool ComparedPair::*, const char*> kinds[] = {{&ComparedPair::other_code, "code"},
                                                                {&ComparedPair::other_configuration, "grid or block"},
                                                                {&ComparedPair::other_parameters, "parameters"}};
  for (const auto& [differs, what] : kinds) {
    int64_t count = 0;
    std::string first;
    for (const ComparedPair& pair : pairs) {
      if (decision.is_different && pair.a >= decision.from) break;
      if (!(pair.*differs) || pair.result != PairResult::kEqual) continue;
      if (count++ == 0) first = fmt::format("{}, {}", where_of(a, pair.a), what_of(a, pair.a, 40));
    }
    if (count > 0)
      notes.push_back(
          fmt::format("other {} and the same result in {}, first {}", what, count_text(count, "launch"), first));
  }
}

// Adds other results, before the runs part, that nothing shows.
void add_without_effect(const TrailRun& a, const std::vector<ComparedPair>& pairs, const TrailDecision& decision,
                        Notes& notes) {
  if (decision.without_effect.empty()) return;
  const size_t first = pairs[decision.without_effect.front()].a;
  notes.push_back(
      fmt::format("another result of {} after which many are equal, first {}, {}: memory that only "
                  "they use, or bytes that nothing reads",
                  count_text(static_cast<int64_t>(decision.without_effect.size()), "launch"), where_of(a, first),
                  what_of(a, first, 40)));
}

// Adds rows without partner, before the runs part.
void add_gaps(const TrailRun& a, const TrailRun& b, const TrailAlignment& alignment, const TrailDecision& decision,
              Notes& notes) {
  for (const bool of_a : {true, false}) {
    const TrailRun& run = of_a ? a : b;
    int64_t count = 0;
    std::string first;
    for (const TrailGap& gap : alignment.gaps) {
      if (&gap == decision.gap || (decision.is_different && gap.at > decision.from)) break;
      const std::vector<size_t>& rows = of_a ? gap.a : gap.b;
      if (!rows.empty() && count == 0)
        first = fmt::format("{}, {}", where_of(run, rows.front()), what_of(run, rows.front(), 40));
      count += static_cast<int64_t>(rows.size());
    }
    if (count == 0) continue;
    notes.push_back(fmt::format("only in {}: {} after which results are equal, first {}", of_a ? "A" : "B",
                                count_text(count, "row"), first));
  }
}

void add_unknown(const TrailRun& a, const std::vector<ComparedPair>& pairs, Notes& notes) {
  int64_t count = 0;
  std::string first;
  for (const ComparedPair& pair : pairs) {
    if (pair.result == PairResult::kEqual || pair.result == PairResult::kDiffers) continue;
    if (count++ == 0) first = fmt::format("{}, {}", where_of(a, pair.a), what_of(a, pair.a, 40));
  }
  if (count > 0) {
    notes.push_back(fmt::format("not comparable: {} pairs without a digest, or of other memory, first {}",
                                thousands(count), first));
  }
}

void add_fresh(const TrailRun& a, const TrailRun& b, const TrailAlignment& alignment, Notes& notes) {
  const auto count = std::ranges::count_if(alignment.fresh, [&](const auto& pair) {
    return is_comparable(a, pair.first, b, pair.second) && a.row(pair.first).digest != b.row(pair.second).digest;
  });
  if (count > 0)
    notes.push_back(fmt::format("{} allocations held other data before anybody had written them", thousands(count)));
}

}  // namespace

Notes notes_of(const TrailRun& a, const TrailRun& b, const TrailAlignment& alignment,
               const std::vector<ComparedPair>& pairs, const TrailDecision& decision) {
  Notes notes;
  add_same_results(a, pairs, decision, notes);
  add_without_effect(a, pairs, decision, notes);
  add_gaps(a, b, alignment, decision, notes);
  add_unknown(a, pairs, notes);
  add_fresh(a, b, alignment, notes);
  if (alignment.measuring > 0) {
    notes.push_back(
        fmt::format("{} launches with which a tuner measures are left out", thousands(alignment.measuring)));
  }
  for (const auto& [run, name] : {std::pair{&a, "A"}, {&b, "B"}}) {
    if (run->has_ended_early()) {
      notes.push_back(fmt::format("{}'s recording ended early, after {}: what the other run did later is not compared",
                                  name, count_text(run->launches.empty() ? 0 : run->launches.back(), "launch")));
    }
    if (run->trail.missing > 0) {
      notes.push_back(fmt::format("{} lacks {}: there was no memory for them, or the program was killed", name,
                                  count_text(run->trail.missing, "launch")));
    }
  }
  for (std::string& text : other_machine(a, b)) notes.push_back(std::move(text));
  return notes;
}

}  // namespace msda::replay
