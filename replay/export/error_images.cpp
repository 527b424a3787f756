#include "replay/export/error_images.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace msda::replay {
namespace {

using analysis::Gradient;

// Numbers that are drawn: the worst error of each pixel, in tolerances.
struct Matrix {
  int64_t rows = 1, columns = 1;
  std::vector<double> worst = std::vector<double>(static_cast<size_t>(rows * columns));

  void add(int64_t at, double off) { worst[static_cast<size_t>(at)] = std::max(worst[static_cast<size_t>(at)], off); }
};

// Returns how many of the tolerance an element is off; infinite where a side is not finite and they differ.
double off_in_tolerances(double observed, double expected, const analysis::Tolerance& tolerance) {
  if (observed == expected || (std::isnan(observed) && std::isnan(expected))) return 0;
  const double off = std::abs(observed - expected), allowed = tolerance.atol + tolerance.rtol * std::abs(expected);
  return std::isfinite(off) && allowed > 0 ? off / allowed : std::numeric_limits<double>::infinity();
}

void put_colour(ColourImage& image, double off) {
  constexpr double kDecades = 6;
  constexpr uint8_t kAgree[] = {255, 255, 255}, kBeyond[] = {215, 38, 30}, kLeast[] = {207, 225, 242},
                    kMost[] = {8, 48, 107};
  const double share = off > 0 ? std::clamp(1 + std::log10(off) / kDecades, 0.0, 1.0) : 0;
  for (size_t i = 0; i < 3; ++i) {
    const double shade = kLeast[i] + share * (kMost[i] - kLeast[i]);
    image.pixels.push_back(off >= 1 ? kBeyond[i] : off == 0 ? kAgree[i] : static_cast<uint8_t>(std::lround(shade)));
  }
}

// TensorBoard smooths small pictures: their pixels become squares.
ColourImage coloured(const Matrix& matrix) {
  constexpr int64_t kLeastSide = 64;
  const int64_t size = std::max<int64_t>(1, kLeastSide / std::max<int64_t>(1, std::max(matrix.rows, matrix.columns)));
  ColourImage image;
  image.height = static_cast<uint32_t>(matrix.rows * size);
  image.width = static_cast<uint32_t>(matrix.columns * size);
  for (int64_t row = 0; row < matrix.rows * size; ++row) {
    for (int64_t column = 0; column < matrix.columns * size; ++column)
      put_colour(image, matrix.worst[static_cast<size_t>((row / size) * matrix.columns + column / size)]);
  }
  return image;
}

std::vector<ErrorImage> images_of_pixels(const analysis::Call& call, const std::vector<double>& worst) {
  std::vector<ErrorImage> images;
  size_t first = 0;  // pixel
  for (const analysis::Image& level : call.images()) {
    int64_t rows = 1;  // of a 3D image, one slice below the other
    for (size_t i = 0; i + 1 < level.sides.size(); ++i) rows *= level.sides[i];
    Matrix matrix{rows, level.sides.back()};
    for (size_t i = 0; i < matrix.worst.size() && first + i < worst.size(); ++i) matrix.worst[i] = worst[first + i];
    first += matrix.worst.size();
    images.push_back({level.name, coloured(matrix)});
  }
  return images;
}

// Returns where the dimensions are divided into rows and columns.
size_t best_split(const analysis::Index& shape) {
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t split = 0; split <= shape.size(); ++split) {
    double ratio = 0;
    for (size_t i = 0; i < shape.size(); ++i)
      ratio += (i < split ? 1 : -1) * std::log(static_cast<double>(std::max<int64_t>(1, shape[i])));
    if (std::abs(ratio) >= least) continue;
    least = std::abs(ratio);
    best = split;
  }
  return best;
}

}  // namespace

std::vector<ErrorImage> error_images(const analysis::Call& call, Gradient gradient, const analysis::Tensor& observed,
                                     const analysis::Tensor& expected, const analysis::Tolerance& tolerance) {
  const auto off = [&](int64_t i) { return off_in_tolerances(observed.at(i), expected.at(i), tolerance); };
  const auto dimensions = call.dimensions();
  const auto pixel = std::ranges::find_if(
      dimensions, [](const auto& dimension) { return std::string_view(dimension.name()) == "pixel"; });
  if (observed.elements() == 0) return {};
  if (gradient.scattered() && pixel != dimensions.end()) {
    std::vector<double> worst;  // by pixel, those of all images in a row
    for (int64_t i = 0; i < observed.elements(); ++i) {
      const auto at = static_cast<size_t>(call.coordinates_of(gradient, i)[pixel->place()]);
      if (at >= worst.size()) worst.resize(at + 1);
      worst[at] = std::max(worst[at], off(i));
    }
    return images_of_pixels(call, worst);
  }
  constexpr int64_t kMostSide = 512;
  const analysis::Index shape = call.shape_of(gradient);
  int64_t columns = 1;
  for (size_t i = best_split(shape); i < shape.size(); ++i) columns *= shape[i];
  const int64_t rows = observed.elements() / columns;
  // The elements of a pixel of the picture, so that large tensors have small pictures.
  const int64_t high = (rows + kMostSide - 1) / kMostSide, wide = (columns + kMostSide - 1) / kMostSide;
  Matrix matrix{(rows + high - 1) / high, (columns + wide - 1) / wide};
  for (int64_t i = 0; i < observed.elements(); ++i)
    matrix.add(i / columns / high * matrix.columns + i % columns / wide, off(i));
  return {{"elements", coloured(matrix)}};
}

}  // namespace msda::replay
