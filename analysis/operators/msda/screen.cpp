#include "analysis/operators/msda/screen.h"

#include <algorithm>
#include <cmath>

#include "analysis/operators/msda/loops.h"
#include "kernels/sample.h"

namespace msda::analysis {
namespace {

constexpr double kUnit = 0x1p-24;
// For second-order terms, and for what the screen itself rounds in float32.
constexpr double kSlack = 1 + 1e-4;
// A coordinate left of the first pixel's centre loses bits when its cell is subtracted, on both sides.
constexpr double kFractionRounding = 2 * kUnit;

// Roundings between the inputs and grad_sampling_locations: 1 - f, a difference, a product, an fma; the lanes and the
// tree of the sum over channels; the attention weight and the slope (docs/determinism.md). grad_attention_weights has
// fewer: three of a weight, four of the interpolation, the sum.
double sum_roundings(const MsdaCall& call) { return std::ceil(static_cast<double>(call.D) / kernels::kLanes) + 5; }
double location_roundings(const MsdaCall& call) { return 4 + sum_roundings(call) + 2; }
double attention_roundings(const MsdaCall& call) { return 7 + sum_roundings(call); }

// What a sample reads along one axis: two pixels by a fraction, or one pixel, so that its gradient along the axis is 0.
struct AxisReading {
  int32_t low, high;  // -1: none
  double fraction, slope;
  bool slopes;  // reads two
  bool clear;   // one of these two
};

template <class Real>
AxisReading reading_of(const Conventions& by, const kernels::Axis<Real>& at, int32_t size) {
  if (!at.sampled) return {-1, -1, 0, 0, false, true};
  const int32_t low = kernels::corner_pixel(by.dialect, by.padding, at.low, 0, size);
  const int32_t high = kernels::corner_pixel(by.dialect, by.padding, at.low, 1, size);
  const double fraction = static_cast<double>(at.fraction), slope = static_cast<double>(at.slope);
  if (slope != 0 && low != high) return {low, high, fraction, slope, true, true};
  return {low, low, 0, 0, false, low == high || fraction == 0};
}

AxisReading reading_of(const MsdaScreen::Arithmetic& by, float location, int32_t size) {
  const auto& [dialect, padding, align] = by.conventions;
  if (by.mode == MSDA_MODE_FLOAT64) {
    return reading_of(by.conventions, kernels::locate(dialect, padding, align, static_cast<double>(location), size),
                      size);
  }
  const auto locate = by.contracted ? &kernels::locate_contracted : &kernels::locate<float>;
  return reading_of(by.conventions, locate(dialect, padding, align, location, size), size);
}

// Returns the reading of a coordinate in a cell of the level, or at its edge where corners outside read 0.
AxisReading plain_reading(const Conventions& by, float low, float fraction, int32_t size) {
  const auto pixel = static_cast<int32_t>(low);
  const double slope = by.align_corners ? size - 1 : size;
  return {pixel, pixel + 1 < size ? pixel + 1 : -1, static_cast<double>(fraction), slope, true, true};
}

bool same_pixels(const AxisReading& a, const AxisReading& b) {
  return a.clear && b.clear && a.slopes == b.slopes && a.low == b.low && a.high == b.high && a.slope == b.slope;
}

const float* floats(const Tensor& tensor) { return static_cast<const float*>(tensor.data); }

// The bound on a difference may be loose; what is expected may be off by as much.
bool may_miss(double value, double value_error, double difference, const Tolerance& tolerance) {
  return !(difference <= tolerance.atol + tolerance.rtol * std::max(0.0, std::abs(value) - value_error));
}

}  // namespace

struct MsdaScreen::Level {
  int64_t l;
  const LevelSize& size;
  double most_slope;
  double largest_norm;                      // of a pixel's channels
  double farthest = 0, total_distance = 0;  // of coordinates in one cell; the latter weighed by attention weights
  bool crosses = false;                     // a sample lands in different cells
};

void MsdaScreen::measure(const MsdaCall& call) {
  const auto& loops = screen_loops();
  pixel_norms_.resize(static_cast<size_t>(call.S));
  query_norms_.resize(static_cast<size_t>(call.Q));
  loops.squares(floats(call.image), call.S, call.D, pixel_norms_.data());
  loops.squares(floats(call.grad_output), call.Q, call.D, query_norms_.data());
  for (float& norm : pixel_norms_) norm = std::sqrt(norm);
  for (float& norm : query_norms_) norm = std::sqrt(norm);
  float lowest = 0, highest = 0, lowest_weight = 0, highest_weight = 0;
  loops.extremes(floats(call.grad_output), call.grad_output.elements(), &lowest, &highest);
  loops.extremes(floats(call.factors), call.factors.elements(), &lowest_weight, &highest_weight);
  largest_grad_output_ = std::max(-lowest, highest);
  nothing_negative_ = lowest >= 0 && lowest_weight >= 0;
}

void MsdaScreen::find(const Call& slice, const Tolerance& tolerance, Suspects& suspects) {
  const auto& call = static_cast<const MsdaCall&>(slice);
  suspects.clear();
  if (call.sample_count() == 0 || call.D == 0) return;
  measure(call);
  for (int64_t l = 0; l < call.L; ++l) {
    if (find_in_level(call, l, tolerance, suspects)) continue;
    suspects.clear();
    suspects.all = {true, true, true};
    return;
  }
}

// False if so many samples are suspect that comparing all is faster.
bool MsdaScreen::find_in_level(const MsdaCall& call, int64_t l, const Tolerance& tolerance, Suspects& suspects) {
  const auto& loops = screen_loops();
  const LevelSize& size = call.levels[static_cast<size_t>(l)];
  const int64_t count = call.Q * call.P;
  for (auto* numbers : {&x_, &y_, &attention_}) numbers->resize(static_cast<size_t>(count));
  for (Along* along : {&along_x_, &along_y_}) {
    for (auto* numbers : {&along->distances, &along->lows, &along->fractions}) {
      numbers->resize(static_cast<size_t>(count));
    }
  }
  for (int64_t q = 0, i = 0; q < call.Q; ++q) {
    const int64_t first = (q * call.L + l) * call.P;
    for (int64_t p = 0; p < call.P; ++p, ++i) {
      x_[static_cast<size_t>(i)] = floats(call.locations)[2 * (first + p)];
      y_[static_cast<size_t>(i)] = floats(call.locations)[2 * (first + p) + 1];
      attention_[static_cast<size_t>(i)] = floats(call.factors)[first + p];
    }
  }
  const bool float64 = expected_.mode == MSDA_MODE_FLOAT64;
  CoordinatePair pair{static_cast<int32_t>(observed_.conventions.dialect),
                      static_cast<int32_t>(expected_.conventions.dialect),
                      observed_.contracted,
                      expected_.contracted,
                      float64,
                      observed_.conventions.align_corners,
                      observed_.conventions.padding == MSDA_PADDING_BORDER,
                      size.width};
  const auto landed = [](Along& along) {
    return Landed{along.distances.data(), along.lows.data(), along.fractions.data()};
  };
  loops.distances(pair, x_.data(), count, landed(along_x_));
  pair.size = size.height;
  loops.distances(pair, y_.data(), count, landed(along_y_));

  const auto norms = pixel_norms_.begin() + size.start;
  const double largest = kSlack * *std::max_element(norms, norms + int64_t{size.height} * size.width);
  Level level{l, size, static_cast<double>(std::max(size.width, size.height)), largest};
  int64_t suspected = 0;
  for (int64_t q = 0, i = 0; q < call.Q; ++q) {
    // Bounds any sum over the channels of four corners.
    const double rows = 4 * largest * kSlack * kSlack * static_cast<double>(query_norms_[static_cast<size_t>(q)]);
    const double by_distance = level.most_slope * rows;
    const double by_rounding =
        location_roundings(call) * kUnit * level.most_slope * rows;  // of both sides, two corners
    const double attention_by_rounding = 2 * attention_roundings(call) * kUnit * rows / 4;
    // The distance up to which grad_attention_weights is within the tolerance whatever the sample reads.
    const double attention_distance = (tolerance.atol - attention_by_rounding) / (2.1 * rows + 1e-30);
    for (int64_t p = 0; p < call.P; ++p, ++i) {
      const auto at = static_cast<size_t>(i);
      const float farther = std::max(along_x_.distances[at], along_y_.distances[at]);
      if (farther == 0 && !float64) continue;
      const double distance = static_cast<double>(farther) + kFractionRounding;
      const double weight = std::abs(static_cast<double>(attention_[at]));
      if (distance < 1) {
        level.farthest = std::max(level.farthest, distance);
        level.total_distance += weight * distance;
      }
      if (weight * (by_distance * distance + by_rounding) <= tolerance.atol && distance <= attention_distance) continue;
      // Without an atol rounding alone may miss it.
      suspected += distance < 1 && tolerance.atol <= 0 ? 1 : examine(call, level, i, tolerance, suspects);
      if (suspected > 64 && suspected * 8 > count) return false;
    }
  }
  if (suspected > 0 && tolerance.atol <= 0) return false;
  suspects.all[MsdaGradient::kValue.place()] =
      suspects.all[MsdaGradient::kValue.place()] || level.crosses || !scatter_holds(call, level, tolerance);
  return true;
}

// Returns whether an element of the sample is suspect.
bool MsdaScreen::examine(const MsdaCall& call, Level& level, int64_t i, const Tolerance& tolerance,
                         Suspects& suspects) {
  const auto at = static_cast<size_t>(i);
  const int64_t q = i / call.P, sample = (q * call.L + level.l) * call.P + i % call.P;
  auto& locations = suspects.elements[MsdaGradient::kSamplingLocations.place()];
  auto& weights = suspects.elements[MsdaGradient::kAttentionWeights.place()];
  const auto suspect_all = [&] {
    locations.insert(locations.end(), {2 * sample, 2 * sample + 1});
    weights.push_back(sample);
    return true;
  };
  const float from_x = along_x_.distances[at], from_y = along_y_.distances[at];
  const auto is_plain = [](float distance) { return distance < 1 && distance != kBeyond; };
  AxisReading x{}, y{};
  double dx = from_x, dy = from_y;
  if (is_plain(from_x) && is_plain(from_y)) {
    x = plain_reading(observed_.conventions, along_x_.lows[at], along_x_.fractions[at], level.size.width);
    y = plain_reading(observed_.conventions, along_y_.lows[at], along_y_.fractions[at], level.size.height);
  } else {
    x = reading_of(observed_, x_[at], level.size.width);
    y = reading_of(observed_, y_[at], level.size.height);
    const AxisReading other_x = reading_of(expected_, x_[at], level.size.width);
    const AxisReading other_y = reading_of(expected_, y_[at], level.size.height);
    if (!same_pixels(x, other_x) || !same_pixels(y, other_y)) {
      level.crosses = true;
      return suspect_all();
    }
    dx = std::abs(x.fraction - other_x.fraction);
    dy = std::abs(y.fraction - other_y.fraction);
  }
  level.farthest = std::max({level.farthest, dx, dy});
  const double attention = attention_[at], weight = std::abs(attention);
  level.total_distance += weight * std::max(dx, dy);

  SampleRows rows{};
  double norms[4];
  for (int corner = 0; corner < 4; ++corner) {
    const int32_t row = corner / 2 == 0 ? y.low : y.high, column = corner % 2 == 0 ? x.low : x.high;
    const bool read = row >= 0 && column >= 0;
    const int64_t pixel = level.size.start + int64_t{row} * level.size.width + column;
    rows.corner[corner] = read ? floats(call.image) + pixel * call.D : nullptr;
    norms[corner] = read ? kSlack * pixel_norms_[static_cast<size_t>(pixel)] : 0;
  }
  const double query = kSlack * query_norms_[static_cast<size_t>(q)];
  const double all = query * (norms[0] + norms[1] + norms[2] + norms[3]);
  const double largest = query * *std::max_element(norms, norms + 4);
  bool any = false;
  if (all * (dx + dy + dx * dy) + 2 * attention_roundings(call) * kUnit * largest * kSlack > tolerance.atol) {
    weights.push_back(sample);
    any = true;
  }
  const double roundings = 2 * location_roundings(call) * kUnit * kSlack;
  const auto may_differ = [&](const AxisReading& along, double across, double magnitude) {
    return along.slopes && weight * along.slope * (all * across + roundings * magnitude) > tolerance.atol;
  };
  if (!may_differ(x, dy, query * std::max(norms[0] + norms[1], norms[2] + norms[3])) &&
      !may_differ(y, dx, query * std::max(norms[0] + norms[2], norms[1] + norms[3]))) {
    return any;
  }
  rows.grad_output = floats(call.grad_output) + q * call.D;
  rows.channels = call.D;
  const SlopeSums sums = screen_loops().slope_sums(rows);
  // The screen's own sums: a difference, a product, a lane's additions and three of lanes.
  const double own = (5 + std::ceil(static_cast<double>(call.D) / 8)) * kUnit * kSlack;
  const auto look = [&](const AxisReading& along, const float(&sum)[2], const float(&magnitude)[2], double fraction,
                        double across, int axis) {
    if (!along.slopes) return;
    const double scale = weight * along.slope, most = kSlack * std::max(magnitude[0], magnitude[1]);
    const double twist = std::abs(static_cast<double>(sum[1]) - sum[0]) + 2 * own * most;
    const double value = scale * ((1 - fraction) * sum[0] + fraction * sum[1]);
    const double difference =
        scale * (twist * across + roundings * most) * kSlack + Precision::of(MSDA_FLOAT32).tiny * 64;
    const double error = scale * ((own + roundings) * most + twist * across);
    if (!may_miss(value, error, difference, tolerance)) return;
    locations.push_back(2 * sample + axis);
    any = true;
  };
  look(x, sums.x, sums.x_magnitude, y.fraction, dy, 0);
  look(y, sums.y, sums.y_magnitude, x.fraction, dx, 1);
  return any;
}

// Returns whether no element of grad_value in the level can miss the tolerance.
bool MsdaScreen::scatter_holds(const MsdaCall& call, const Level& level, const Tolerance& tolerance) {
  constexpr double kTermRoundings = 8;
  // Coordinates: a pixel's weights differ by at most the sum of the distances along both axes.
  const double samples = static_cast<double>(call.Q * call.P);
  const double moved = 2.1 * largest_grad_output_ * level.total_distance;
  if (nothing_negative_) {
    // A sum of addends of one sign is off by a share of itself, in any order: of one sample four corners may be the
    // pixel.
    const double share = 2 * (4 * samples + kTermRoundings) * kUnit * kSlack;
    if (share <= tolerance.rtol / 2 && moved <= tolerance.atol / 2) return true;
  }
  // As SumBound (rounding.h) bounds a sum in any order, with the samples in the four cells around the pixel.
  const int64_t columns = level.size.width + int64_t{1}, cells = columns * (level.size.height + int64_t{1});
  cell_counts_.assign(static_cast<size_t>(cells), 0);
  cell_masses_.assign(static_cast<size_t>(cells), 0);
  const auto cell_along = [&](float location, int32_t size) {
    const auto& by = observed_.conventions;
    const auto pixel = kernels::pixel_coordinate(by.dialect, by.align_corners, location, static_cast<float>(size));
    return static_cast<int64_t>(std::clamp(std::floor(pixel), -1.0f, static_cast<float>(size - 1))) + 1;
  };
  for (size_t i = 0; i < attention_.size(); ++i) {
    const auto cell =
        static_cast<size_t>(cell_along(y_[i], level.size.height) * columns + cell_along(x_[i], level.size.width));
    ++cell_counts_[cell];
    cell_masses_[cell] += attention_[i] * attention_[i];
  }
  double count = 0, mass = 0;
  for (int64_t row = 0; row < level.size.height; ++row) {
    for (int64_t column = 0; column < level.size.width; ++column) {
      double near_count = 0, near_mass = 0;
      for (const int64_t offset : {int64_t{0}, int64_t{1}, columns, columns + 1}) {
        const auto cell = static_cast<size_t>(row * columns + column + offset);
        near_count += cell_counts_[cell];
        near_mass += static_cast<double>(cell_masses_[cell]);
      }
      count = std::max(count, near_count);
      mass = std::max(mass, near_mass);
    }
  }
  count *= 4;  // corners of one sample that may be one pixel
  const double squares = 4 * mass * largest_grad_output_ * largest_grad_output_;
  const double own = 8 * kUnit * (std::sqrt(10 * squares) + std::sqrt(count * squares / 18));
  const double share = 2 * (6 + 8 * std::sqrt(count) / 3) * kUnit;
  const double nearby = 2.1 * largest_grad_output_ * level.farthest * std::sqrt(count * mass);
  return share <= tolerance.rtol / 2 && 2 * own + std::min(moved, nearby) <= tolerance.atol / 2;
}

}  // namespace msda::analysis
