
// --- Multi-scale deformable attention: the gradient of one element.

template <class Real>
struct Axis {
  Real pixel;     // the coordinate in pixels
  Real fraction;  // distance from pixel `low`
  Real slope;     // d coordinate / d location
  long low;
  bool sampled;
};

// Returns a location as a coordinate in pixels, where pixel i has its centre at i.
template <class Real>
Real pixel_coordinate(const std::string& dialect, Real location, Real size) {
  const Real one(1), half(0.5);
  if (dialect == "deformable_detr") return std::fma(location, size, -half);
  if (dialect == "msda_triton") return kAlignCorners ? times(location, size - one) : times(location, size) - half;
  const Real grid = (location + location) - one;  // grid_sample's [-1, 1]
  return kAlignCorners ? times(times(grid + one, half), size - one) : times(times(grid + one, size) - one, half);
}

// Returns whether corners outside the level read its border. (grid_sample clips the coordinate instead.)
bool corners_clamp(const std::string& dialect) {
  return dialect == "msda_triton" && kPaddingMode == std::string("border");
}

// Returns where a location lands along one axis: in the cell between the pixels `low` and `low + 1`.
template <class Real>
Axis<Real> locate(const std::string& dialect, Real location, long size) {
  const Real last = Real(size - 1);
  Axis<Real> axis{pixel_coordinate(dialect, location, Real(size)), 0, kAlignCorners ? last : Real(size), 0, true};
  Real at = axis.pixel;
  if (dialect == "grid_sample") {
    const bool border = kPaddingMode == std::string("border");
    if (border && at <= 0) {
      at = axis.slope = 0;
    } else if (border && at >= last) {
      at = last;
      axis.slope = 0;
    }
    axis.sampled = std::isfinite(at);
  } else if (dialect == "deformable_detr") {
    axis.sampled = at > -1 && at < Real(size);
  }
  const Real floor = std::floor(at);
  axis.fraction = at - floor;
  axis.low = !(floor >= -1) ? -2 : floor > last ? size : static_cast<long>(floor);
  if (corners_clamp(dialect)) axis.low = std::min(std::max(axis.low, -1L), size - 1);
  return axis;
}

// Returns the pixel that a corner reads along one axis; -1: it reads zero.
long corner_pixel(const std::string& dialect, long low, long upper, long size) {
  const long pixel = low + upper;
  if (corners_clamp(dialect)) return std::min(std::max(pixel, 0L), size - 1);
  return pixel >= 0 && pixel < size ? pixel : -1;
}

struct Level {
  long start, height, width;
};

Level level_of(long level) {
  const Tensor& shapes = tensors.at("spatial_shapes");
  Level found{0, 0, 0};
  for (long i = 0; i <= level; ++i) {
    found = {found.start + found.height * found.width, static_cast<long>(shapes.at({i, 0})),
             static_cast<long>(shapes.at({i, 1}))};
  }
  return found;
}

// Where one sample of a level lands, and what the corners (y0,x0) (y0,x1) (y1,x0) (y1,x1) read.
template <class Real>
struct Sample {
  Axis<Real> x, y;
  Real weights[4];
  long pixels[4];  // in the level; -1: zero

  Sample(const std::string& dialect, const Level& level, const std::vector<long>& place) {
    std::vector<long> at = place;
    at.push_back(0);
    const Tensor& locations = tensors.at("sampling_locations");
    x = locate(dialect, Real(locations.at(at)), level.width);
    at.back() = 1;
    y = locate(dialect, Real(locations.at(at)), level.height);
    const Real rest_x = Real(1) - x.fraction, rest_y = Real(1) - y.fraction;
    for (int i = 0; i < 4; ++i) {
      weights[i] = times(i / 2 ? y.fraction : rest_y, i % 2 ? x.fraction : rest_x);
      const long row = corner_pixel(dialect, y.low, i / 2, level.height);
      const long column = corner_pixel(dialect, x.low, i % 2, level.width);
      pixels[i] = row < 0 || column < 0 ? -1 : row * level.width + column;
    }
  }
  bool sampled() const { return x.sampled && y.sampled; }
};

template <class Real>
Real slope_across(Real near_low, Real near_high, Real far_low, Real far_high, Real fraction) {
  return std::fma(fraction, far_high - far_low, times(Real(1) - fraction, near_high - near_low));
}

// Returns the gradient with respect to the attention weight, or to a coordinate, of one sample.
template <class Real>
Real sample_gradient(const std::string& dialect, Steps& steps) {
  const std::vector<long> place(kIndex.begin(), kIndex.begin() + 5);
  const Level level = level_of(place[3]);
  const Sample<Real> sample(dialect, level, place);
  steps.add("pixel x", sample.x.pixel);
  steps.add("cell x", sample.x.low);
  steps.add("pixel y", sample.y.pixel);
  steps.add("cell y", sample.y.low);
  if (!sample.sampled()) return 0;
  const Tensor &value = tensors.at("value"), &grad_output = tensors.at("grad_output");
  const bool is_attention = kTensor == std::string("grad_attention_weights"), is_x = !is_attention && kIndex[5] == 0;
  std::vector<Real> outputs, factors;
  for (long d = 0; d < value.shape[3]; ++d) {
    Real v[4];
    for (int i = 0; i < 4; ++i) {
      v[i] = sample.pixels[i] < 0 ? Real(0) : Real(value.at({place[0], level.start + sample.pixels[i], place[2], d}));
    }
    const Real* w = sample.weights;
    outputs.push_back(Real(grad_output.at({place[0], place[1], place[2], d})));
    factors.push_back(is_attention ? std::fma(w[3], v[3], std::fma(w[2], v[2], std::fma(w[1], v[1], times(w[0], v[0]))))
                      : is_x       ? slope_across(v[0], v[1], v[2], v[3], sample.y.fraction)
                                   : slope_across(v[0], v[2], v[1], v[3], sample.x.fraction));
  }
  const Real total = sum_over_channels(outputs, factors);
  steps.add("sum over channels", total);
  if (is_attention) return total;
  return times(times(total, Real(tensors.at("attention_weights").at(place))), is_x ? sample.x.slope : sample.y.slope);
}

// Returns the gradient of one channel of a pixel: the sum of what every sample adds that reads it.
template <class Real>
Real pixel_gradient(const std::string& dialect, Steps& steps) {
  const long b = kIndex[0], s = kIndex[1], m = kIndex[2], d = kIndex[3];
  const Tensor& attention = tensors.at("attention_weights");
  long number = 0;
  while (number + 1 < attention.shape[3] && level_of(number + 1).start <= s) ++number;
  const Level level = level_of(number);
  std::map<std::array<long, 3>, std::vector<Real>> addends;  // by cell and corner
  long count = 0;
  for (long q = 0; q < attention.shape[1]; ++q) {
    for (long p = 0; p < attention.shape[4]; ++p) {
      const std::vector<long> place{b, q, m, number, p};
      const Sample<Real> sample(dialect, level, place);
      const long x = sample.x.low, y = sample.y.low;
      if (!sample.sampled() || x < -1 || x >= level.width || y < -1 || y >= level.height) continue;
      const Real weighted = times(Real(tensors.at("grad_output").at({b, q, m, d})), Real(attention.at(place)));
      for (int i = 0; i < 4; ++i) {
        if (sample.pixels[i] != s - level.start) continue;
        addends[{y, x, i}].push_back(times(sample.weights[i], weighted));
        ++count;
      }
    }
  }
  steps.add("addends", count);
  Real total = 0;
  for (const auto& group : addends) total += sum_by_runs(group.second);
  return total;
}

template <class Real>
Real gradient(const std::string& dialect, Steps& steps) {
  const bool scattered = kTensor == std::string("grad_value");
  return scattered ? pixel_gradient<Real>(dialect, steps) : sample_gradient<Real>(dialect, steps);
}
