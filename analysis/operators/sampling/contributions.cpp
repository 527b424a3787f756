#include "analysis/operators/sampling/contributions.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "analysis/operators/sampling/reads.h"

namespace msda::analysis {
namespace {

// Returns the family's locations, by axis, rounded by the narrowing. Reads one axis after the other, since processors
// prefetch what lies at a constant distance.
std::vector<std::vector<double>> locations_of(const SamplingCall& call, int64_t family, const Narrowing* narrowing) {
  std::vector<std::vector<double>> all(static_cast<size_t>(call.axes_count));
  for (size_t axis = 0; axis < all.size(); ++axis) {
    all[axis].reserve(static_cast<size_t>(call.samples_of_family()));
    for (int64_t number = 0; number < call.samples_of_family(); ++number) {
      const double at = call.locations.at(call.sample_in(family, number) * call.axes_count + static_cast<int>(axis));
      all[axis].push_back(narrowing == nullptr ? at : narrowing->round(kLocations, at));
    }
  }
  return all;
}

}  // namespace

Contributions::Contributions(const SamplingCall& call, int64_t family, const Precision& precision,
                             const Narrowing* narrowing)
    : family_(family), image_(call.image_of(family)) {
  const double rounding = weight_error(call.interpolation, precision);
  std::vector<Found> found;
  found.reserve(static_cast<size_t>(call.samples_of_family()) * call.taps_count());
  const auto locations = locations_of(call, family, narrowing);
  std::vector<Landings> along(locations.size());
  for (size_t number = 0; number < locations[0].size(); ++number) {
    for (size_t axis = 0; axis < along.size(); ++axis) {
      along[axis] = call.landings({locations[axis][number], image_.sides[axis], call.locations.dtype}, precision);
    }
    add_sample(call, call.sample_in(family, static_cast<int64_t>(number)), along, rounding, found);
  }
  exact_.sort(found, image_.pixels());
}

void Contributions::add_sample(const SamplingCall& call, int64_t sample, const std::vector<Landings>& along,
                               double rounding, std::vector<Found>& found) {
  const auto first = static_cast<std::ptrdiff_t>(found.size());
  // The weights of pixels that only one way of landing reaches jump, where those of others are continuous.
  const bool jumps = call.interpolation == MSDA_NEAREST;
  const bool anywhere =
      std::ranges::any_of(along, [](const Landings& landings) { return !std::isfinite(landings[0].error); });
  if (anywhere) add_from_anywhere(call, sample);
  const bool is_certain = std::ranges::all_of(along, [](const Landings& landings) { return landings.size() == 1; });
  bool is_exact = true;
  Place place;
  visit_places(along, place, [&](const Place& landed) {
    size_t tap = 0;
    for (const Read& read : reads(call, image_, landed, -1, rounding)) {
      const size_t number = tap++;
      if (read.pixel < 0) continue;
      double error = read.moved() + read.evaluated;
      if (jumps && !is_certain) error += 1;
      if (anywhere) error = std::abs(read.weight);
      if (is_exact) {
        const bool is_signed = !jumps && !anywhere && read.from_0 > rounding;
        found.push_back({read.pixel, {Addend::pack(sample, number, is_signed), read.weight, error}});
      } else if (std::none_of(found.begin() + first, found.end(),
                              [&](const Found& addend) { return addend.pixel == read.pixel; })) {
        if (!jumps && call.adds_pixels_apart()) error += std::abs(read.weight);
        found.push_back({read.pixel, {Addend::pack(sample, number, false), 0, error}});
      }
    }
    is_exact = false;
    return false;
  });
}

void Contributions::add_from_anywhere(const SamplingCall& call, int64_t sample) {
  if (from_anywhere_.empty()) {
    from_anywhere_.resize(static_cast<size_t>(call.channels));
    for (int64_t pixel = 0; pixel < image_.pixels(); ++pixel) {
      for (int64_t c = 0; c < call.channels; ++c) {
        const double magnitude = std::abs(call.image.at(call.image_element(image_.place_of(pixel), c)));
        if (std::isfinite(magnitude)) largest_input_ = std::max(largest_input_, magnitude);
      }
    }
  }
  const double weight = most_weight(call, /*sloped=*/false);
  for (int64_t c = 0; c < call.channels; ++c) {
    const double go = call.grad_output.at(call.output_element(sample, c));
    if (std::isfinite(go)) from_anywhere_[static_cast<size_t>(c)].add(weight * std::abs(go), 0, 1);
  }
}

std::span<const Contributions::Addend> Contributions::computed(const SamplingCall& call, int64_t pixel) const {
  std::call_once(computed_found_, [&] {
    std::vector<Found> found;
    for (int64_t number = 0; number < call.samples_of_family(); ++number) {
      const int64_t sample = call.sample_in(family_, number);
      call.visit_computed_taps(sample, image_, call.arithmetic(), SamplingCall::kOurKernels,
                               [&](int64_t read, size_t tap, std::span<const double> weights) {
                                 double weight = 1;
                                 for (const double along : std::views::reverse(weights)) weight *= along;
                                 weight = rounded_to(weight, call.arithmetic());
                                 found.push_back({read, {Addend::pack(sample, tap, true), weight, 0}});
                               });
    }
    computed_.sort(found, image_.pixels());
  });
  return computed_.at(pixel);
}

void Contributions::ByPixel::sort(const std::vector<Found>& found, int64_t pixels) {
  begin_.assign(static_cast<size_t>(pixels) + 1, 0);
  for (const Found& addend : found) ++begin_[static_cast<size_t>(addend.pixel) + 1];
  for (size_t i = 0; i + 1 < begin_.size(); ++i) begin_[i + 1] += begin_[i];
  std::vector<int64_t> next(begin_.begin(), begin_.end() - 1);
  addends_.resize(found.size());
  for (const Found& addend : found) {
    addends_[static_cast<size_t>(next[static_cast<size_t>(addend.pixel)]++)] = addend.addend;
  }
}

std::shared_ptr<SamplingCache::Slot> SamplingCache::slot(const Key& key, int64_t samples) {
  const std::lock_guard lock(mutex_);
  // From the end: elements of one family mostly come together.
  const auto found = std::find_if(slots_.rbegin(), slots_.rend(), [&](const auto& slot) { return slot.first == key; });
  if (found != slots_.rend()) {
    std::rotate(found.base() - 1, found.base(), slots_.end());
    return slots_.back().second;
  }
  // Enough for every level of a few heads under two dialects and float64, and for all there are of a small call.
  constexpr int64_t kMostSamples = 150'000, kFewestSlots = 8, kMostSlots = 256;
  const auto most =
      static_cast<size_t>(std::clamp<int64_t>(kMostSamples / std::max<int64_t>(1, samples), kFewestSlots, kMostSlots));
  if (slots_.size() >= most) slots_.erase(slots_.begin());
  return slots_.emplace_back(key, std::make_shared<Slot>()).second;
}

std::shared_ptr<const Contributions> SamplingCache::get(const SamplingCall& call, int64_t family,
                                                        const Precision& precision, const Narrowing* narrowing) {
  const bool rounds_locations = narrowing != nullptr && narrowing->rounds(kLocations);
  const int64_t narrow = rounds_locations ? static_cast<int64_t>(narrowing->narrow) : -1;
  const auto slot = this->slot({call.conventions_number(), precision.bits, narrow, family}, call.samples_of_family());
  std::call_once(slot->found, [&] {
    slot->contributions = std::make_shared<const Contributions>(call, family, precision, narrowing);
  });
  return slot->contributions;
}

}  // namespace msda::analysis
