// The C ABI of scatter_add on the CPU.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <vector>

#include "kernels/checked/scatter.h"
#include "kernels/cpu/run_tree.h"
#include "kernels/guarded.h"
#include "kernels/parallel.h"

namespace msda::kernels {
namespace {

// The rows of the source by the row of the sum that they belong to, in their order.
struct Lists {
  std::vector<int64_t> begin;  // where each row of the sum begins, and the end
  std::vector<int64_t> rows;
  int64_t count(int64_t row) const { return begin[static_cast<size_t>(row) + 1] - begin[static_cast<size_t>(row)]; }
  const int64_t* of(int64_t row) const { return rows.data() + begin[static_cast<size_t>(row)]; }
};

Lists lists_of(const CheckedScatter& s) {
  Lists lists;
  lists.begin.resize(static_cast<size_t>(s.rows) + 1);
  for (int64_t j = 0; j < s.n; ++j) {
    const int64_t row = row_of(s, s.index, j);
    if (row == -2) {
      throw InvalidArgument(fmt::format("index: number {} is {}; sum has {} rows", j,
                                        integer_at(s.index, offset_of(s.index, j)), s.named));
    }
    if (row >= 0) ++lists.begin[static_cast<size_t>(row) + 1];
  }
  std::partial_sum(lists.begin.begin(), lists.begin.end(), lists.begin.begin());
  lists.rows.resize(static_cast<size_t>(lists.begin.back()));
  std::vector<int64_t> next(lists.begin.begin(), lists.begin.end() - 1);
  for (int64_t j = 0; j < s.n; ++j) {
    const int64_t row = row_of(s, s.index, j);
    if (row >= 0) lists.rows[static_cast<size_t>(next[static_cast<size_t>(row)]++)] = j;
  }
  return lists;
}

// One thread's memory.
template <class Real>
using Memory = std::vector<Real>;

// Returns the sum of `count` rows of D numbers by the tree of runs; add(i, starts, to) adds row i to `to`, or starts
// it.
template <class Real, class Add>
const Real* tree_of(int64_t count, int64_t D, Memory<Real>& memory, Add&& add) {
  const auto wanted = static_cast<size_t>((cpu::tree_depth(count) + 1) * D);
  if (memory.size() < wanted) memory.resize(wanted);
  cpu::RunTree<Real> tree(memory.data(), D);
  tree.begin(count);
  for (int64_t i = 0; i < count; ++i) {
    add(i, tree.starts_run(), tree.run());
    tree.added();
  }
  return tree.sum();
}

template <class Real>
void add_row(const Real* __restrict from, int64_t D, bool starts, Real* __restrict to) {
  for (int64_t c = 0; c < D; ++c) to[c] = starts ? from[c] : to[c] + from[c];
}

template <class In, class Real>
class Sums {
 public:
  Sums(const CheckedScatter& s, const msda_tensor& source, const msda_tensor& sum, int32_t threads)
      : s_(s), lists_(lists_of(s)), source_(source), sum_(sum), is_plain_(is_contiguous(sum)), threads_(threads) {}

  void compute() {
    constexpr int64_t kRowsOfATask = 64;
    const int64_t blocks = (s_.rows + kRowsOfATask - 1) / kRowsOfATask, tasks = s_.outer * blocks;
    parallel_for(tasks, thread_count(threads_, tasks), [&](int64_t task, int) {
      Memory<Real> memory;
      const int64_t outer = task / blocks, first = task % blocks * kRowsOfATask;
      for (int64_t row = first; row < std::min(s_.rows, first + kRowsOfATask); ++row) {
        if (!is_long(row)) sum_row(outer, row, memory);
      }
    });
    for (int64_t row = 0; row < s_.rows; ++row) {
      for (int64_t outer = 0; is_long(row) && outer < s_.outer; ++outer) sum_long_row(outer, row);
    }
  }

 private:
  // Tiles are whole subtrees, so threads can share the addends of a row.
  static constexpr int64_t kTile = kRun * kRun;
  bool is_long(int64_t row) const { return lists_.count(row) > 4 * kTile; }

  const Real* sum_some(int64_t outer, int64_t row, int64_t first, int64_t count, Memory<Real>& memory) const {
    const In* const from = source_.data() + outer * s_.n * s_.D;
    const int64_t* const rows = lists_.of(row) + first;
    const bool scales = s_.scale == MSDA_SCATTER_BY_FREQUENCY;
    const Real share = share_of<Real>(lists_.count(row));
    return tree_of<Real>(count, s_.D, memory, [&](int64_t i, bool starts, Real* __restrict to) {
      const In* __restrict addend = from + rows[i] * s_.D;
      for (int64_t c = 0; c < s_.D; ++c) {
        const Real x = scales ? static_cast<Real>(addend[c]) * share : static_cast<Real>(addend[c]);
        to[c] = starts ? x : to[c] + x;
      }
    });
  }

  void sum_row(int64_t outer, int64_t row, Memory<Real>& memory) const {
    const int64_t count = lists_.count(row);
    if (count > 0) {
      store(outer, row, sum_some(outer, row, 0, count, memory));
    } else if (!s_.include_self) {
      memory.assign(std::max(memory.size(), static_cast<size_t>(s_.D)), Real(0));
      store(outer, row, memory.data());
    }
  }

  void sum_long_row(int64_t outer, int64_t row) const {
    const int64_t count = lists_.count(row), tiles = (count + kTile - 1) / kTile;
    Memory<Real> sums(static_cast<size_t>(tiles * s_.D)), memory;
    parallel_for(tiles, thread_count(threads_, tiles), [&](int64_t tile, int) {
      Memory<Real> own;
      const int64_t first = tile * kTile;
      std::copy_n(sum_some(outer, row, first, std::min(kTile, count - first), own), s_.D, sums.data() + tile * s_.D);
    });
    store(outer, row, tree_of<Real>(tiles, s_.D, memory, [&](int64_t tile, bool starts, Real* to) {
            add_row(sums.data() + tile * s_.D, s_.D, starts, to);
          }));
  }

  void store(int64_t outer, int64_t row, const Real* total) const {
    const int64_t first = (outer * s_.rows + row) * s_.D, count = lists_.count(row);
    visit_dtype(sum_.dtype, [&]<class Stored>(const Stored*) {
      auto* const to = static_cast<Stored*>(sum_.data);
      for (int64_t c = 0; c < s_.D; ++c) {
        Stored& element = to[is_plain_ ? first + c : offset_of(sum_, first + c)];
        Real held(0);
        if (s_.include_self) held = static_cast<Real>(widen(element));
        Real x = finished(s_, held, total[c], count);
        if (x != x) x = std::numeric_limits<Real>::quiet_NaN();  // processors differ in the NaN of an operation
        element = narrow<Stored>(x);
      }
    });
  }

  const CheckedScatter& s_;
  Lists lists_;
  ContiguousInput<In> source_;
  msda_tensor sum_;
  bool is_plain_;
  int32_t threads_;
};

}  // namespace
}  // namespace msda::kernels

using namespace msda::kernels;

msda_status msda_scatter_add(const msda_scatter_add_call* call, const msda_options* options, const msda_tensor* sum) {
  return guarded([&] {
    if (call == nullptr || sum == nullptr) throw InvalidArgument("call or sum is a null pointer");
    const msda_options chosen = plain_options("scatter_add", options);
    const CheckedScatter checked = check_scatter(*call, *sum);
    const auto run = [&]<class In, class Real>(In, Real) {
      Sums<In, Real>(checked, call->source, *sum, chosen.threads).compute();
    };
    if (checked.float64_inputs && call->source.dtype == MSDA_FLOAT64) return run(double{}, double{});
    if (checked.float64_inputs || chosen.mode == MSDA_MODE_FLOAT64) return run(float{}, double{});
    run(float{}, float{});
  });
}
