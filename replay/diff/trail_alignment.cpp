#include "replay/diff/trail_alignment.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "recorder/text/demangle.h"
#include "replay/diff/align.h"
#include "replay/diff/kernel_family.h"

namespace msda::replay {
namespace {

using capture::TrailKind;
using capture::TrailRow;

// Gives equal things of both trails the same number.
template <class Key>
class Numbers {
 public:
  uint32_t of(const Key& key) {
    return numbers_.try_emplace(key, static_cast<uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<Key, uint32_t> numbers_;
};

// Consecutive rows, as a stretch of a stream's rows.
struct Group {
  size_t begin = 0, count = 0;  // in StreamRows::rows
  bool has_measuring = false;   // a tuner's rows were between them and are left out
};

// The rows of one stream, each as a token: kind and kernel's name, then also its configuration and bytes. Code and
// parameters are no part of it: pairs are compared for these later.
// The same rows also in groups. Most groups have one row. Launches of libraries that choose among many kernels for one
// operation form one group, whose token is the same whatever is in it: another choice is no reason to skip what is
// around it. A memset behind such a launch is in the group: libraries clear what their next kernel adds to.
struct StreamRows {
  Sequence tokens, group_tokens;
  std::vector<size_t> rows;
  std::vector<Group> groups;
};

Sequence tokens_of(const Sequence& all, const Group& group) {
  const auto part = [&](const auto& tokens) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(group.begin);
    return std::vector(begin, begin + static_cast<std::ptrdiff_t>(group.count));
  };
  return {part(all.coarse), part(all.fine), part(all.content)};
}

// Turns the rows of both trails into tokens, by stream.
class Tokens {
 public:
  std::map<uint16_t, StreamRows> of(const TrailRun& run) {
    const std::vector<uint32_t> names = numbers_of_names(run), configurations = numbers_of_configurations(run),
                                parts = numbers_of_parts(run);
    std::vector<bool> is_library;
    for (const auto& kernel : run.trail.kernels) is_library.push_back(is_of_library(text::demangled(kernel.name)));
    const auto number = [](const std::vector<uint32_t>& numbers, uint32_t index) {
      return index == capture::kNoEntry ? capture::kNoEntry : numbers[index];
    };
    std::map<uint16_t, StreamRows> streams;
    for (size_t i = 0; i < run.trail.rows.size(); ++i) {
      const TrailRow& row = run.trail.rows[i];
      if (row.kind == TrailKind::kFreshMemory) continue;
      StreamRows& stream = streams[row.stream];
      const bool is_kernel = row.kernel != capture::kNoEntry;
      const bool joins = is_kernel ? is_library[row.kernel] : row.kind == TrailKind::kSet && joined_ == &stream;
      if ((row.flags & TrailRow::kMeasures) != 0) {
        if (joins && !stream.groups.empty()) stream.groups.back().has_measuring = true;
        continue;
      }
      const uint32_t coarse = coarse_.of({row.kind, number(names, row.kernel)});
      add(stream, i,
          {coarse, fine_.of({coarse, number(configurations, row.configuration), row.bytes}),
           content_of(row, number(parts, row.parts))},
          joins);
    }
    for (auto& [stream_number, stream] : streams) finish(stream);
    return streams;
  }

 private:
  struct Token {
    uint32_t coarse, fine;
    uint64_t content;
  };
  static void append(Sequence& sequence, const Token& token) {
    sequence.coarse.push_back(token.coarse);
    sequence.fine.push_back(token.fine);
    sequence.content.push_back(token.content);
  }

  void add(StreamRows& stream, size_t row, const Token& token, bool joins) {
    constexpr size_t kMost = 64;  // a larger group would have nothing around it to align by
    Group* const last = stream.groups.empty() ? nullptr : &stream.groups.back();
    const bool is_next = joins && joined_ == &stream && last != nullptr && (last->count < kMost || last->has_measuring);
    if (is_next) {
      ++last->count;
    } else {
      stream.groups.push_back({stream.rows.size(), 1});
    }
    joined_ = joins ? &stream : nullptr;
    stream.rows.push_back(row);
    append(stream.tokens, token);
    if (is_next) return;
    append(stream.group_tokens, {joins ? kOfLibrary : token.coarse, token.fine, token.content});
  }

  // A group is equal to another if all of its rows are.
  static void finish(StreamRows& stream) {
    for (size_t i = 0; i < stream.groups.size(); ++i) {
      const Group& group = stream.groups[i];
      for (size_t row = group.begin + 1; row < group.begin + group.count; ++row) {
        uint32_t& fine = stream.group_tokens.fine[i];
        uint64_t& content = stream.group_tokens.content[i];
        fine = fine * 0x9E3779B1 + stream.tokens.fine[row];
        content = content == 0 ? 0 : content * 0x9E3779B97F4A7C15 ^ stream.tokens.content[row];
      }
    }
  }

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
    for (const auto& entry : run.trail.configurations) numbers.push_back(configurations_.of(entry));
    return numbers;
  }

  static constexpr uint32_t kOfLibrary = 0xFFFFFFFF;
  const StreamRows* joined_ = nullptr;  // the stream whose last row is a library's
  Numbers<std::string> texts_;
  Numbers<capture::TrailConfiguration> configurations_;
  Numbers<std::pair<TrailKind, uint32_t>> coarse_;
  Numbers<std::tuple<uint32_t, uint32_t, uint64_t>> fine_;
};

using Streams = std::map<uint16_t, StreamRows>;

// Returns how much of two streams is alike, from 0 to 1: launches of the same names, in any order.
double likeness(const Sequence& a, const Sequence& b) {
  std::map<uint32_t, int64_t> counts;
  for (const uint32_t token : a.coarse) ++counts[token];
  size_t common = 0;
  for (const uint32_t token : b.coarse) common += counts[token]-- > 0;
  return static_cast<double>(common) / static_cast<double>(std::max<size_t>(1, std::max(a.size(), b.size())));
}

// Pairs the most similar streams first; streams of one number unless others are much more alike.
std::vector<std::pair<const StreamRows*, const StreamRows*>> paired_streams(const Streams& a, const Streams& b) {
  constexpr size_t kMost = 64;  // with more streams than this, by number only
  std::vector<std::tuple<double, uint16_t, uint16_t>> candidates;
  for (const auto& [number_a, rows_a] : a) {
    for (const auto& [number_b, rows_b] : b) {
      const bool is_compared = a.size() <= kMost && b.size() <= kMost;
      const double alike = is_compared ? likeness(rows_a.tokens, rows_b.tokens) : 0;
      if (number_a == number_b || alike > 0) candidates.emplace_back(alike, number_a, number_b);
    }
  }
  std::ranges::stable_sort(candidates, std::ranges::greater(), [](const auto& entry) {
    constexpr double kOfOneNumber = 0.25;  // a stream of the same number may have taken another course
    const auto& [alike, number_a, number_b] = entry;
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

// Finds the pairs and gaps of one stream.
class StreamAlignment {
 public:
  StreamAlignment(const StreamRows& a, const StreamRows& b, bool a_ended_early, bool b_ended_early,
                  TrailAlignment& alignment)
      : a_(a), b_(b), a_ended_early_(a_ended_early), b_ended_early_(b_ended_early), alignment_(alignment) {}

  void add() {
    for (const AlignedRun& run : align(a_.group_tokens, b_.group_tokens)) {
      for (size_t k = 0; k < run.count; ++k) add_groups(a_.groups[run.a + k], b_.groups[run.b + k]);
    }
    // The other run may have done the rest as well, after its recording had ended.
    const bool is_rest_of_a = j_ == b_.rows.size(), is_rest_of_b = i_ == a_.rows.size();
    if ((is_rest_of_a && b_ended_early_) || (is_rest_of_b && a_ended_early_)) return;
    add_gap(a_.rows.size(), b_.rows.size());
  }

 private:
  void add_groups(const Group& a, const Group& b) {
    if (a.has_measuring || b.has_measuring) return add_measured(a, b);
    if (a.count == 1 && b.count == 1 && is_alike(a.begin, b.begin)) return add_pairs(a.begin, b.begin, 1);
    for (const AlignedRun& run : align(tokens_of(a_.tokens, a), tokens_of(b_.tokens, b))) {
      add_pairs(a.begin + run.a, b.begin + run.b, run.count);
    }
  }

  // A library tried several kernels, and did the work with the last one: the groups are compared by that one.
  void add_measured(const Group& a, const Group& b) {
    const size_t end_a = a.begin + a.count, end_b = b.begin + b.count, most = std::min(a.count, b.count);
    size_t same = 0;
    while (same < most && is_alike(end_a - same - 1, end_b - same - 1)) ++same;
    const size_t chosen_a = end_a - same, chosen_b = end_b - same;
    add_gap(a.begin, b.begin);
    leave_out(chosen_a - (same < most), chosen_b - (same < most));
    add_pairs(chosen_a, chosen_b, same);
  }

  bool is_alike(size_t i, size_t j) const { return a_.tokens.coarse[i] == b_.tokens.coarse[j]; }

  void add_pairs(size_t i, size_t j, size_t count) {
    add_gap(i, j);
    for (; count > 0; --count, ++i_, ++j_) alignment_.pairs.emplace_back(a_.rows[i_], b_.rows[j_]);
  }

  void add_gap(size_t end_a, size_t end_b) {
    if (i_ == end_a && j_ == end_b) return;
    TrailGap& gap = alignment_.gaps.emplace_back();
    for (; i_ < end_a; ++i_) gap.a.push_back(a_.rows[i_]);
    for (; j_ < end_b; ++j_) gap.b.push_back(b_.rows[j_]);
  }

  void leave_out(size_t end_a, size_t end_b) {
    alignment_.measuring += static_cast<int64_t>(end_a - i_ + end_b - j_);
    i_ = end_a;
    j_ = end_b;
  }

  const StreamRows &a_, &b_;
  const bool a_ended_early_, b_ended_early_;
  TrailAlignment& alignment_;
  size_t i_ = 0, j_ = 0;
};

// Places a gap that only B has where the row before it, in any stream, lies in A.
void place_gaps(const TrailRun& b, TrailAlignment& alignment) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::vector<size_t> behind(b.trail.rows.size() + 1, kNone);  // for a row of B: the row of A after its partner
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

// Pairs allocations of equal sizes before the same launch, in their order.
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
  for (const auto& [rows_a, rows_b] : paired_streams(of_a, of_b)) {
    StreamAlignment(*rows_a, *rows_b, a.has_ended_early(), b.has_ended_early(), alignment).add();
  }
  std::ranges::sort(alignment.pairs);
  place_gaps(b, alignment);
  pair_fresh(a, b, alignment);
  return alignment;
}

}  // namespace msda::replay
