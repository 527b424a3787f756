
// --- Operators that scatter: an element adds up numbers of the source, each times a weight of the type Real.

struct Part {
  double number, weight;
};

// Returns the contributions in the order in which they are added.
template <class Real>
std::vector<Part> contributions();
// Sets `value` to what is in the element without any of them. Returns false if that is nothing.
bool held(size_t count, double& value);
double divided_by(size_t count);

// Halves, quarters, ...: the sum of the first half and the sum of the second half.
template <class Real>
Real tree_sum(const Real* addends, size_t count) {
  if (count <= 1) return count == 0 ? Real(0) : addends[0];
  const size_t half = (count + 1) / 2;
  return tree_sum(addends, half) + tree_sum(addends + half, count - half);
}

// Adds in float64, one after the other. What rounding alone may bring to the element has a weight of 0, and no NaN of
// its own.
double exact_sum(const std::vector<Part>& parts, bool begins, double begin) {
  double total = 0;
  for (const Part& part : parts) {
    if (std::fabs(part.weight) > 1e-9 || std::isfinite(part.number)) total += times(part.weight, part.number);
  }
  return begins ? total + begin : total;
}

template <class Real>
Real gradient(const std::string&, Steps& steps) {
  const std::vector<Part> parts = contributions<Real>();
  double begin = 0;
  const bool begins = held(parts.size(), begin);
  steps.add("addends", static_cast<long>(parts.size()));
  if (std::is_same<Real, double>::value) {
    const double sum = exact_sum(parts, begins, begin);
    steps.add("sum", sum);
    return Real(sum / divided_by(parts.size()));
  }
  std::vector<Real> addends;
  if (begins) addends.push_back(Real(begin));
  for (const Part& part : parts) addends.push_back(times(Real(part.weight), Real(part.number)));
  const Real sum = tree_sum(addends.data(), addends.size());
  steps.add("sum", sum);
  return Real(times(double(sum), 1 / divided_by(parts.size())));
}
