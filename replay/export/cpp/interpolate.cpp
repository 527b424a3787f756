
// --- The backward pass of torch.nn.functional.interpolate: one element, which gathers the output pixels that read it.

const bool kExactNearest = kMode == std::string("nearest-exact");
const bool kNearest = kExactNearest || kMode == std::string("nearest"), kCubic = kMode == std::string("bicubic");
const bool kCentred = kExactNearest || (!kNearest && !kAlignCorners);
constexpr int kAxes = sizeof kScales / sizeof kScales[0];

// Along an axis: x, y, z.
long side_of(const char* name, int axis) {
  const std::vector<long>& shape = tensors.at(name).shape;
  return shape[shape.size() - 1 - static_cast<size_t>(axis)];
}
long inside(int axis) { return side_of("observed_grad_input", axis); }
long outside(int axis) { return side_of("grad_output", axis); }

// Mode float64 computes coordinates in 64 bits, which long double has on x86.
double exact_coordinate(int axis, long output) {
  const long double at = static_cast<long double>(output) + (kCentred ? 0.5L : 0), in = inside(axis),
                    out = outside(axis);
  long double scaled = 0;
  if (kAlignCorners && !kNearest) {
    scaled = out > 1 ? at * (in - 1) / (out - 1) : 0;
  } else {
    scaled = kScales[axis] > 0 ? at / kScales[axis] : at * in / out;
  }
  return static_cast<double>(kCentred && !kNearest ? scaled - 0.5L : scaled);
}

// Computes the coordinate as kernels do, each result rounded.
template <class Real>
double coordinate(int axis, long output) {
  const auto in = static_cast<double>(inside(axis)), out = static_cast<double>(outside(axis));
  const double own = kScales[axis] > 0 ? 1 / kScales[axis] : in / out, aligned = out > 1 ? (in - 1) / (out - 1) : 0;
  const Real ratio = Real(kAlignCorners ? aligned : own);
  const Real at = Real(times(double(ratio), static_cast<double>(output) + (kCentred ? 0.5 : 0)));
  return kCentred ? at - Real(0.5) : at;
}

// Mode nearest: a pixel adds up the output pixels between two ends.

long within(double x, long most) {
  return std::isnan(x) ? 0 : static_cast<long>(std::min(std::max(x, 0.0), static_cast<double>(most)));
}

// Computes the end as kernels for GPUs do, in float32.
long end_by_inverse(int axis, long boundary) {
  const double sizes = static_cast<double>(outside(axis)) / static_cast<double>(inside(axis));
  const float inverse = static_cast<float>(kScales[axis] > 0 ? kScales[axis] : sizes),
              at = static_cast<float>(boundary);
  return within(std::ceil(kExactNearest ? std::fma(at, inverse, -0.5f) : times(at, inverse)), outside(axis));
}

// Returns the first output pixel whose coordinate is not before the boundary.
long exact_end(int axis, long boundary) {
  long low = 0, last = outside(axis);
  if (kForGpu && kScales[axis] > 0) {  // those that the image times the factor does not reach are left out
    const long double reached = static_cast<long double>(inside(axis)) * kScales[axis];
    last = within(std::ceil(static_cast<double>(reached) - (kExactNearest ? 0.5 : 0)), last);
  }
  if (boundary <= 0 || boundary >= inside(axis)) return boundary <= 0 ? 0 : last;
  for (long high = last; low < high;) {
    const long middle = (low + high) / 2;
    if (exact_coordinate(axis, middle) >= static_cast<double>(boundary)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The other modes: an output pixel reads some pixels along an axis, with weights.

double cubic_weight(double distance) {
  const double a = -0.75, x = std::fabs(distance);
  if (x >= 2) return 0;
  if (x <= 1) return times(times(times(a + 2, x) - (a + 3), x), x) + 1;
  return times(times(times(a, x) - 5 * a, x) + 8 * a, x) - 4 * a;
}

// Returns the weights with which a pixel is read for a coordinate; there are several at the border.
std::vector<double> weights_at(int axis, double at, long own) {
  const long last = inside(axis) - 1;
  if (!kCubic && !kAlignCorners) at = std::max(at, 0.0);
  const double low = std::min(std::max(std::floor(at), -1.0), static_cast<double>(last));
  const double fraction = std::min(std::max(at - low, 0.0), 1.0);
  std::vector<double> weights;
  for (long i = kCubic ? -1 : 0; i <= (kCubic ? 2 : 1); ++i) {
    if (std::min(std::max(static_cast<long>(low) + i, 0L), last) != own) continue;
    weights.push_back(kCubic ? cubic_weight(fraction - static_cast<double>(i)) : i == 0 ? 1 - fraction : fraction);
  }
  return weights;
}

// An output pixel along an axis, with its weights at the element's pixel. Mode float64 adds them up.
struct Reader {
  long output;
  std::vector<double> weights;
};

template <class Real>
std::vector<Reader> readers(int axis) {
  constexpr bool exact = std::is_same<Real, double>::value;
  const long own = kIndex[kIndex.size() - 1 - static_cast<size_t>(axis)];
  std::vector<Reader> found;
  if (kNearest) {
    const long end = exact ? exact_end(axis, own + 1) : end_by_inverse(axis, own + 1);
    for (long i = exact ? exact_end(axis, own) : end_by_inverse(axis, own); i < end; ++i) found.push_back({i, {1}});
    return found;
  }
  for (long output = 0; output < outside(axis); ++output) {
    Reader reader{output,
                  weights_at(axis, exact ? exact_coordinate(axis, output) : coordinate<Real>(axis, output), own)};
    if (reader.weights.empty()) continue;
    for (double& weight : reader.weights) weight = Real(weight);
    for (; exact && reader.weights.size() > 1; reader.weights.erase(reader.weights.begin())) {
      reader.weights[1] += reader.weights[0];
    }
    found.push_back(reader);
  }
  return found;
}

template <class Real>
std::vector<Part> contributions() {
  std::vector<Reader> along[3] = {{{0, {1}}}, {{0, {1}}}, {{0, {1}}}};
  for (int axis = 0; axis < kAxes; ++axis) along[axis] = readers<Real>(axis);
  std::vector<Part> parts;
  for (const Reader& z : along[2]) {
    for (const Reader& y : along[1]) {
      for (const Reader& x : along[0]) {
        std::vector<long> place = {kIndex[0], kIndex[1]};
        if (kAxes > 2) place.push_back(z.output);
        if (kAxes > 1) place.push_back(y.output);
        place.push_back(x.output);
        const double number = tensors.at("grad_output").at(place);
        for (const double wz : z.weights) {
          for (const double wy : y.weights) {
            for (const double wx : x.weights) parts.push_back({number, times(times(Real(wx), Real(wy)), Real(wz))});
          }
        }
      }
    }
  }
  return parts;
}

bool held(size_t, double&) { return false; }
double divided_by(size_t) { return 1; }
