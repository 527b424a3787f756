#include "analysis/shrink/minimize.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "analysis/model/kernels.h"
#include "analysis/shrink/simplify.h"

namespace msda::analysis {
namespace {

struct Stopped {};

bool contains(const std::vector<ElementRun>& runs, int64_t flat) {
  return std::ranges::any_of(runs,
                             [&](const ElementRun& run) { return flat >= run.flat && flat < run.flat + run.count; });
}

// Returns x's neighbour in a type, `steps` numbers away.
double neighbour_in(double x, msda_dtype type, int steps) {
  if (!std::isfinite(x)) return x;
  const double unit = std::ldexp(1.0, std::ilogb(x == 0 ? 1.0 : x) - Precision::of(type).bits + 1);
  return rounded_to(x + steps * unit, type);
}

class Minimizer {
 public:
  Minimizer(const Material& whole, const MinimizeTarget& target, const MinimizeSettings& settings)
      : whole_(whole), target_(target), settings_(settings), calls_(whole, settings.threads) {}

  std::optional<Minimized> run(const std::optional<Reached>& from) {
    begun_ = std::chrono::steady_clock::now();
    best_.reached.recipe = calls_.unchanged();
    if (from) best_.reached = *from;
    seconds_before_ = best_.reached.seconds;
    step_ = "the whole call";
    try {
      if (!accepts(Recipe(best_.reached.recipe))) return std::nullopt;
      shrink();
      best_.finished = true;
    } catch (const Stopped&) {
    }
    return std::move(best_);
  }

 private:
  void shrink() {
    Recipe& recipe = best_.reached.recipe;
    if (whole_.before[target_.gradient.place()] && !whole_.call->adds_to_output() &&
        target_.cause == Cause::kUninitializedOutput) {
      recipe.replayed.adds_before = true;
    }
    if (!recipe.inputs) {
      cut_to_the_element();
      find_arithmetic();
      const auto cuts = whole_.call->cuts();
      for (bool again = true; again;) {
        const auto before = recipe.kept;
        for (size_t i = 0; i < cuts.size(); ++i) cut(i, cuts[i].name);
        again = recipe.kept != before;
      }
    }
    merge_channels();
    crop();
    simplify();
  }

  // Returns whether the smaller call shows the target; it is then the best so far.
  bool accepts(const Recipe& recipe) {
    if (settings_.stop && settings_.stop()) throw Stopped{};
    ++best_.reached.trials;
    best_.reached.seconds =
        seconds_before_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    auto call = calls_.make(recipe);
    const Settings settings{settings_.tolerance, threads_for(call->inputs, settings_.threads), settings_.customary};
    Report report = analyze(call->material, settings);
    const bool shows = target_.cause != Cause::kImplementationError || has_recorded_bits(recipe, *call);
    const std::optional<int64_t> flat = shows ? find_target(recipe, report) : std::nullopt;
    bool is_headline = false;
    if (flat && !report.groups.empty()) {
      const Group& first = report.groups.front();
      is_headline = first.gradient == target_.gradient && first.cause == target_.cause &&
                    first.at_fault == target_.at_fault && first.advisory == target_.advisory && first.contains(*flat);
    }
    // For less data the element may lose its place as the first finding, for rounder numbers it may not.
    const bool smaller = flat && (is_headline || !best_.is_headline || !recipe.inputs);
    if (smaller) {
      calls_.only_smaller_than(*call);
      best_.reached.recipe = recipe;
      best_.call = std::move(call);
      best_.report = std::move(report);
      best_.flat = *flat;
      best_.is_headline = is_headline;
    }
    if (settings_.report) settings_.report(step_, best_.reached, smaller);
    return smaller;
  }

  // Returns whether the side at fault still has the bits of the element that it recorded: a mistake of a kernel is in
  // them alone.
  bool has_recorded_bits(const Recipe& recipe, const SmallCall& call) const {
    if (recipe.moved) return false;
    return std::ranges::none_of(call.replayed, [&](const ReplayedElements& elements) {
      const bool recorded = elements.side == call.material.recorded.name;
      const bool blameless = target_.at_fault == (recorded ? AtFault::kReference : AtFault::kObserved);
      return !blameless && elements.tensor == target_.gradient.name() &&
             std::ranges::find(elements.whole, target_.flat) != elements.whole.end();
    });
  }

  // Returns the target's element in the smaller call, if it is found as it was. Where elements have moved: any such
  // element.
  std::optional<int64_t> find_target(const Recipe& recipe, const Report& report) const {
    const bool anywhere = recipe.moved && target_.gradient.scattered();
    const int64_t flat = anywhere ? -1 : calls_.small_flat(recipe, target_.gradient, target_.flat);
    for (const JudgedElements& set : report.judged) {
      const bool alike = set.gradient == target_.gradient && set.cause == target_.cause &&
                         set.at_fault == target_.at_fault && set.advisory == target_.advisory &&
                         set.against == target_.against;
      if (!alike) continue;
      if (anywhere) return set.runs.front().flat;
      if (contains(set.runs, flat)) return flat;
    }
    return std::nullopt;
  }

  // Tries several orders, since the sums of a scattered gradient depend on the order of their addends.
  bool accepts_in_some_order(Recipe recipe) {
    if (accepts(recipe)) return true;
    constexpr uint64_t kSeeds = 4;
    if (!target_.gradient.scattered() || target_.cause != Cause::kAccumulationOrder) return false;
    recipe.replayed.mode = MSDA_MODE_ATOMIC;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      recipe.replayed.seed = seed;
      if (accepts(recipe)) return true;
    }
    return false;
  }

  // Tries to keep nothing but what the element has an index of.
  void cut_to_the_element() {
    step_ = "all but the element";
    Recipe recipe = best_.reached.recipe;
    const auto own = own_indices();
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i] >= 0) recipe.kept[i] = {own[i]};
    }
    if (recipe.kept != best_.reached.recipe.kept) accepts_in_some_order(std::move(recipe));
  }

  // The arithmetic that comes nearest to each side's value of the element: float32, or its first stages in float64.
  void find_arithmetic() {
    Replayed& replayed = best_.reached.recipe.replayed;
    const Material& material = best_.call->material;
    replayed.recorded_stages = nearest_stages(material.recorded);
    if (material.reference) replayed.reference_stages = nearest_stages(*material.reference);
  }

  uint32_t nearest_stages(const Side& side) const {
    constexpr size_t kMostStages = 3;  // what comes before the gradients
    const Call& call = *best_.call->material.call;
    if (!side.of(target_.gradient) || call.arithmetic() == MSDA_FLOAT64 || call.kernels() == nullptr) return 0;
    const double value = side.of(target_.gradient).at(best_.flat);
    uint32_t nearest = 0;
    double least = INFINITY;
    for (size_t stages = 0; stages <= std::min(kMostStages, call.kernels()->float64_stages().size()); ++stages) {
      const auto mask = static_cast<uint32_t>((1u << stages) - 1);
      msda_options options{};
      options.mode = mask == 0 ? MSDA_MODE_DETERMINISTIC : MSDA_MODE_MIXED;
      options.float64_stages = mask;
      options.threads = settings_.threads;
      OwnedSide replay = uncomputed_side(call, side.name, options.mode, side, side.alternative);
      side.version_of(call).kernels()->run_kernels(options, replay.side.tensors);
      const double apart = std::abs(replay.side.of(target_.gradient).at(best_.flat) - value);
      if (apart < least) {
        least = apart;
        nearest = mask;
      }
    }
    return nearest;
  }

  std::vector<int64_t> own_indices() const {
    return whole_.call->cut_indices(whole_.call->element_id(target_.gradient, target_.flat));
  }

  // Delta debugging (Zeller and Hildebrandt, 2002) of the indices that one dimension keeps.
  void cut(size_t number, const char* name) {
    step_ = name;
    const int64_t own = own_indices()[number];
    const auto& kept = best_.reached.recipe.kept[number];
    const auto try_kept = [&](std::vector<int64_t> indices) {
      if (indices.empty() || indices.size() == kept.size()) return false;
      Recipe recipe = best_.reached.recipe;
      recipe.kept[number] = std::move(indices);
      return accepts_in_some_order(std::move(recipe));
    };
    if (own >= 0 && try_kept({own})) return;
    for (size_t parts = 2; kept.size() > 1;) {
      const size_t length = (kept.size() + parts - 1) / parts;
      bool smaller = false;
      for (size_t begin = 0; begin < kept.size() && !smaller;) {
        std::vector<int64_t> rest;
        for (size_t i = 0; i < kept.size(); ++i) {
          if (i < begin || i >= begin + length || kept[i] == own) rest.push_back(kept[i]);
        }
        // After a part is gone the next one lies where it lay.
        smaller = try_kept(std::move(rest));
        if (!smaller) begin += length;
      }
      if (smaller) {
        parts = std::max<size_t>(parts - 1, 2);
      } else if (length == 1) {
        break;
      } else {
        parts = std::min(2 * parts, kept.size());
      }
    }
  }

  // One channel that has what all had together.
  void merge_channels() {
    step_ = "one channel for all";
    Inputs merged = best_.call->material.call->merged_channels();
    if (target_.gradient.scattered() || merged.empty()) return;
    if (merged.back().shape == best_.call->inputs.back().shape) return;  // there is but one channel
    // Gradients are linear in grad_output, and a power of 2 rounds nothing: it only lifts the drift above the absolute
    // tolerance, where the arithmetic that is run again drifts less than the recorded one.
    for (const double factor : {1.0, 2.0, 4.0, 16.0, 256.0}) {
      Inputs lifted = merged;
      store(lifted.back().bytes.data(), lifted.back().dtype, 0, factor);
      if (try_moved(std::move(lifted))) return;
    }
  }

  bool try_moved(Inputs inputs) {
    Recipe recipe = best_.reached.recipe;
    recipe.inputs = std::move(inputs);
    recipe.moved = true;
    return accepts_in_some_order(std::move(recipe));
  }

  // Smaller images: pixels go from the beginning of each side and from its end, halves first.
  void crop() {
    const size_t count = best_.call->material.call->images().size();
    for (size_t image = 0; image < count; ++image) {
      const auto sides = best_.call->material.call->images()[image].sides;
      for (size_t side = 0; side < sides.size(); ++side) {
        step_ = best_.call->material.call->images()[image].name;
        for (const bool at_end : {false, true}) crop_side(image, side, at_end);
      }
    }
  }

  void crop_side(size_t image, size_t side, bool at_end) {
    const auto size_now = [&] { return best_.call->material.call->images()[image].sides[side]; };
    for (int64_t part = size_now() / 2; part >= 1;) {
      const int64_t size = size_now();
      if (part >= size || !try_crop(image, side, at_end ? 0 : part, size - part)) part /= 2;
    }
  }

  // Moved coordinates are rounded: if that loses the target, their neighbours are tried where there are few.
  bool try_crop(size_t image, size_t side, int64_t first, int64_t count) {
    Inputs cropped = best_.call->material.call->cropped(image, side, first, count);
    if (cropped.empty()) return false;
    if (try_moved(cropped)) return true;
    constexpr int kNeighbours = 2;
    for (size_t i = 0; i < cropped.size(); ++i) {
      const OwnedTensor &now = best_.call->inputs[i], moved = cropped[i];
      if (!moved.is_floating() || now.shape != moved.shape || now.bytes == moved.bytes) continue;
      for (int64_t at = 0; at < moved.view().elements() && moved.view().elements() <= 3; ++at) {
        if (now.view().at(at) == moved.view().at(at)) continue;
        for (const int steps : {1, -1, kNeighbours, -kNeighbours}) {
          Inputs candidate = cropped;
          store(candidate[i].bytes.data(), moved.dtype, at, neighbour_in(moved.view().at(at), moved.dtype, steps));
          if (try_moved(std::move(candidate))) return true;
        }
      }
    }
    return false;
  }

  void simplify() {
    step_ = "rounder numbers";
    simplify_numbers(best_.call->inputs, [&](const Inputs& inputs) {
      if (!best_.call->material.call->admits(inputs)) return false;
      Recipe recipe = best_.reached.recipe;
      recipe.inputs = inputs;
      return accepts_in_some_order(std::move(recipe));
    });
  }

  const Material& whole_;
  const MinimizeTarget& target_;
  const MinimizeSettings& settings_;
  SmallCalls calls_;
  Minimized best_;
  std::string step_;
  std::chrono::steady_clock::time_point begun_;
  double seconds_before_ = 0;
};

}  // namespace

std::optional<Minimized> minimize(const Material& whole, const MinimizeTarget& target,
                                  const std::optional<Reached>& from, const MinimizeSettings& settings) {
  return Minimizer(whole, target, settings).run(from);
}

}  // namespace msda::analysis
