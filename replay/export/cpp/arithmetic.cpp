
// --- Arithmetic. Every operation is one rounding. A compiler may fuse a product and a sum that it sees; times() hides
// the product from it, so that -ffp-contract=off is not needed. Fused multiply-adds are written std::fma.

#ifdef __FAST_MATH__
#error "compile without -ffast-math: it changes what floating-point arithmetic computes"
#endif

template <class Real>
Real times(Real a, Real b) {
  const volatile Real product = a * b;
  return product;
}

// Returns the sum of products: 32 lanes, lane j takes channels j, j + 32, ...; then the lanes are added in pairs.
template <class Real>
Real sum_over_channels(const std::vector<Real>& some, const std::vector<Real>& others) {
  std::vector<Real> lanes(32, Real(0));
  for (size_t i = 0; i < some.size(); ++i) lanes[i % 32] = std::fma(some[i], others[i], lanes[i % 32]);
  for (; lanes.size() > 1; lanes.resize(lanes.size() / 2)) {
    for (size_t i = 0; i < lanes.size() / 2; ++i) lanes[i] = lanes[2 * i] + lanes[2 * i + 1];
  }
  return lanes[0];
}

// Runs of up to 32 addends from left to right, then runs of up to 32 such sums, and so on. At least one addend.
template <class Real>
Real sum_by_runs(std::vector<Real> addends) {
  while (addends.size() > 1) {
    std::vector<Real> sums;
    for (size_t i = 0; i < addends.size(); ++i) {
      if (i % 32 == 0) {
        sums.push_back(addends[i]);
      } else {
        sums.back() += addends[i];
      }
    }
    addends = sums;
  }
  return addends[0];
}

// A type that tensors are stored in.
struct Stored {
  int bits, least;  // of the significand; exponent of the smallest subnormal number
  double largest;
};

Stored stored_as(const std::string& type) {
  if (type == "float16") return {11, -24, 65504};
  if (type == "bfloat16") return {8, -133, 0x1.fep127};
  if (type == "float32") return {24, -149, 0x1.fffffep127};
  return {53, -1074, 0x1.fffffffffffffp1023};
}

// x rounded once into a type.
double rounded_to(const std::string& type, double x) {
  if (type == "float64" || x == 0 || !std::isfinite(x)) return x;
  const Stored stored = stored_as(type);
  const int unit = std::max(std::ilogb(x) - (stored.bits - 1), stored.least);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  return std::abs(rounded) > stored.largest ? std::copysign(INFINITY, x) : rounded;
}

// "0x3f800000", of a value that the type has.
std::string bits_of(const std::string& type, double x) {
  char text[24];
  if (type == "float64") {
    std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(x)));
  } else if (type == "float16") {
    const unsigned sign = std::signbit(x) ? 0x8000 : 0;
    unsigned rest = 0x7c00;
    if (std::isnan(x)) {
      rest = 0x7e00;
    } else if (std::abs(x) < 0x1p-14) {
      rest = static_cast<unsigned>(std::ldexp(std::abs(x), 24));
    } else if (std::isfinite(x)) {
      const int exponent = std::ilogb(x);
      rest = (static_cast<unsigned>(exponent + 15) << 10) +
             static_cast<unsigned>(std::ldexp(std::abs(x), 10 - exponent)) - 0x400;
    }
    std::snprintf(text, sizeof text, "0x%04x", sign | rest);
  } else {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
    const bool half = type == "bfloat16";
    std::snprintf(text, sizeof text, half ? "0x%04x" : "0x%08x", static_cast<unsigned>(half ? bits >> 16 : bits));
  }
  return text;
}
