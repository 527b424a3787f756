// The mistakes and the other conventions that are tried on grid_sample's gradients.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/operators/grid_sample/call.h"
#include "kernels/names.h"

namespace msda::analysis {
namespace {

std::vector<Mistake> sample_mistakes(const GridSampleCall& call, const ElementId& id, const Place& place,
                                     const Element& exact, const Precisions& precisions, Cache& cache) {
  const auto axis = static_cast<size_t>(id.flat % call.axes_count);
  std::vector<Mistake> mistakes;
  if (place[axis].slope != 0) {
    mistakes.push_back({"the input's size were not multiplied in", exact.value / place[axis].slope});
  }
  for (int exchanged = 0; exchanged < call.axes_count; ++exchanged) {
    if (exchanged == static_cast<int>(axis)) continue;
    const ElementId across{id.gradient, id.flat - static_cast<int64_t>(axis) + exchanged, {}};
    const double value = call.element(across, place, precisions, nullptr, cache).value;
    mistakes.push_back(
        {fmt::format("it were the gradient along {}", axis_name(static_cast<size_t>(exchanged))), value});
  }
  for (const int step : {-1, 1}) {
    for (size_t along = 0; along < place.size(); ++along) {
      Place moved = place;
      moved[along].low += step;
      const double value = call.element(id, moved, precisions, nullptr, cache).value;
      mistakes.push_back(
          {fmt::format("it read one pixel {} along {}", step < 0 ? "early" : "late", axis_name(along)), value});
    }
  }
  return mistakes;
}

}  // namespace

std::vector<Mistake> GridSampleCall::mistakes(const ElementId& id, const Place& place, const Element& exact,
                                              const Precision& precision, Cache& cache) const {
  if (!id.gradient.scattered()) return sample_mistakes(*this, id, place, exact, {precision, precision}, cache);
  return pixel_mistakes(id, exact, precision, cache, nullptr);
}

// Decides by the ratio of each axis' wrong values to the right ones.
std::string GridSampleCall::mistake_of(const WrongValues& wrong) const {
  if (wrong.gradient.scattered() || wrong.patterns.empty()) return {};
  const auto fits = [&](auto&& expected) {
    return std::ranges::all_of(wrong.patterns, [&](const Pattern& pattern) {
      const auto axis = wrong.index_of(pattern, GridSampleDimension::kAxis);
      return axis && pattern.is_ratio(
                         expected(static_cast<double>(sides[*axis]), static_cast<double>(sides[*axis == 0 ? 1 : 0])));
    });
  };
  if (axes_count == 2 && fits([](double along, double across) { return across / along; })) {
    return "width and height were swapped";
  }
  if (fits([](double along, double) { return 2 / along; })) return "the input's size were not multiplied in";
  if (fits([](double along, double) { return (along - 1) / along; })) return "align_corners were true";
  if (fits([](double along, double) { return along / (along - 1); })) return "align_corners were false";
  return {};
}

std::vector<Alternative> GridSampleCall::alternatives() const {
  std::vector<Alternative> all;
  for (const msda_interpolation method : {MSDA_BILINEAR, MSDA_NEAREST, MSDA_BICUBIC}) {
    for (const msda_grid_padding pads : {MSDA_GRID_ZEROS, MSDA_GRID_BORDER, MSDA_GRID_REFLECTION}) {
      for (const bool align : {false, true}) {
        if (axes_count == 3 && method == MSDA_BICUBIC) continue;
        auto call = std::make_shared<GridSampleCall>(*this);
        call->interpolation = method;
        call->padding = pads;
        call->align_corners = align;
        std::vector<std::string> changes;
        const auto add = [&](const char* what, const std::string& now, const std::string& was) {
          if (now != was) changes.push_back(fmt::format("{} {} in place of {}", what, now, was));
        };
        add("interpolation", kernels::name_of(method), kernels::name_of(interpolation));
        add("padding", kernels::name_of(pads), kernels::name_of(padding));
        add("align_corners", fmt::format("{}", align), fmt::format("{}", align_corners));
        if (!changes.empty()) all.push_back({fmt::format("{}", fmt::join(changes, " and ")), call});
      }
    }
  }
  return all;
}

}  // namespace msda::analysis
