#include "replay/diff/align.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

namespace msda::replay {
namespace {

uint64_t mixed(uint64_t hash, uint64_t next) {
  hash ^= next + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccd;
  return hash ^ hash >> 32;
}

// Stretches of so many consecutive tokens of two sequences, and where each occurs in the second.
class Stretches {
 public:
  Stretches(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, size_t length) : a_(hashes(a, length)) {
    const std::vector<uint64_t> of_b = hashes(b, length);
    places_.reserve(of_b.size());
    for (size_t i = 0; i < of_b.size(); ++i) places_.emplace_back(of_b[i], i);
    std::ranges::sort(places_);
  }

  bool begins_at(size_t at) const { return at < a_.size(); }

  // Returns the first place in B, from `from` on, of the stretch that A has at `at`.
  std::optional<size_t> next(size_t at, size_t from) const {
    if (!begins_at(at)) return std::nullopt;
    const auto found = std::ranges::lower_bound(places_, std::pair(a_[at], from));
    if (found == places_.end() || found->first != a_[at]) return std::nullopt;
    return found->second;
  }

 private:
  static std::vector<uint64_t> hashes(const std::vector<uint32_t>& tokens, size_t length) {
    if (tokens.size() < length) return {};
    std::vector<uint64_t> result(tokens.size() - length + 1, 0);
    for (size_t i = 0; i < result.size(); ++i) {
      for (size_t k = 0; k < length; ++k) result[i] = mixed(result[i], tokens[i + k]);
    }
    return result;
  }

  std::vector<uint64_t> a_;
  std::vector<std::pair<uint64_t, size_t>> places_;
};

class Aligner {
 public:
  Aligner(const Sequence& a, const Sequence& b) : a_(a), b_(b) {}

  std::vector<AlignedRun> runs() {
    size_t i = 0, j = 0;
    for (;;) {
      const size_t begin = i;
      while (i < a_.size() && j < b_.size() && a_.coarse[i] == b_.coarse[j]) ++i, ++j;
      if (i > begin) runs_.push_back({begin, j - (i - begin), i - begin});
      if (i == a_.size() || j == b_.size()) break;
      const auto next = where_they_meet(i, j);
      if (!next) break;
      std::tie(i, j) = *next;
    }
    slide_insertions();
    return std::move(runs_);
  }

 private:
  struct Meeting {
    double cost = std::numeric_limits<double>::infinity();
    size_t i = 0, j = 0;
  };

  // Returns where both sequences go on alike after a mismatch, with little skipped and much alike. A stretch of n equal
  // tokens is worth n times what it skips, and twice that if its fine tokens are equal, too.
  std::optional<std::pair<size_t, size_t>> where_they_meet(size_t i, size_t j) {
    prepare();
    Meeting best;
    if (const size_t end_a = a_.size() - suffix_, end_b = b_.size() - suffix_;
        end_a >= i && end_b >= j && suffix_ > 0) {
      const auto skipped = static_cast<double>(end_a - i + end_b - j);
      best = {skipped / static_cast<double>(std::min(suffix_, kLengths.back())), end_a, end_b};
    }
    for (size_t level = 0; level < kLengths.size(); ++level) {
      const auto length = static_cast<double>(kLengths[level]);
      look(coarse_[level], length, i, j, best);
      look(fine_[level], 2 * length, i, j, best);
    }
    if (best.cost == std::numeric_limits<double>::infinity()) return std::nullopt;
    return std::pair(best.i, best.j);
  }

  static void look(const Stretches& stretches, double worth, size_t i, size_t j, Meeting& best) {
    for (size_t skipped = 0; static_cast<double>(skipped) < best.cost * worth; ++skipped) {
      const auto place = stretches.next(i + skipped, j);
      if (!place && !stretches.begins_at(i + skipped)) return;
      if (!place) continue;
      const double cost = static_cast<double>(skipped + *place - j) / worth;
      if (cost < best.cost) best = {cost, i + skipped, *place};
    }
  }

  // Called at the first mismatch only: most runs are alike and need nothing of this.
  void prepare() {
    if (!coarse_.empty()) return;
    for (const size_t length : kLengths) {
      coarse_.emplace_back(a_.coarse, b_.coarse, length);
      fine_.emplace_back(a_.fine, b_.fine, length);
    }
    const size_t most = std::min(a_.size(), b_.size());
    while (suffix_ < most && a_.coarse[a_.size() - 1 - suffix_] == b_.coarse[b_.size() - 1 - suffix_]) ++suffix_;
  }

  // Returns how well two elements fit each other.
  int worth(size_t i, size_t j) const {
    const bool same_content = a_.content[i] != 0 && a_.content[i] == b_.content[j];
    return (same_content ? 4 : 0) + (a_.fine[i] == b_.fine[j] ? 1 : 0);
  }

  // Inside a loop the place of an insertion is ambiguous. Pairs are taken as they come, so it starts out behind the
  // loop so far; this moves it to the front for as long as the pairs become better.
  void slide_insertions() {
    for (size_t r = 0; r + 1 < runs_.size(); ++r) slide(runs_[r], runs_[r + 1].a, runs_[r + 1].b, &runs_[r + 1]);
    if (runs_.empty()) return;
    AlignedRun behind{a_.size(), b_.size(), 0};
    slide(runs_.back(), a_.size(), b_.size(), &behind);
    if (behind.count > 0) runs_.push_back(behind);
    std::erase_if(runs_, [](const AlignedRun& run) { return run.count == 0; });
  }

  void slide(AlignedRun& before, size_t next_a, size_t next_b, AlignedRun* after) {
    const size_t end_a = before.a + before.count, end_b = before.b + before.count;
    if ((next_a == end_a) == (next_b == end_b)) return;  // nothing was inserted, or something replaced
    int64_t gain = 0, best_gain = 0;
    size_t best = 0;
    for (size_t step = 1; step <= before.count && steps_ < kMostSteps; ++step, ++steps_) {
      if (a_.coarse[next_a - step] != b_.coarse[next_b - step]) break;
      gain += worth(next_a - step, next_b - step) - worth(end_a - step, end_b - step);
      if (gain > best_gain) std::tie(best_gain, best) = std::pair(gain, step);
    }
    before.count -= best;
    *after = {after->a - best, after->b - best, after->count + best};
  }

  static constexpr std::array<size_t, 3> kLengths{1, 4, 16};
  static constexpr size_t kMostSteps = 50'000'000;  // a fraction of a second; later insertions stay where they are
  const Sequence &a_, &b_;
  std::vector<AlignedRun> runs_;
  std::vector<Stretches> coarse_, fine_;  // for each length
  size_t suffix_ = 0;                     // tokens that are alike at the end
  size_t steps_ = 0;
};

// Returns the runs if the longer sequence has all of the shorter one, equal and in order, with only insertions between.
// The members say which sequence is which. Structure alone would not show where whole rounds of a loop were inserted.
std::optional<std::vector<AlignedRun>> runs_of_part(const Sequence& shorter, const Sequence& longer,
                                                    size_t AlignedRun::*of_shorter, size_t AlignedRun::*of_longer) {
  if (shorter.size() >= longer.size()) return std::nullopt;
  const auto is_equal = [&](size_t i, size_t j) {
    const bool may_be = shorter.content[i] == longer.content[j] || shorter.content[i] == 0 || longer.content[j] == 0;
    return may_be && shorter.coarse[i] == longer.coarse[j];
  };
  std::vector<AlignedRun> runs;
  size_t j = 0;
  for (size_t i = 0; i < shorter.size(); ++i, ++j) {
    const size_t expected = j;
    while (j < longer.size() && !is_equal(i, j)) ++j;
    if (j == longer.size()) return std::nullopt;
    if (runs.empty() || j > expected) {
      AlignedRun& run = runs.emplace_back();
      run.*of_shorter = i;
      run.*of_longer = j;
      run.count = 0;
    }
    ++runs.back().count;
  }
  return runs;
}

}  // namespace

std::vector<AlignedRun> align(const Sequence& a, const Sequence& b) {
  if (auto runs = runs_of_part(a, b, &AlignedRun::a, &AlignedRun::b)) return *std::move(runs);
  if (auto runs = runs_of_part(b, a, &AlignedRun::b, &AlignedRun::a)) return *std::move(runs);
  return Aligner(a, b).runs();
}

}  // namespace msda::replay
