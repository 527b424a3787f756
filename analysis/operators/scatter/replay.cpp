// Replays of a scattered gradient, with the bits of evaluate() (analysis/model/evaluate.h), which computes element by
// element: all channels of a target have the same sources and weights, so they are computed together.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "analysis/model/evaluate.h"
#include "analysis/numbers/first_numbers.h"
#include "analysis/operators/scatter/table.h"
#include "kernels/parallel.h"

namespace msda::analysis {
namespace {

// How many elements are computed together, and of how many channels at most: what a core's cache holds.
constexpr int64_t kElements = 4096, kMostChannels = 256;

// Returns the elements of a tensor, those of a place in a row.
template <class Real>
std::unique_ptr<Real[]> by_place(const Tensor& tensor, const PlaceLayout& layout, int threads) {
  constexpr int64_t kPlaces = 16;  // whose elements of one channel are often in one cache line
  const int64_t places = layout.places(), channels = layout.all_channels(), tasks = (places + kPlaces - 1) / kPlaces;
  std::unique_ptr<Real[]> elements(new Real[static_cast<size_t>(layout.elements())]);
  const auto read_all = [&](const auto* from) {
    kernels::parallel_for(tasks, kernels::thread_count(threads, tasks), [&](int64_t task, int) {
      const int64_t end = std::min(places, (task + 1) * kPlaces);
      for (int64_t channel = 0; channel < channels; ++channel) {
        const auto* const at = from + layout.of_channel(channel);
        for (int64_t place = task * kPlaces; place < end; ++place) {
          elements[place * channels + channel] = static_cast<Real>(kernels::widen(at[layout.of_place(place)]));
        }
      }
    });
  };
  kernels::visit_dtype(tensor.dtype, read_all, tensor.data);
  return elements;
}

// What is added to some channels of a target: numbers, each times the weight.
template <class Real>
struct WeightedRow {
  double weight;
  const Real* numbers;
  bool is_open = false;  // rounding decides whether it is added at all

  Real product(int64_t channel) const { return static_cast<Real>(weight * static_cast<double>(numbers[channel])); }
};

// Replays in a type, that of the call's own arithmetic.
template <class Real>
class ScatterReplay {
 public:
  ScatterReplay(const ScatterCall& call, const msda_options& options, const Tensor& result)
      : call_(call),
        to_(call.to()),
        options_(options),
        result_(result),
        numbers_(by_place<Real>(call.source(), call.from(), options.threads)),
        table_(options.mode == MSDA_MODE_FLOAT64
                   ? call.tables().exact(call, call.coordinate_precision(Precision::of(MSDA_FLOAT64)))
                   : call.tables().computed(call)) {}

  void run() const {
    const int64_t width = std::clamp<int64_t>(to_.all_channels(), 1, kMostChannels), height = kElements / width;
    const int64_t parts = (to_.all_channels() + width - 1) / width, rows = (to_.places() + height - 1) / height;
    const int threads = kernels::thread_count(options_.threads, parts * rows);
    std::vector<std::unique_ptr<Work>> works(static_cast<size_t>(threads));
    kernels::parallel_for(parts * rows, threads, [&](int64_t task, int worker) {
      auto& work = works[static_cast<size_t>(worker)];
      if (!work) work = std::make_unique<Work>();
      const int64_t channel = task % parts * width, target = task / parts * height;
      replay({target, std::min(height, to_.places() - target), channel, std::min(width, to_.all_channels() - channel)},
             *work);
    });
  }

 private:
  struct Block {
    int64_t target, targets, channel, channels;
  };
  // What a thread needs.
  struct Work {
    std::vector<WeightedRow<Real>> rows;
    std::vector<Real> values, held = std::vector<Real>(kMostChannels);
    std::vector<double> sums = std::vector<double>(kElements);
    std::vector<Real> trees = std::vector<Real>(64 * kMostChannels);  // a level of a tree a row
    FirstNumbers random;
  };

  void replay(const Block& block, Work& work) const {
    for (int64_t i = 0; i < block.targets; ++i) {
      const int64_t target = block.target + i;
      const bool has_held = find_rows(block, target, work);
      const double divisor = call_.divisor(to_.flat({target, block.channel}), {});
      double* const sums = work.sums.data() + i * block.channels;
      if (options_.mode == MSDA_MODE_FLOAT64) {
        add_exactly(block, has_held, work, sums);
        for (int64_t c = 0; divisor != 1 && c < block.channels; ++c) sums[c] /= divisor;
        continue;
      }
      if (options_.mode == MSDA_MODE_ATOMIC) {
        add_in_random_order(block, target, work, sums);
      } else {
        add_as_tree(work.rows, block.channels, work.trees.data());
        std::ranges::copy_n(work.trees.begin(), block.channels, sums);
      }
      const double scale = 1 / divisor;
      for (int64_t c = 0; c < block.channels; ++c) sums[c] = static_cast<Real>(sums[c] * scale);
    }
    kernels::visit_dtype(
        result_.dtype, [&]<class To>(const To* to) { store(block, work.sums, const_cast<To*>(to)); }, result_.data);
  }

  // Fills the work's rows; the first one is what the target held, if it returns true.
  bool find_rows(const Block& block, int64_t target, Work& work) const {
    work.rows.clear();
    const bool has_held = call_.held(to_.flat({target, block.channel})).has_value();
    for (int64_t c = 0; has_held && c < block.channels; ++c) {
      work.held[static_cast<size_t>(c)] = static_cast<Real>(*call_.held(to_.flat({target, block.channel + c})));
    }
    if (has_held) work.rows.push_back({1, work.held.data()});
    for (const ScatterTable::Entry& entry : table_.entries(target)) {
      const Real* const numbers = numbers_.get() + entry.source * to_.all_channels() + block.channel;
      work.rows.push_back({entry.weight, numbers, entry.sign() == 0});
    }
    return has_held;
  }

  void add_exactly(const Block& block, bool has_held, const Work& work, double* sums) const {
    std::fill_n(sums, block.channels, 0.0);
    for (size_t i = has_held ? 1 : 0; i < work.rows.size(); ++i) {
      const auto [weight, numbers, is_open] = work.rows[i];
      for (int64_t c = 0; c < block.channels; ++c) {
        const auto number = static_cast<double>(numbers[c]);
        sums[c] += weight * (is_open && !std::isfinite(number) ? 0 : number);
      }
    }
    for (int64_t c = 0; has_held && c < block.channels; ++c) sums[c] += static_cast<double>(work.held[c]);
  }

  // Adds the rows as tree_sum_of() does. `trees` has a row for each level of the tree, the result in its first one.
  void add_as_tree(std::span<const WeightedRow<Real>> rows, int64_t channels, Real* trees) const {
    if (rows.empty()) {
      std::fill_n(trees, channels, Real{0});
    } else if (rows.size() == 1) {
      for (int64_t c = 0; c < channels; ++c) trees[c] = rows[0].product(c);
    } else {
      const size_t half = (rows.size() + 1) / 2;
      Real* const second = trees + kMostChannels;
      add_as_tree(rows.first(half), channels, trees);
      add_as_tree(rows.subspan(half), channels, second);
      for (int64_t c = 0; c < channels; ++c) trees[c] = second[c] + trees[c];
    }
  }

  void add_in_random_order(const Block& block, int64_t target, Work& work, double* sums) const {
    std::array<uint64_t, FirstNumbers::kSeeds> seeds{};
    for (int64_t c = 0; c < block.channels; ++c) {
      const auto number = static_cast<size_t>(c) % seeds.size();
      for (size_t i = 0; number == 0 && i < seeds.size(); ++i) {
        const int64_t channel = std::min(block.channel + c + static_cast<int64_t>(i), to_.all_channels() - 1);
        seeds[i] = seed_of_order(options_.seed, to_.flat({target, channel}));
      }
      if (number == 0) work.random.seed(seeds);
      work.values.clear();
      for (const WeightedRow<Real>& row : work.rows) work.values.push_back(row.product(c));
      std::ranges::shuffle(work.values, FirstNumbers::Engine(work.random, number));
      Real sum = 0;
      for (const Real value : work.values) sum += value;
      sums[c] = sum;
    }
  }

  template <class To>
  void store(const Block& block, const std::vector<double>& sums, To* to) const {
    for (int64_t c = 0; c < block.channels; ++c) {
      To* const at = to + to_.of_channel(block.channel + c);
      for (int64_t i = 0; i < block.targets; ++i) {
        at[to_.of_place(block.target + i)] = kernels::narrow<To>(sums[static_cast<size_t>(i * block.channels + c)]);
      }
    }
  }

  const ScatterCall& call_;
  const PlaceLayout to_;
  const msda_options& options_;
  const Tensor& result_;
  std::unique_ptr<Real[]> numbers_;
  const ScatterTable& table_;
};

}  // namespace

void ScatterCall::run_kernels(const msda_options& options, std::span<const Tensor> results) const {
  with_arithmetic(arithmetic(),
                  [&]<class Real>(Real) { ScatterReplay<Real>(*this, options, results[gradient().place()]).run(); });
}

}  // namespace msda::analysis
