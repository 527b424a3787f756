#include "analysis/shrink/small_call.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "kernels/names.h"

namespace msda::analysis {
namespace {

bool is_whole(const Call& call, const Recipe& recipe) {
  const auto cuts = call.cuts();
  for (size_t i = 0; i < cuts.size(); ++i) {
    if (static_cast<int64_t>(recipe.kept[i].size()) != cuts[i].size) return false;
  }
  return !recipe.inputs;
}

}  // namespace

int threads_for(const Inputs& inputs, int threads) {
  constexpr int64_t kSmall = 1 << 17;
  int64_t numbers = 0;
  for (const OwnedTensor& input : inputs) numbers += input.view().elements();
  return numbers < kSmall ? 1 : threads;
}

msda_options options_of(const Replayed& replayed, const Side& side) {
  const bool recorded = side.source == Source::kRecorded;
  msda_options options{};
  options.float64_stages = recorded ? replayed.recorded_stages : replayed.reference_stages;
  options.mode = recorded ? replayed.mode : MSDA_MODE_DETERMINISTIC;
  if (options.mode == MSDA_MODE_DETERMINISTIC && options.float64_stages != 0) options.mode = MSDA_MODE_MIXED;
  options.seed = replayed.seed;
  return options;
}

// By input: whether each element of the whole call is in the smaller one, with its bits.
struct SmallCalls::Unchanged {
  std::map<std::string, std::vector<bool>, std::less<>> by_input;
  bool all = false, none = false;
};

void SmallCalls::only_smaller_than(const SmallCall& small) {
  for (const ReplayedElements& elements : small.replayed) {
    for (const Gradient gradient : whole_.call->gradients()) {
      if (elements.tensor != gradient.name() || elements.whole.empty()) continue;
      auto& lost = lost_[{elements.side, elements.tensor}];
      lost.resize(static_cast<size_t>(kernels::elements_of(whole_.call->shape_of(gradient))));
      for (const int64_t flat : elements.whole) lost[static_cast<size_t>(flat)] = true;
    }
  }
}

Recipe SmallCalls::unchanged() const {
  Recipe recipe;
  for (const Cut& cut : whole_.call->cuts()) recipe.kept.push_back(all_indices(cut.size));
  return recipe;
}

int64_t SmallCalls::small_flat(const Recipe& recipe, Gradient gradient, int64_t flat) const {
  if (recipe.moved && gradient.scattered()) return -1;
  const Kept kept = whole_.call->kept_of(gradient.name(), recipe.kept);
  const Index index = whole_.call->element_id(gradient, flat).index;
  int64_t small = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    const auto found = std::ranges::lower_bound(kept[i], index[i]);
    if (found == kept[i].end() || *found != index[i]) return -1;
    small = small * static_cast<int64_t>(kept[i].size()) + (found - kept[i].begin());
  }
  return small;
}

SmallCalls::Unchanged SmallCalls::unchanged_inputs(const Recipe& recipe, const SmallCall& small) const {
  Unchanged unchanged;
  unchanged.all = is_whole(*whole_.call, recipe);
  unchanged.none = recipe.moved;
  if (unchanged.all || unchanged.none) return unchanged;
  for (const auto& [name, tensor] : whole_.call->inputs()) {
    auto& flags = unchanged.by_input[name];
    flags.assign(static_cast<size_t>(tensor.elements()), false);
    const auto size = static_cast<size_t>(kernels::bytes_of(tensor.dtype));
    const std::byte* now = tensor_named(small.inputs, name).bytes.data();
    const auto* then = static_cast<const std::byte*>(tensor.data);
    for_each_kept(tensor.shape, whole_.call->kept_of(name, recipe.kept), [&](int64_t at, int64_t flat) {
      const auto equal =
          std::memcmp(now + static_cast<size_t>(at) * size, then + static_cast<size_t>(flat) * size, size);
      flags[static_cast<size_t>(flat)] = equal == 0;
    });
  }
  return unchanged;
}

bool SmallCalls::keeps_bits(const Side& side, const ElementId& id, const Unchanged& unchanged) const {
  const Call& call = *whole_.call;
  const Precision precision = Precision::of(side.arithmetic_of(id.gradient));
  std::vector<Landings> along;
  for (const Axis& axis : call.axes(id)) along.push_back(side.version_of(call).landings(axis, precision));
  const auto is_changed = [&](const char* name, const Tensor&, int64_t flat) {
    return !unchanged.by_input.find(std::string_view(name))->second[static_cast<size_t>(flat)];
  };
  Place start;
  return !visit_places(along, start, [&](const Place& place) {
    return side.version_of(call).visit_inputs(id, place, precision, *cache_, is_changed);
  });
}

Side SmallCalls::make_side(const Recipe& recipe, const Side& whole, const Unchanged& unchanged,
                           SmallCall& small) const {
  const Call& call = *small.material.call;
  Side side = whole;
  if (whole.alternative) side.alternative = whole.alternative->with_inputs(small.inputs);
  OwnedSide* replay = nullptr;
  const auto replayed_tensor = [&](Gradient gradient) {
    if (replay == nullptr) {
      msda_options options = options_of(recipe.replayed, whole);
      options.threads = threads_for(small.inputs, threads_);
      small.replays.push_back(uncomputed_side(call, whole.name, options.mode, whole, side.alternative));
      replay = &small.replays.back();
      compute_on_cpu(call, options, *replay);
    }
    return replay->side.of(gradient);
  };
  for (const Gradient gradient : call.gradients()) {
    const Tensor& from = whole.of(gradient);
    side.narrowing[gradient.place()].reset();
    if (!from) continue;
    OwnedTensor& tensor = small.tensors.emplace_back(gradient.name(), from.dtype, call.shape_of(gradient));
    const auto size = static_cast<size_t>(kernels::bytes_of(from.dtype));
    ReplayedElements replayed{whole.name, gradient.name(), 0, tensor.view().elements(), {}};
    const auto lost = lost_.find({whole.name, gradient.name()});
    const auto is_lost = [&](int64_t flat) {
      if (lost != lost_.end() && lost->second[static_cast<size_t>(flat)]) return true;
      return !keeps_bits(whole, whole_.call->element_id(gradient, flat), unchanged);
    };
    const auto replay_element = [&](int64_t at) {
      double value = replayed_tensor(gradient).at(at);
      const Tensor before = small.before(gradient);
      const bool adds = recipe.replayed.adds_before && whole.source == Source::kRecorded && gradient.scattered();
      if (adds && before) value += before.at(at);
      store(tensor.bytes.data(), from.dtype, at, value);
      ++replayed.elements;
    };
    if (unchanged.none) {
      for (int64_t at = 0; at < tensor.view().elements(); ++at) replay_element(at);
    } else {
      for_each_kept(from.shape, whole_.call->kept_of(gradient.name(), recipe.kept), [&](int64_t at, int64_t flat) {
        if (!unchanged.all && is_lost(flat)) {
          replayed.whole.push_back(flat);
          return replay_element(at);
        }
        std::memcpy(tensor.bytes.data() + static_cast<size_t>(at) * size,
                    static_cast<const std::byte*>(from.data) + static_cast<size_t>(flat) * size, size);
      });
    }
    side.tensors[gradient.place()] = tensor.view();
    if (replayed.elements > 0) small.replayed.push_back(std::move(replayed));
  }
  return side;
}

std::unique_ptr<SmallCall> SmallCalls::make(const Recipe& recipe) const {
  const Call& whole = *whole_.call;
  auto small = std::make_unique<SmallCall>();
  // Views of what these hold are taken: they must not move.
  small->tensors.reserve(3 * kMostGradients);
  small->replays.reserve(5);
  if (recipe.inputs) {
    small->inputs = *recipe.inputs;
  } else {
    for (const auto& [name, tensor] : whole.all_inputs()) {
      small->inputs.push_back(sliced(name, tensor, whole.kept_of(name, recipe.kept)));
    }
  }
  Material& material = small->material;
  material.call = whole.with_inputs(small->inputs);
  const Call& call = *material.call;
  for (const Gradient gradient : whole.gradients()) {
    const auto at = gradient.place();
    if (!whole_.before[at] || recipe.moved) continue;
    small->tensors.push_back(sliced(gradient.name(), whole_.before[at], whole.kept_of(gradient.name(), recipe.kept)));
    material.before[at] = small->tensors.back().view();
  }
  const Unchanged unchanged = unchanged_inputs(recipe, *small);
  material.recorded = make_side(recipe, whole_.recorded, unchanged, *small);
  if (whole_.reference) material.reference = make_side(recipe, *whole_.reference, unchanged, *small);
  const auto replay = [&](const std::string& name, const Call* alternative, msda_mode mode) {
    msda_options options{};
    options.mode = mode;
    options.threads = threads_for(small->inputs, threads_);
    small->replays.push_back(
        uncomputed_side(call, name, mode, material.recorded,
                        alternative == nullptr ? nullptr : alternative->with_inputs(small->inputs)));
    compute_on_cpu(call, options, small->replays.back());
    return small->replays.back().side;
  };
  material.float64 = replay("float64", nullptr, MSDA_MODE_FLOAT64);
  // What `run` compares with besides, but for orders drawn by chance, on which no finding hangs.
  for (const Side& side : whole_.replays) {
    if (side.source == Source::kReplay && !side.is_replay("atomic") && !side.is_replay("original")) {
      material.replays.push_back(replay(side.name, side.alternative.get(), MSDA_MODE_DETERMINISTIC));
    }
  }
  return small;
}

}  // namespace msda::analysis
