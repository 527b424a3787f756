#include "replay/diff/trail_first.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>

#include "replay/diff/trail_causes.h"

namespace msda::replay {
namespace {

using capture::TrailKind;
using capture::TrailRow;

// Returns whether the row writes what a row shortly before it wrote, as in a tuner's measurements.
bool is_repeated(const TrailRun& run, size_t row) {
  constexpr size_t kShortly = 4;
  const TrailRow& found = run.row(row);
  for (size_t i = row; i-- > 0 && i + kShortly >= row;) {
    const TrailRow& second = run.row(i);
    if (second.kind == found.kind && second.kernel == found.kernel && second.parts == found.parts &&
        second.bytes == found.bytes && second.digest == found.digest) {
      return true;
    }
  }
  return false;
}

// Returns whether the row can have changed the device's memory. Reading it cannot, nor can memory of the host as it
// was.
bool may_decide(const TrailRun& run, size_t row) {
  const TrailKind kind = run.row(row).kind;
  return kind != TrailKind::kCopyOut && kind != TrailKind::kHostMemory && !is_repeated(run, row);
}

// Returns the rows of a gap that may have decided something.
TrailGap deciding_rows(const TrailRun& a, const TrailRun& b, const TrailGap& gap) {
  TrailGap part{{}, {}, gap.at};
  std::ranges::copy_if(gap.a, std::back_inserter(part.a), [&](size_t row) { return may_decide(a, row); });
  std::ranges::copy_if(gap.b, std::back_inserter(part.b), [&](size_t row) { return may_decide(b, row); });
  return part;
}

// Pairs with other results, close to one another; launches with equal results follow the last of them.
struct Cluster {
  size_t root;  // in the list of pairs
  size_t pairs = 1;
  size_t equal_behind = 0;
  bool is_copied_out = false;  // the host has another result
};

class FirstFinder {
 public:
  FirstFinder(const TrailRun& a, const TrailRun& b, const TrailAlignment& alignment,
              const std::vector<ComparedPair>& pairs)
      : a_(a), b_(b), alignment_(alignment), pairs_(pairs) {}

  FirstDivergence find() const {
    const std::vector<Cluster> clusters = find_clusters();
    const auto end =
        std::ranges::find_if(clusters, [&](const Cluster& cluster) { return !may_be_without_effect(cluster); });
    std::vector<size_t> without_effect;
    for (auto cluster = clusters.begin(); cluster != end; ++cluster) without_effect.push_back(cluster->root);
    if (end == clusters.end()) {
      constexpr size_t kToBeSure = 1024;
      const bool is_equal = std::ranges::all_of(clusters, [&](const Cluster& cluster) {
        const bool is_last = &cluster == &clusters.back();
        return is_unexplained(part_of(pairs_[cluster.root])) && (!is_last || cluster.equal_behind >= kToBeSure);
      });
      return is_equal ? only_one_has(std::move(without_effect)) : part_at(clusters.front().root);
    }
    FirstDivergence found = part_at(end->root);
    // What the results before may have led to shows here only, unless this has an origin of its own.
    const size_t needed = equal_launches_needed(*found.part);
    if (std::any_of(clusters.begin(), end, [&](const Cluster& cluster) { return cluster.equal_behind < needed; })) {
      return part_at(clusters.front().root);
    }
    found.without_effect = std::move(without_effect);
    return found;
  }

 private:
  static bool has_launch(const TrailRun& run, const std::vector<size_t>& rows) {
    return std::ranges::any_of(rows, [&](size_t row) { return is_launch(run.row(row)); });
  }

  // Where kernels replace others, the runs part at the first kernel, not at the memsets before it.
  static void begin_with_launch(const TrailRun& run, std::vector<size_t>& rows) {
    rows.erase(rows.begin(), std::ranges::find_if(rows, [&](size_t row) { return is_launch(run.row(row)); }));
  }

  TrailPart part_of(const TrailGap& gap) const {
    TrailPart part;
    TrailGap rows = deciding_rows(a_, b_, gap);
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
      const bool differs = pair.other_configuration || !part.parameters.empty();
      part.kind = differs ? TrailDivergence::kOtherParameters : TrailDivergence::kOtherOutput;
    }
    if (pair.other_code) part.parameters = parameter_differences(a_, pair.a, b_, pair.b);
    find_cause(a_, b_, alignment_, part);
    return part;
  }

  // Leaves out words that also differ where the same kernel gave equal results: padding, handles, addresses of the
  // host.
  std::vector<ParameterDifference> deciding_parameters(const ComparedPair& pair) const {
    std::vector<ParameterDifference> differences = parameter_differences(a_, pair.a, b_, pair.b);
    if (differences.empty() || draws_random_numbers(a_, pair.a)) return differences;
    std::set<size_t> indifferent;
    for (const ComparedPair& second : pairs_) {
      const bool differs = second.result == PairResult::kEqual && second.other_parameters && !second.other_code &&
                           a_.row(second.a).kernel == a_.row(pair.a).kernel;
      if (!differs) continue;
      for (const auto& word : parameter_differences(a_, second.a, b_, second.b)) indifferent.insert(word.offset);
    }
    std::erase_if(differences, [&](const auto& word) { return indifferent.contains(word.offset); });
    return differences;
  }

  static bool is_unexplained(const TrailPart& part) {
    return part.kind == TrailDivergence::kOtherOutput && part.cause.empty();
  }

  std::vector<Cluster> find_clusters() const {
    std::vector<Cluster> clusters;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const TrailRow& row = a_.row(pairs_[i].a);
      if (pairs_[i].result == PairResult::kEqual && !clusters.empty()) clusters.back().equal_behind += is_launch(row);
      if (pairs_[i].result != PairResult::kDiffers) continue;
      if (clusters.empty() || clusters.back().equal_behind >= kApart) {
        clusters.push_back({i});
      } else {
        ++clusters.back().pairs;
        clusters.back().equal_behind = 0;
      }
      clusters.back().is_copied_out |= row.kind == TrailKind::kCopyOut;
    }
    return clusters;
  }

  // Returns whether it is a few other results without an origin, followed by equal ones: memory that a kernel uses only
  // for itself, or bytes next to a result, such as its neighbours in a buffer of all gradients.
  bool may_be_without_effect(const Cluster& cluster) const {
    constexpr size_t kSome = 64;
    const bool may_be = cluster.pairs <= kSome && cluster.equal_behind >= kApart && !cluster.is_copied_out;
    return may_be && is_launch(a_.row(pairs_[cluster.root].a)) && !has_origin(*part_at(cluster.root).part);
  }

  // Returns whether something other than earlier launches explains it: a cause, or a number that the program passed.
  // What reads such a number may come much later.
  static bool has_origin(const TrailPart& part) {
    return !part.cause.empty() || part.kind == TrailDivergence::kOtherParameters;
  }

  // Returns how many launches with equal results, between what has no effect and this, show that this is no late effect
  // of it: fewer if something has led to it that is neither a launch nor the code's own freedom.
  static size_t equal_launches_needed(const TrailPart& part) {
    constexpr size_t kNever = std::numeric_limits<size_t>::max();
    constexpr std::string_view kOfOthers[] = {"host_memory", "loss_scale", "data_order", "batch",
                                              "generator",   "tuner",      "algorithm",  "unordered_streams",
                                              "other_rank",  "tf32"};
    if (!has_origin(part)) return kNever;
    if (part.kind == TrailDivergence::kOtherParameters) return kApart;
    return std::ranges::count(kOfOthers, part.cause) > 0 ? kApart : kShortly;
  }

  // Returns whether a launch between the two places has an equal result: what was at the first then did not reach the
  // second.
  bool is_equal_between(size_t from, size_t to) const {
    for (auto pair = std::ranges::lower_bound(pairs_, from, {}, &ComparedPair::a); pair != pairs_.end(); ++pair) {
      if (pair->a >= to) return false;
      if (pair->result == PairResult::kEqual && is_launch(a_.row(pair->a))) return true;
    }
    return false;
  }

  // Returns whether two stretches that replace one another have equal last results; nothing if these cannot be
  // compared.
  std::optional<bool> is_same_result(const TrailGap& gap) const {
    if (gap.a.empty() || gap.b.empty()) return std::nullopt;
    const size_t a = gap.a.back(), b = gap.b.back();
    if (!is_comparable(a_, a, b_, b) || a_.row(a).bytes != b_.row(b).bytes) return std::nullopt;
    return a_.row(a).digest == b_.row(b).digest;
  }

  // Launches without partner before a row of A.
  struct GapsBefore {
    const TrailGap* deciding = nullptr;     // no launch between gave an equal result, or the gap's own results differ
    const TrailGap* last = nullptr;         // shortly before it
    const TrailGap* last_random = nullptr;  // it draws random numbers that only one run draws
  };
  GapsBefore gaps_before(size_t row) const {
    GapsBefore found;
    for (const TrailGap& gap : alignment_.gaps) {
      if (gap.at > row || found.deciding != nullptr) break;
      const TrailGap rows = deciding_rows(a_, b_, gap);
      const std::optional<bool> same = is_same_result(rows);
      if ((rows.a.empty() && rows.b.empty()) || same == true) continue;
      if (same == false || !is_equal_between(gap.at, row)) found.deciding = &gap;
      if (gap.at + kShortly >= row) found.last = &gap;
      const auto draws = [](const TrailRun& run, const std::vector<size_t>& all) {
        return std::ranges::any_of(all, [&](size_t item) { return draws_random_numbers(run, item); });
      };
      if (draws(a_, rows.a) != draws(b_, rows.b)) found.last_random = &gap;
    }
    return found;
  }

  // Returns where the runs part, given the first pair with different results: that pair, or what must have come before
  // it, or, if nothing else explains it, what may have.
  FirstDivergence part_at(size_t differing) const {
    const ComparedPair& pair = pairs_[differing];
    TrailPart part = part_of(pair);
    const GapsBefore gaps = gaps_before(pair.a);
    const TrailGap* decided_by = gaps.deciding;
    if (decided_by == nullptr && is_unexplained(part)) decided_by = gaps.last;
    if (decided_by == nullptr && part.cause == "generator") decided_by = gaps.last_random;
    const bool may_be_earlier = is_unexplained(part) && decided_by == nullptr;
    const ComparedPair* const doubtful = may_be_earlier ? doubtful_before(differing) : nullptr;
    if (doubtful != nullptr) part = part_of(*doubtful);
    const ComparedPair* other_code = nullptr;
    if (decided_by == nullptr && part.kind != TrailDivergence::kOtherInput) {
      decided_by = replacing_before(pair.a);
      other_code = unknown_before(differing);
      // Takes the later of the two.
      if (decided_by != nullptr && other_code != nullptr && other_code->a > decided_by->at) decided_by = nullptr;
      if (decided_by != nullptr) other_code = nullptr;
    }
    FirstDivergence found{decided_by != nullptr   ? part_of(*decided_by)
                          : other_code != nullptr ? part_of(*other_code)
                                                  : std::move(part),
                          decided_by,
                          {}};
    found.part->shown_at = pair.a;
    if (decided_by != nullptr || other_code != nullptr) {
      found.part->evidence.push_back(fmt::format("the first pair after it with other results is {}, {}",
                                                 where_of(a_, pair.a), what_of(a_, pair.a, 48)));
    }
    return found;
  }

  // Kernels that replace others, and launches of other code or another grid whose results cannot be compared, shortly
  // before a row of A: later launches may be the first to read their results.
  static constexpr size_t kShortly = 256, kApart = 64;
  const TrailGap* replacing_before(size_t row) const {
    const TrailGap* found = nullptr;
    for (const TrailGap& gap : alignment_.gaps) {
      if (gap.at > row) break;
      if (gap.at + kShortly < row || is_same_result(gap) == true) continue;
      if (has_launch(a_, gap.a) && has_launch(b_, gap.b)) found = &gap;
    }
    return found;
  }

  // Returns a launch that may have left another result. Either it changed a part of what is digested, and the digests
  // differ; or its results cannot be compared, as when it read what it should not and so wrote elsewhere. Shortly
  // before, takes the last one with a reason to differ, else the last one; further away, only one with a reason.
  const ComparedPair* doubtful_before(size_t differing) const {
    constexpr int kMost = 256;  // launches whose parameters are compared
    int compared = 0;
    const ComparedPair *near = nullptr, *far = nullptr;
    for (size_t i = differing; i-- > 0;) {
      const ComparedPair& pair = pairs_[i];
      const bool is_open = pair.result == PairResult::kDoubtful || pair.result == PairResult::kUnknown;
      if (!is_open || !is_launch(a_.row(pair.a))) continue;
      const bool is_near = pair.a + kShortly >= pairs_[differing].a;
      if (!is_near && near != nullptr) break;
      if (is_unordered(pair)) return &pair;
      if (pair.other_parameters && compared++ < kMost && !deciding_parameters(pair).empty()) return &pair;
      if (is_near && near == nullptr) near = &pair;
      const bool has_differed = pair.result == PairResult::kDoubtful && far == nullptr;
      if (has_differed && !part_of(pair).cause.empty()) far = &pair;
    }
    return near != nullptr ? near : far;
  }
  bool is_unordered(const ComparedPair& pair) const {
    return ((a_.row(pair.a).flags | b_.row(pair.b).flags) & TrailRow::kIsUnordered) != 0;
  }
  const ComparedPair* unknown_before(size_t differing) const {
    for (size_t i = differing; i-- > 0 && pairs_[i].a + kShortly >= pairs_[differing].a;) {
      const ComparedPair& pair = pairs_[i];
      const bool is_other = pair.other_code || pair.other_configuration;
      if (pair.result == PairResult::kUnknown && is_other && is_launch(a_.row(pair.a))) return &pair;
    }
    return nullptr;
  }

  // Looks, if no results differ, for launches that only one run has and after which nothing is known to be equal.
  FirstDivergence only_one_has(std::vector<size_t> without_effect) const {
    const TrailGap* const gap = trailing_gap();
    FirstDivergence found{std::nullopt, gap, std::move(without_effect)};
    if (gap == nullptr) return found;
    found.part = part_of(*gap);
    found.part->shown_at = gap->at;
    return found;
  }
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
      const TrailGap rows = deciding_rows(a_, b_, gap);
      if (rows.a.empty() && rows.b.empty()) continue;
      const bool behind_a = rows.a.empty() || !is_known || rows.a.front() > last_a;
      const bool behind_b = rows.b.empty() || !is_known || rows.b.front() > last_b;
      if (behind_a && behind_b && is_same_result(rows) != true) return &gap;
    }
    return nullptr;
  }

  const TrailRun &a_, &b_;
  const TrailAlignment& alignment_;
  const std::vector<ComparedPair>& pairs_;
};

}  // namespace

FirstDivergence find_first(const TrailRun& a, const TrailRun& b, const TrailAlignment& alignment,
                           const std::vector<ComparedPair>& pairs) {
  return FirstFinder(a, b, alignment, pairs).find();
}

}  // namespace msda::replay
