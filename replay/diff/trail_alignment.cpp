#include "replay/diff/trail_alignment.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "replay/diff/align.h"

namespace msda::replay {
namespace {

using capture::TrailKind;
using capture::TrailRow;

// Numbers for things that are equal in both trails.
template <class Key>
class Numbers {
 public:
  uint32_t of(const Key& key) {
    return numbers_.try_emplace(key, static_cast<uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<Key, uint32_t> numbers_;
};

struct StreamRows {
  Sequence sequence;
  std::vector<size_t> rows;
};

// The rows of both trails, by stream, as tokens: kind and kernel's name, then also its configuration and bytes. Code
// and parameters are no part of them: what differs there is to be found in pairs.
class Tokens {
 public:
  std::map<uint16_t, StreamRows> of(const TrailRun& run) {
    const std::vector<uint32_t> names = numbers_of_names(run), configurations = numbers_of_configurations(run),
                                parts = numbers_of_parts(run);
    const auto number = [](const std::vector<uint32_t>& numbers, uint32_t index) {
      return index == capture::kNoEntry ? capture::kNoEntry : numbers[index];
    };
    std::map<uint16_t, StreamRows> streams;
    for (size_t i = 0; i < run.trail.rows.size(); ++i) {
      const TrailRow& row = run.trail.rows[i];
      if (row.kind == TrailKind::kFreshMemory || (row.flags & TrailRow::kMeasures) != 0) continue;
      StreamRows& stream = streams[row.stream];
      const uint32_t coarse = coarse_.of({row.kind, number(names, row.kernel)});
      stream.rows.push_back(i);
      stream.sequence.coarse.push_back(coarse);
      stream.sequence.fine.push_back(fine_.of({coarse, number(configurations, row.configuration), row.bytes}));
      stream.sequence.content.push_back(content_of(row, number(parts, row.parts)));
    }
    return streams;
  }

 private:
  static uint64_t content_of(const TrailRow& row, uint32_t parts) {
    if ((row.flags & TrailRow::kIsDigested) == 0) return 0;
    return (row.digest ^ (row.bytes + parts) * 0x9e3779b97f4a7c15) | 1;
  }
  std::vector<uint32_t> numbers_of_names(const TrailRun& run) {
    std::vector<uint32_t> numbers;
    for (const auto& kernel : run.trail.kernels) numbers.push_back(texts_.of(kernel.name));
    return numbers;
  }
  std::vector<uint32_t> numbers_of_parts(const TrailRun& run) {
    std::vector<uint32_t> numbers;
    for (const std::string& parts : run.trail.parts) numbers.push_back(texts_.of(parts));
    return numbers;
  }
  std::vector<uint32_t> numbers_of_configurations(const TrailRun& run) {
    std::vector<uint32_t> numbers;
    for (const auto& one : run.trail.configurations) numbers.push_back(configurations_.of(one));
    return numbers;
  }

  Numbers<std::string> texts_;
  Numbers<capture::TrailConfiguration> configurations_;
  Numbers<std::pair<TrailKind, uint32_t>> coarse_;
  Numbers<std::tuple<uint32_t, uint32_t, uint64_t>> fine_;
};

using Streams = std::map<uint16_t, StreamRows>;

// How much of two streams is alike, from 0 to 1: launches of one name, in whatever order.
double likeness(const Sequence& a, const Sequence& b) {
  std::map<uint32_t, int64_t> counts;
  for (const uint32_t token : a.coarse) ++counts[token];
  size_t common = 0;
  for (const uint32_t token : b.coarse) common += counts[token]-- > 0;
  return static_cast<double>(common) / static_cast<double>(std::max<size_t>(1, std::max(a.size(), b.size())));
}

// The most alike first; those of one number unless others are much more alike.
std::vector<std::pair<const StreamRows*, const StreamRows*>> paired_streams(const Streams& a, const Streams& b) {
  constexpr size_t kMost = 64;  // beyond them by number only
  std::vector<std::tuple<double, uint16_t, uint16_t>> candidates;
  for (const auto& [number_a, rows_a] : a) {
    for (const auto& [number_b, rows_b] : b) {
      const bool is_compared = a.size() <= kMost && b.size() <= kMost;
      const double alike = is_compared ? likeness(rows_a.sequence, rows_b.sequence) : 0;
      if (number_a == number_b || alike > 0) candidates.emplace_back(alike, number_a, number_b);
    }
  }
  std::ranges::stable_sort(candidates, std::ranges::greater(), [](const auto& one) {
    constexpr double kOfOneNumber = 0.25;  // a stream of the same number may have gone another way
    const auto& [alike, number_a, number_b] = one;
    return alike + (number_a == number_b ? kOfOneNumber : 0);
  });
  static const StreamRows kNone;
  std::vector<std::pair<const StreamRows*, const StreamRows*>> pairs;
  std::set<uint16_t> taken_a, taken_b;
  for (const auto& [alike, number_a, number_b] : candidates) {
    if (taken_a.contains(number_a) || taken_b.contains(number_b)) continue;
    taken_a.insert(number_a);
    taken_b.insert(number_b);
    pairs.emplace_back(&a.at(number_a), &b.at(number_b));
  }
  for (const auto& [number, rows] : a) {
    if (!taken_a.contains(number)) pairs.emplace_back(&rows, &kNone);
  }
  for (const auto& [number, rows] : b) {
    if (!taken_b.contains(number)) pairs.emplace_back(&kNone, &rows);
  }
  return pairs;
}

// Pairs and gaps of one stream.
void add_stream(const StreamRows& a, const StreamRows& b, TrailAlignment& alignment) {
  size_t i = 0, j = 0;
  const auto add_gap = [&](size_t end_a, size_t end_b) {
    if (i == end_a && j == end_b) return;
    TrailGap& gap = alignment.gaps.emplace_back();
    for (; i < end_a; ++i) gap.a.push_back(a.rows[i]);
    for (; j < end_b; ++j) gap.b.push_back(b.rows[j]);
  };
  for (const AlignedRun& run : align(a.sequence, b.sequence)) {
    add_gap(run.a, run.b);
    for (; i < run.a + run.count; ++i, ++j) alignment.pairs.emplace_back(a.rows[i], b.rows[j]);
  }
  add_gap(a.rows.size(), b.rows.size());
}

// A gap that only B has lies where the row before it, of any stream, is in A.
void place_gaps(const TrailRun& b, TrailAlignment& alignment) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::vector<size_t> behind(b.trail.rows.size() + 1, kNone);  // of a row of B: the row of A behind its partner's
  for (const auto& [row_a, row_b] : alignment.pairs) behind[row_b + 1] = row_a + 1;
  behind[0] = 0;
  for (size_t i = 1; i < behind.size(); ++i) behind[i] = behind[i] == kNone ? behind[i - 1] : behind[i];
  for (TrailGap& gap : alignment.gaps) gap.at = gap.a.empty() ? behind[gap.b.front()] : gap.a.front();
  std::ranges::stable_sort(alignment.gaps, {}, &TrailGap::at);
}

std::vector<size_t> fresh_rows(const TrailRun& run) {
  std::vector<size_t> rows;
  for (size_t i = 0; i < run.trail.rows.size(); ++i) {
    if (run.row(i).kind == TrailKind::kFreshMemory) rows.push_back(i);
  }
  return rows;
}

// Allocations before the same launch, in their order and of equal sizes.
void pair_fresh(const TrailRun& a, const TrailRun& b, TrailAlignment& alignment) {
  const std::vector<size_t> of_a = fresh_rows(a), of_b = fresh_rows(b);
  auto next_a = of_a.begin(), next_b = of_b.begin();
  for (const auto& [row_a, row_b] : alignment.pairs) {
    if (next_a == of_a.end()) break;
    const auto end_a = std::lower_bound(next_a, of_a.end(), row_a), end_b = std::lower_bound(next_b, of_b.end(), row_b);
    for (; next_a < end_a && next_b < end_b; ++next_a, ++next_b) {
      if (a.row(*next_a).bytes == b.row(*next_b).bytes) alignment.fresh.emplace_back(*next_a, *next_b);
    }
    next_a = std::max(next_a, end_a);
    next_b = std::max(next_b, end_b);
  }
}

int64_t measuring_rows(const TrailRun& run) {
  return std::ranges::count_if(run.trail.rows,
                               [](const TrailRow& row) { return (row.flags & TrailRow::kMeasures) != 0; });
}

}  // namespace

TrailAlignment align_trails(const TrailRun& a, const TrailRun& b) {
  Tokens tokens;
  const auto of_a = tokens.of(a), of_b = tokens.of(b);
  TrailAlignment alignment;
  alignment.measuring = measuring_rows(a) + measuring_rows(b);
  for (const auto& [rows_a, rows_b] : paired_streams(of_a, of_b)) add_stream(*rows_a, *rows_b, alignment);
  std::ranges::sort(alignment.pairs);
  place_gaps(b, alignment);
  pair_fresh(a, b, alignment);
  return alignment;
}

}  // namespace msda::replay
