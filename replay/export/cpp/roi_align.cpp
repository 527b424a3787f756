
// --- The backward pass of ROIAlign: one element, which adds up what the points of the boxes' bins read of it.

double box_number(long box, long number) { return tensors.at("boxes").at({box, number}); }
long side_of(const char* name, int axis) { return tensors.at(name).shape[3 - static_cast<size_t>(axis)]; }

// Returns where a box starts along an axis (x, y), and the length of a bin.
template <class Real>
std::pair<Real, Real> box_along(long box, int axis) {
  const Real scale = Real(kSpatialScale[0]), offset = Real(kAligned ? 0.5 : 0);
  const Real low = times(Real(box_number(box, 1 + axis)), scale) - offset;
  const Real length = times(Real(box_number(box, 3 + axis)), scale) - offset - low;
  return {low, (kAligned ? length : std::max(length, Real(1))) / Real(side_of("grad_output", axis))};
}

// Returns the weights with which a point reads a pixel along an axis; none where it lies outside.
template <class Real>
std::vector<Real> weights_at(Real at, long size, long own) {
  if (!(at >= -1 && at <= Real(size))) return {};
  at = std::max(at, Real(0));
  const long low = static_cast<long>(at);
  if (low >= size - 1) return own == size - 1 ? std::vector<Real>{1, 0} : std::vector<Real>{};
  const Real fraction = at - Real(low);
  if (own == low) return {Real(1) - fraction};
  return own == low + 1 ? std::vector<Real>{fraction} : std::vector<Real>{};
}

template <class Real>
struct Along {
  long points;                                       // of a bin
  std::vector<std::vector<std::vector<Real>>> bins;  // of each bin the weights of those points that read the element
};

template <class Real>
Along<Real> along_axis(long box, int axis) {
  const auto [start, length] = box_along<Real>(box, axis);
  const double adaptive = std::isnan(length) ? 0 : std::min(std::max(double(std::ceil(length)), 0.0), 1e9);
  Along<Real> along{kSamplingRatio > 0 ? kSamplingRatio : static_cast<long>(adaptive), {}};
  const Real count = Real(along.points), half = Real(0.5);
  for (long bin = 0; bin < side_of("grad_output", axis); ++bin) {
    along.bins.emplace_back();
    for (long point = 0; point < along.points; ++point) {
      const Real middle = Real(point) + half;
      const Real at = std::is_same<Real, double>::value
                          ? start + times(Real(bin) + middle / count, length)
                          : (start + times(Real(bin), length)) + times(middle, length) / count;
      const auto weights = weights_at(at, side_of("observed_grad_input", axis), kIndex[3 - static_cast<size_t>(axis)]);
      if (!weights.empty()) along.bins.back().push_back(weights);
    }
  }
  return along;
}

template <class Real>
std::vector<Part> contributions() {
  std::vector<Part> parts;
  for (long box = 0; box < tensors.at("boxes").shape[0]; ++box) {
    if (static_cast<long>(box_number(box, 0)) != kIndex[0]) continue;
    const Along<Real> columns = along_axis<Real>(box, 0), rows = along_axis<Real>(box, 1);
    const Real share = Real(1.0 / (static_cast<double>(columns.points) * static_cast<double>(rows.points)));
    for (size_t row = 0; row < rows.bins.size(); ++row) {
      for (size_t column = 0; column < columns.bins.size(); ++column) {
        const double number =
            tensors.at("grad_output").at({box, kIndex[1], static_cast<long>(row), static_cast<long>(column)});
        for (const auto& ys : rows.bins[row]) {
          for (const auto& xs : columns.bins[column]) {
            for (const Real wy : ys) {
              for (const Real wx : xs) parts.push_back({number, times(times(wx, wy), share)});
            }
          }
        }
      }
    }
  }
  return parts;
}

bool held(size_t, double&) { return false; }
double divided_by(size_t) { return 1; }
