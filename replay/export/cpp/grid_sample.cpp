
// --- The backward pass of torch.nn.functional.grid_sample: the gradient of one element.

template <class Real>
struct Axis {
  Real pixel;     // the coordinate in pixels, before padding
  Real fraction;  // distance from pixel `low`
  Real scale;     // d padded coordinate / d coordinate of the grid
  long low;
  bool sampled;
};

// A pixel read along one axis, -1 for zero, with its weight, and the slope of that.
template <class Real>
struct Tap {
  long pixel;
  Real weight, slope;
};

const bool kNearest = kInterpolation == std::string("nearest"), kBicubic = kInterpolation == std::string("bicubic");
const bool kZeros = kPaddingMode == std::string("zeros"), kReflection = kPaddingMode == std::string("reflection");

// Moves the coordinate as padding does; `sign` is that of the slope. Bicubic interpolation pads the pixels instead.
template <class Real>
Real padded(Real pixel, long size, Real& sign) {
  const Real last = Real(size - 1);
  sign = 1;
  if (kBicubic || kZeros || std::isnan(pixel)) return pixel;
  if (kReflection) {
    if (std::isinf(pixel)) return pixel;
    const Real low = kAlignCorners ? Real(0) : Real(-0.5), span = kAlignCorners ? last : Real(size);
    if (span == 0) {
      sign = 0;
      return 0;
    }
    const Real distance = std::fabs(pixel - low), extra = std::fmod(distance, span);
    sign = pixel - low < 0 ? -1 : 1;
    const bool even = std::fmod(std::floor(distance / span), Real(2)) == 0;
    pixel = even ? extra + low : (span - extra) + low;
    if (!even) sign = -sign;
  }
  if (pixel > 0 && pixel < last) return pixel;
  sign = 0;
  return pixel <= 0 ? 0 : last;
}

template <class Real>
Axis<Real> locate(Real at, long size) {
  const Real one(1), half(0.5), sides = Real(size), far(5e8f);
  Axis<Real> axis;
  axis.pixel = kAlignCorners ? times(times(at + one, half), sides - one) : times(times(at + one, sides) - one, half);
  Real sign;
  const Real moved = padded(axis.pixel, size, sign);
  const Real floor = kNearest ? std::nearbyint(moved) : std::floor(moved);
  axis.fraction = kNearest ? Real(0) : moved - floor;
  axis.scale = kNearest ? Real(0) : times(sign, times(kAlignCorners ? sides - one : sides, half));
  axis.low = std::isnan(floor) ? -2 : static_cast<long>(std::min(std::max(floor, -far), far));
  axis.sampled = kBicubic || std::fabs(moved) < far;
  return axis;
}

// Returns the pixel that is read for this number; -1: zero is.
long pixel_read(long number, long size) {
  if (number >= 0 && number < size) return number;
  if (!kBicubic || kZeros) return -1;
  if (!kReflection) return number < 0 ? 0 : size - 1;
  if (kAlignCorners && size == 1) return 0;
  const long period = kAlignCorners ? size - 1 : size;
  const long distance = number >= 0 ? number : kAlignCorners ? -number : -number - 1;
  return distance / period % 2 == 0 ? distance % period : size - 1 - distance % period;
}

template <class Real>
std::vector<Tap<Real>> taps(const Axis<Real>& axis, long size) {
  const Real f = axis.fraction, one(1), a(-0.75);
  if (kNearest) return {{pixel_read(axis.low, size), one, 0}};
  if (!kBicubic) return {{pixel_read(axis.low, size), one - f, -one}, {pixel_read(axis.low + 1, size), f, one}};
  const Real distances[] = {f + one, f, one - f, (one - f) + one};
  std::vector<Tap<Real>> found;
  for (int i = 0; i < 4; ++i) {
    const Real x = distances[i], sign = i < 2 ? one : -one;
    const bool inner = i == 1 || i == 2;
    const Real inner_sum = times(a + 2, x) - (a + 3), outer_sum = times(a, x) - times(Real(5), a);
    const Real weight = inner ? times(times(inner_sum, x), x) + one
                              : times(times(outer_sum, x) + times(Real(8), a), x) - times(Real(4), a);
    const Real slope = inner ? times(times(times(Real(3), a + 2), x) - times(Real(2), a + 3), x)
                             : times(times(times(Real(3), a), x) - times(Real(10), a), x) + times(Real(8), a);
    found.push_back({pixel_read(axis.low - 1 + i, size), weight, times(sign, slope)});
  }
  return found;
}

// Where one sample of the grid lands. Axes are x, y and z; the sides of tensors are in the opposite order.
template <class Real>
struct Sample {
  std::vector<Axis<Real>> axes;
  std::vector<std::vector<Tap<Real>>> taps;
  bool sampled = true;

  explicit Sample(std::vector<long> place) {
    const Tensor &input = tensors.at("input"), &grid = tensors.at("grid");
    const size_t count = input.shape.size() - 2;
    place.push_back(0);
    for (size_t i = 0; i < count; ++i) {
      place.back() = static_cast<long>(i);
      const long size = input.shape[input.shape.size() - 1 - i];
      axes.push_back(locate(Real(grid.at(place)), size));
      sampled = sampled && axes.back().sampled;
    }
    for (size_t i = 0; sampled && i < count; ++i) {
      taps.push_back(::taps(axes[i], input.shape[input.shape.size() - 1 - i]));
    }
  }
};

// Returns, for one channel, d interpolated value / d coordinate along the axis `own`, summed along `own` first, then
// along the other axes. `left` of these are still to be summed; `tap` has the numbers of the taps along each axis.
template <class Real>
Real slope_along(const Sample<Real>& sample, size_t own, const std::vector<long>& image, size_t left,
                 std::vector<size_t>& tap) {
  const size_t axis = left == 0 ? own : left - 1 < own ? left - 1 : left;
  Real total = 0;
  for (size_t i = 0; i < sample.taps[axis].size(); ++i) {
    tap[axis] = i;
    Real inner = 0;
    if (left > 0) {
      inner = slope_along(sample, own, image, left - 1, tap);
    } else {
      std::vector<long> at = image;
      for (size_t axis = sample.taps.size(); axis-- > 0;) at.push_back(sample.taps[axis][tap[axis]].pixel);
      if (*std::min_element(at.begin(), at.end()) >= 0) inner = Real(tensors.at("input").at(at));
    }
    const Real factor = left == 0 ? sample.taps[axis][i].slope : sample.taps[axis][i].weight;
    total = i == 0 ? times(factor, inner) : std::fma(factor, inner, total);
  }
  return total;
}

// Returns the gradient with respect to one coordinate of the grid.
template <class Real>
Real sample_gradient(Steps& steps) {
  const std::vector<long> place(kIndex.begin(), kIndex.end() - 1);
  const auto own = static_cast<size_t>(kIndex.back());
  const Sample<Real> sample(place);
  for (size_t i = 0; i < sample.axes.size(); ++i) {
    steps.add(std::string("pixel ") + "xyz"[i], sample.axes[i].pixel);
    steps.add(std::string("cell ") + "xyz"[i], sample.axes[i].low);
  }
  if (kNearest || !sample.sampled) return 0;
  std::vector<Real> outputs, slopes;
  for (long channel = 0; channel < tensors.at("input").shape[1]; ++channel) {
    std::vector<long> at{place[0], channel};
    std::vector<size_t> tap(sample.axes.size(), 0);
    slopes.push_back(slope_along(sample, own, at, sample.axes.size() - 1, tap));
    at.insert(at.end(), place.begin() + 1, place.end());
    outputs.push_back(Real(tensors.at("grad_output").at(at)));
  }
  const Real total = sum_over_channels(outputs, slopes);
  steps.add("sum over channels", total);
  return times(total, sample.axes[own].scale);
}

// Returns the gradient of one channel of a pixel: the sum of what every sample adds that reads it.
template <class Real>
Real pixel_gradient(Steps& steps) {
  const Tensor &grid = tensors.at("grid"), &grad_output = tensors.at("grad_output");
  const std::vector<long> sides(grid.shape.begin() + 1, grid.shape.end() - 1);
  std::vector<Real> addends;
  std::vector<long> place(sides.size() + 1, 0);
  place[0] = kIndex[0];
  long samples = 1;
  for (const long side : sides) samples *= side;
  for (long number = 0; number < samples; ++number) {
    long rest = number;
    for (size_t i = sides.size(); i-- > 0; rest /= sides[i]) place[i + 1] = rest % sides[i];
    const Sample<Real> sample(place);
    if (!sample.sampled) continue;
    const size_t count = sample.taps.size(), along = sample.taps[0].size();
    size_t choices = 1;
    for (size_t i = 0; i < count; ++i) choices *= along;
    for (size_t choice = 0; choice < choices; ++choice) {  // x fastest
      Real weight = 0;
      bool reads = true;
      size_t digits = choice;
      for (size_t axis = 0; axis < count; ++axis, digits /= along) {
        const Tap<Real>& tap = sample.taps[axis][digits % along];
        reads = reads && tap.pixel == kIndex[kIndex.size() - 1 - axis];
        weight = axis == 0 ? tap.weight : times(weight, tap.weight);
      }
      if (!reads) continue;
      std::vector<long> at{kIndex[0], kIndex[1]};
      at.insert(at.end(), place.begin() + 1, place.end());
      addends.push_back(times(weight, Real(grad_output.at(at))));
    }
  }
  steps.add("addends", static_cast<long>(addends.size()));
  return addends.empty() ? Real(0) : Real(0) + sum_by_runs(addends);
}

template <class Real>
Real gradient(const std::string&, Steps& steps) {
  return kTensor == std::string("grad_input") ? pixel_gradient<Real>(steps) : sample_gradient<Real>(steps);
}
