#include "replay/report/html/places.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace msda::replay {

using analysis::Call;
using analysis::Dimension;
using analysis::Finding;
using analysis::Gradient;
using analysis::Side;

namespace {

// Returns the stage of the pixel coordinates, if the operator has one: a number for each axis of a sample.
std::optional<analysis::Intermediate> coordinate_stage(const Call& call) {
  if (call.stages() == nullptr) return std::nullopt;
  for (const analysis::Intermediate& stage : call.stages()->intermediates()) {
    if (std::string_view(stage.name) == "pixel_coordinates" && !stage.channels) return stage;
  }
  return std::nullopt;
}

int64_t pixel_near(double coordinate, int64_t size) {
  return static_cast<int64_t>(std::clamp(std::nearbyint(coordinate), 0.0, static_cast<double>(size - 1)));
}

}  // namespace

Places::Places(const Call& call, int threads)
    : call_(call),
      threads_(threads),
      pixel_(dimension("pixel")),
      level_(dimension("level")),
      coordinates_(coordinate_stage(call)) {
  const auto images = call.images();
  const auto has_no_sides = [](const analysis::Image& image) { return image.sides.empty(); };
  if ((images.size() > 1 && !level_) || std::ranges::any_of(images, has_no_sides)) return;
  int64_t first = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    const auto& sides = images[i].sides;
    std::string title = level_ ? call.text_of(*level_, static_cast<int64_t>(i))
                               : fmt::format("{} ({})", images[i].name, fmt::join(sides, " x "));
    images_.push_back({std::move(title), sides.size() > 1 ? sides[sides.size() - 2] : 1, sides.back()});
    first_pixel_.push_back(first);
    int64_t pixels = 1;
    for (const int64_t side : sides) pixels *= side;
    first += pixels;
  }
}

std::optional<Dimension> Places::dimension(std::string_view name) const {
  for (const Dimension dimension : call_.dimensions()) {
    if (dimension.name() == name) return dimension;
  }
  return std::nullopt;
}

std::optional<PlaceInImage> Places::of_pixel(Gradient gradient, int64_t flat) const {
  if (images_.empty() || !pixel_) return std::nullopt;
  const int64_t pixel = call_.coordinates_of(gradient, flat)[pixel_->place()];
  if (pixel < 0) return std::nullopt;
  const auto next = std::ranges::upper_bound(first_pixel_, pixel);
  const auto image = static_cast<size_t>(next - first_pixel_.begin()) - 1;
  const int64_t columns = images_[image].columns, within = pixel - first_pixel_[image];
  return PlaceInImage{image, within / columns % images_[image].rows, within % columns};
}

void Places::for_each_part(const std::function<void(int64_t, int64_t)>& visit) {
  constexpr int64_t kSamples = int64_t{1} << 18;
  const int64_t samples = call_.stages() == nullptr ? 0 : call_.stages()->sample_count();
  for (first_sample_ = 0; first_sample_ < samples; first_sample_ += kSamples) {
    const int64_t count = std::min(kSamples, samples - first_sample_);
    part_.clear();
    if (coordinates_ && !images_.empty()) {
      part_ = call_.stages()->numbers_of(*coordinates_, first_sample_, count, MSDA_MODE_FLOAT64, threads_);
    }
    visit(first_sample_, count);
  }
}

std::optional<PlaceInImage> Places::of_sample(Gradient gradient, int64_t flat, int64_t sample) const {
  if (part_.empty()) return std::nullopt;
  const int64_t width = coordinates_->width(), at = (sample - first_sample_) * width;
  const double x = part_[static_cast<size_t>(at)], y = width > 1 ? part_[static_cast<size_t>(at + 1)] : 0;
  if (!std::isfinite(x) || !std::isfinite(y)) return std::nullopt;
  const size_t image = level_ ? static_cast<size_t>(call_.coordinates_of(gradient, flat)[level_->place()]) : 0;
  return PlaceInImage{image, pixel_near(y, images_[image].rows), pixel_near(x, images_[image].columns)};
}

Viewer::Viewer(const analysis::Material& material)
    : material_(material), places_(*material.call, 1), cache_(material.call->new_cache()) {}

const Side* Viewer::side_of(const std::string& name) const {
  if (material_.reference && material_.reference->name == name) return &*material_.reference;
  if (material_.float64.name == name) return &material_.float64;
  const auto found = std::ranges::find(material_.replays, name, &Side::name);
  return found == material_.replays.end() ? nullptr : &*found;
}

SampleView Viewer::sample_of(const Finding& finding) const {
  const Call& call = *material_.call;
  const Side* expected = side_of(finding.against);
  SampleView view;
  if (finding.gradient.scattered() || expected == nullptr) return view;
  const auto pixel = [&](const Side& side, const analysis::Axis& axis) {
    const auto type = side.arithmetic_of(finding.gradient);
    if (side.name == "float64") {
      return side.version_of(call).coordinate(axis, analysis::Precision::of(MSDA_FLOAT64)).exact;
    }
    return side.version_of(call).evaluations(axis, type).front().coordinate;
  };
  for (const analysis::Axis& axis : call.axes(call.element_id(finding.gradient, finding.flat))) {
    view.axes.push_back({axis.size, pixel(material_.recorded, axis), pixel(*expected, axis)});
  }
  return view;
}

std::optional<PixelView> Viewer::pixel_of(const Finding& finding) const {
  constexpr size_t kMost = 400;
  const Call& call = *material_.call;
  const auto coordinates = coordinate_stage(call);
  const auto place = finding.gradient.scattered() ? places_.of_pixel(finding.gradient, finding.flat) : std::nullopt;
  if (!place || !coordinates || coordinates->width() != 2) return std::nullopt;
  const auto id = call.element_id(finding.gradient, finding.flat);
  const auto named = call.stages()->named_addends(id, *cache_);
  const auto values = call.addends(id, *cache_).values;
  if (named.size() != values.size()) return std::nullopt;
  const ImagePlace& image = places_.images()[place->image];
  PixelView view{place->row, place->column, image.rows, image.columns, {}, 0};
  for (size_t i = 0; i < named.size(); ++i) {
    if (i >= kMost) {
      ++view.left_out;
      continue;
    }
    const auto at = call.stages()->numbers_of(*coordinates, named[i].sample, 1, MSDA_MODE_FLOAT64, 1);
    view.addends.push_back({at[0], at[1], values[i]});
  }
  return view;
}

}  // namespace msda::replay
