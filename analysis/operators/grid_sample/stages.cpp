// The intermediate tensors of grid_sample's backward pass, in the arithmetic of our kernels.
#include <algorithm>
#include <type_traits>

#include "analysis/model/abi.h"
#include "analysis/operators/grid_sample/call.h"
#include "kernels/grid_point.h"
#include "kernels/names.h"
#include "kernels/parallel.h"

namespace msda::analysis {
namespace {

// In the order in which they are shown.
struct Stage {
  enum : int {
    kPixelCoordinates,
    kPaddedCoordinates,
    kCell,
    kInterpolationWeights,
    kCornerValues,
    kGradGrid,
    kInputContributions,
    kGradInput
  };
};

// A sample, with all that the stages before the sums are made of.
template <int kAxes, class Real>
struct Spot {
  Real pixel[kAxes], padded[kAxes];
  int32_t cell[kAxes];
  bool sampled = true;
  kernels::GridTaps<Real> taps[kAxes];  // of zeros where not sampled

  Spot(const GridSampleCall& call, const msda_grid_sample_call& conventions, int64_t sample) : taps{} {
    kernels::GridAxis<Real> axes[kAxes];
    for (int i = 0; i < kAxes; ++i) {
      const Real at = static_cast<Real>(call.locations.at(sample * kAxes + i));
      pixel[i] = kernels::grid_pixel(conventions, at, call.sides[i]);
      padded[i] = kernels::pad(conventions, pixel[i], call.sides[i]).pixel;
      axes[i] = kernels::locate_grid(conventions, at, call.sides[i]);
      cell[i] = axes[i].low;
      sampled = sampled && axes[i].sampled;
    }
    for (int i = 0; sampled && i < kAxes; ++i) {
      taps[i] = kernels::grid_taps(conventions, axes[i].fraction, axes[i].low, call.sides[i]);
    }
  }
};

// Calls visit(number, tap) for the pixels that a sample reads, x fastest; tap: the numbers along x, y and z.
template <class Visit>
void for_each_tap(const GridSampleCall& call, Visit&& visit) {
  const int along = call.taps_along();
  const int all = call.axes_count == 3 ? along * along * along : along * along;
  for (int number = 0; number < all; ++number) {
    const int tap[3] = {number % along, number / along % along, number / along / along};
    visit(number, tap);
  }
}

// Runs run(axes, Real{}), with axes.value constant, in the arithmetic of the mode.
template <class Run>
void with_shape(const GridSampleCall& call, msda_mode mode, Run&& run) {
  with_arithmetic(mode == MSDA_MODE_FLOAT64 ? MSDA_FLOAT64 : call.arithmetic(), [&](auto real) {
    call.axes_count == 2 ? run(std::integral_constant<int, 2>{}, real) : run(std::integral_constant<int, 3>{}, real);
  });
}

// The numbers of one sample, of a stage that has one for each axis.
template <int kAxes, class Real>
void put_by_axis(const Spot<kAxes, Real>& spot, int stage, double* numbers) {
  for (int i = 0; i < kAxes; ++i) {
    numbers[i] = stage == Stage::kCell ? spot.cell[i]
                                       : double(stage == Stage::kPixelCoordinates ? spot.pixel[i] : spot.padded[i]);
  }
}

// Stores the numbers of a stage that has one for each pixel read, or for each of its channels. What lies outside the
// image is 0.
template <int kAxes, class Real>
void put_by_tap(const GridSampleCall& call, const Spot<kAxes, Real>& spot, int64_t sample, int stage, double* numbers) {
  if (!spot.sampled) return;
  const int64_t first_place = sample / call.samples * call.pixels;
  for_each_tap(call, [&](int number, const int(&tap)[3]) {
    const Real weight = kernels::image_weight(spot.taps, tap);
    if (stage == Stage::kInterpolationWeights) {
      numbers[number] = double(weight);
      return;
    }
    const int64_t pixel = kernels::image_pixel(spot.taps, call.sides, tap);
    for (int64_t c = 0; pixel >= 0 && c < call.C; ++c) {
      const Real read =
          static_cast<Real>(stage == Stage::kCornerValues ? call.image.at(call.image_element(first_place + pixel, c))
                                                          : call.grad_output.at(call.output_element(sample, c)));
      numbers[number * call.C + c] = double(stage == Stage::kCornerValues ? read : weight * read);
    }
  });
}

// grad_grid as the kernels return it, but for rounding to its type.
void put_grad_grid(const GridSampleCall& call, const msda_options& options, int64_t first, int64_t count,
                   double* numbers) {
  while (count > 0) {
    const int64_t n = first / call.samples, at = first % call.samples, some = std::min(count, call.samples - at);
    const GridAbiCall abi = abi_samples(call, n, at, some);
    const msda_tensor result = msda_contiguous(numbers, MSDA_FLOAT64, abi.call.grid.rank, abi.call.grid.shape);
    throw_unless_ok(msda_grid_sample_backward(&abi.call, &abi.grad_output, &options, nullptr, &result));
    numbers += some * call.axes_count;
    first += some;
    count -= some;
  }
}

}  // namespace

std::vector<Intermediate> GridSampleCall::intermediates() const {
  const std::vector<Gradient> of_grid{GridSampleGradient::kGrid}, of_input{GridSampleGradient::kInput};
  const std::vector<std::string> all_axes{"x", "y", "z"}, taps = tap_names();
  const std::vector<std::string> by_axis(all_axes.begin(), all_axes.begin() + axes_count);
  const char* const* const names = kernels::kGridStageNames;
  std::vector<Intermediate> all;
  const auto add = [&](int stage, const char* name, const std::vector<std::string>& components,
                       std::optional<int64_t> by_channel, const std::vector<Gradient>& shown_for) -> Intermediate& {
    return all.emplace_back(Intermediate{stage, name, components, by_channel, shown_for, {}});
  };
  add(Stage::kPixelCoordinates, names[MSDA_GRID_STAGE_PIXEL_COORDINATES], by_axis, {}, of_grid);
  if (padding != MSDA_GRID_ZEROS && interpolation != MSDA_BICUBIC) {
    add(Stage::kPaddedCoordinates, "padded_coordinates", by_axis, {}, of_grid);
  }
  add(Stage::kCell, kernels::name_of(MSDA_STAGE_CELL), by_axis, {}, of_grid).is_exact = true;
  add(Stage::kInterpolationWeights, names[MSDA_GRID_STAGE_INTERPOLATION_WEIGHTS], taps, {}, of_grid);
  add(Stage::kCornerValues, kernels::name_of(MSDA_STAGE_CORNER_VALUES), taps, C, of_grid);
  add(Stage::kGradGrid, names[MSDA_GRID_STAGE_GRAD_GRID], by_axis, {}, of_grid).gradient = GridSampleGradient::kGrid;
  add(Stage::kInputContributions, names[MSDA_GRID_STAGE_INPUT_CONTRIBUTIONS], taps, C, of_input);
  add(Stage::kGradInput, names[MSDA_GRID_STAGE_GRAD_INPUT], {""}, {}, of_input).gradient = GridSampleGradient::kInput;
  return all;
}

std::vector<double> GridSampleCall::numbers_of(const Intermediate& tensor, int64_t first, int64_t count, msda_mode mode,
                                               int threads) const {
  const int64_t width = tensor.width();
  std::vector<double> numbers(static_cast<size_t>(count * width));
  if (tensor.stage == Stage::kGradGrid) {
    msda_options options{};
    options.mode = mode;
    options.threads = threads;
    put_grad_grid(*this, options, first, count, numbers.data());
    return numbers;
  }
  const bool by_axis = tensor.stage <= Stage::kCell;
  const msda_grid_sample_call abi = abi_call(*this).call;
  with_shape(*this, mode, [&]<class Axes, class Real>(Axes, Real) {
    kernels::parallel_for_each(count, 256, threads, [&](int64_t i) {
      const Spot<Axes::value, Real> spot(*this, abi, first + i);
      double* const to = numbers.data() + i * width;
      by_axis ? put_by_axis(spot, tensor.stage, to) : put_by_tap(*this, spot, first + i, tensor.stage, to);
    });
  });
  return numbers;
}

double GridSampleCall::scattered_value(const ElementId& id, msda_mode mode, Cache&) const {
  const GridAbiCall abi = abi_channel(*this, id.flat / pixels / C, channel_of(id.flat));
  std::vector<double> gradient(static_cast<size_t>(pixels));
  const msda_tensor result = msda_contiguous(gradient.data(), MSDA_FLOAT64, abi.call.input.rank, abi.call.input.shape);
  msda_options options{};
  options.mode = mode;
  options.threads = 1;
  throw_unless_ok(msda_grid_sample_backward(&abi.call, &abi.grad_output, &options, &result, nullptr));
  return gradient[static_cast<size_t>(id.flat % pixels)];
}

}  // namespace msda::analysis
