#include "analysis/stress/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "analysis/stress/loops.h"
#include "kernels/cpu/random.h"

namespace msda::analysis::stress {
namespace {

using Kind = Generator::Kind;

struct Moments {
  double mean = 0, deviation = 0, low = INFINITY, high = -INFINITY;
};

Moments moments_of(const std::vector<double>& numbers) {
  Moments m;
  for (const double x : numbers) {
    m.mean += x;
    m.low = std::min(m.low, x);
    m.high = std::max(m.high, x);
  }
  m.mean /= static_cast<double>(numbers.size());
  for (const double x : numbers) m.deviation += (x - m.mean) * (x - m.mean);
  m.deviation = std::sqrt(m.deviation / static_cast<double>(numbers.size()));
  return m;
}

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// Returns whether the sorted numbers may come from the distribution: Kolmogorov's test at a level of about 1e-6.
bool fits(const std::vector<double>& sorted, const std::function<double(double)>& distribution) {
  const auto n = static_cast<double>(sorted.size());
  double farthest = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double expected = distribution(sorted[i]);
    farthest = std::max({farthest, expected - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - expected});
  }
  return farthest * std::sqrt(n) < 2.7;
}

// Returns at most so many of the tensor's numbers, in runs of `run` adjacent ones spread over it.
std::vector<double> some_of(const Tensor& tensor, int64_t run) {
  constexpr int64_t kMost = 200'000;
  const int64_t runs = tensor.elements() / run, step = std::max<int64_t>(1, runs * run / kMost);
  std::vector<double> numbers;
  for (int64_t first = 0; first < runs; first += step) {
    for (int64_t i = first * run; i < (first + 1) * run; ++i) numbers.push_back(tensor.at(i));
  }
  return numbers;
}

// Returns `chosen`, a value that people choose, if the estimate agrees with it; else the estimate.
double nice(double estimate, double chosen, double standard_error) {
  return std::abs(estimate - chosen) < 5 * standard_error ? chosen : estimate;
}

Generator resampling(const Tensor& recorded) {
  Generator generator;
  generator.kind = Kind::kResample;
  auto numbers = std::make_shared<std::vector<float>>();
  for (const double x : some_of(recorded, 1)) numbers->push_back(static_cast<float>(x));
  generator.numbers = numbers;
  return generator;
}

// Fits nothing but groups of positive numbers whose sum is 1, whose logarithms differ as those of normal numbers do.
bool fit_softmax(const Tensor& recorded, int64_t group, Generator& generator) {
  if (group < 2 || recorded.elements() % group != 0) return false;
  const auto numbers = some_of(recorded, group);
  const double slack = static_cast<double>(group) * 2 * Precision::of(recorded.dtype).unit;
  std::vector<double> differences;
  for (size_t first = 0; first < numbers.size(); first += static_cast<size_t>(group)) {
    const double sum = std::accumulate(numbers.begin() + static_cast<std::ptrdiff_t>(first),
                                       numbers.begin() + static_cast<std::ptrdiff_t>(first) + group, 0.0);
    if (!(numbers[first] > 0 && numbers[first + 1] > 0) || !(std::abs(sum - 1) <= slack)) return false;
    differences.push_back((std::log(numbers[first]) - std::log(numbers[first + 1])) / std::sqrt(2.0));
  }
  const Moments m = moments_of(differences);
  const double deviation = nice(m.deviation, 1, m.deviation / std::sqrt(2.0 * static_cast<double>(differences.size())));
  generator.kind = Kind::kSoftmax;
  generator.group = group;
  generator.deviation = deviation;
  return deviation > 0;
}

}  // namespace

std::string Generator::text() const {
  switch (kind) {
    case Kind::kUniform:
      return fmt::format("uniform({},{})", low, high);
    case Kind::kUniform24:
      return fmt::format("uniform24({},{})", low, high);
    case Kind::kNormal:
      return fmt::format("normal({},{})", mean, deviation);
    case Kind::kSoftmax:
      return fmt::format("softmax({},{})", deviation, group);
    case Kind::kResample:
      return "resample";
  }
  return "?";
}

Generator parse_generator(std::string_view text, const Tensor& recorded) {
  const auto fail = [&](const char* why = "no such generator") {
    throw std::invalid_argument(
        fmt::format("{}: {}; there are uniform(LOW,HIGH), uniform24(LOW,HIGH), normal(MEAN,DEVIATION), "
                    "softmax(DEVIATION,COUNT) and resample",
                    text, why));
  };
  const size_t bracket = std::min(text.find('('), text.size());
  const std::string_view name = text.substr(0, bracket);
  std::vector<double> numbers;
  if (bracket < text.size()) {
    if (text.back() != ')') fail();
    const std::string inside(text.substr(bracket + 1, text.size() - bracket - 2));
    for (size_t begin = 0; begin <= inside.size();) {
      const size_t end = std::min(inside.find(',', begin), inside.size());
      const std::string part = inside.substr(begin, end - begin);
      size_t used = 0;
      try {
        numbers.push_back(std::stod(part, &used));
      } catch (const std::exception&) {
        fail();
      }
      if (used != part.size()) fail();
      if (!(std::abs(numbers.back()) <= 1e30)) fail("its numbers must lie between -1e30 and 1e30");
      begin = end + 1;
    }
  }
  Generator generator;
  const bool pair = numbers.size() == 2;
  if (!pair && !numbers.empty()) fail();
  if (name == "uniform" || name == "uniform24") {
    generator.kind = name == "uniform" ? Kind::kUniform : Kind::kUniform24;
    if (pair) generator.low = numbers[0], generator.high = numbers[1];
    if (!(generator.low < generator.high)) fail("LOW must be below HIGH");
  } else if (name == "normal") {
    generator.kind = Kind::kNormal;
    if (pair) generator.mean = numbers[0], generator.deviation = numbers[1];
    if (!(generator.deviation >= 0)) fail("DEVIATION must be 0 or more");
  } else if (name == "softmax") {
    generator.kind = Kind::kSoftmax;
    if (!pair || !(numbers[0] >= 0) || !(numbers[1] >= 1) || numbers[1] != std::floor(numbers[1])) fail();
    generator.deviation = numbers[0];
    generator.group = static_cast<int64_t>(numbers[1]);
    if (recorded.elements() % generator.group != 0) fail();
  } else if (name == "resample") {
    if (pair) fail();
    return resampling(recorded);
  } else {
    fail();
  }
  return generator;
}

Generator fit_generator(const Tensor& recorded, const std::vector<int64_t>& groups) {
  Generator generator;
  if (recorded.elements() == 0) return generator;
  for (const int64_t group : groups) {
    if (fit_softmax(recorded, group, generator)) return generator;
  }
  std::vector<double> numbers = some_of(recorded, 1);
  constexpr size_t kFewest = 50;  // that distinguish distributions
  if (numbers.size() < kFewest || !std::ranges::all_of(numbers, [](double x) { return std::isfinite(x); })) {
    return resampling(recorded);
  }
  std::ranges::sort(numbers);
  const Moments m = moments_of(numbers);
  const auto n = static_cast<double>(numbers.size());
  const auto uniform = [](double low, double high) {
    return [low, high](double x) { return std::clamp((x - low) / (high - low), 0.0, 1.0); };
  };
  // The range of uniform numbers is a little larger than theirs.
  const double reach = (m.high - m.low) / n;
  double low = m.low - reach, high = m.high + reach;
  for (const auto& [a, b] : {std::pair{0.0, 1.0}, {-1.0, 1.0}, {-0.5, 0.5}}) {
    if (m.low >= a && m.high <= b && std::abs(m.low - a) < 20 * reach && std::abs(m.high - b) < 20 * reach) {
      low = a;
      high = b;
    }
  }
  if (m.low < m.high && fits(numbers, uniform(low, high))) {
    const bool coarse = std::ranges::all_of(numbers, [&](double x) {
      const double steps = (x - low) / (high - low) * 0x1p24;
      return steps == std::floor(steps);
    });
    generator.kind = coarse ? Kind::kUniform24 : Kind::kUniform;
    generator.low = low;
    generator.high = high;
    return generator;
  }
  const double mean = nice(m.mean, 0, m.deviation / std::sqrt(n));
  const double deviation = nice(m.deviation, 1, m.deviation / std::sqrt(2 * n));
  if (deviation > 0 && fits(numbers, [&](double x) { return normal_distribution((x - mean) / deviation); })) {
    generator.kind = Kind::kNormal;
    generator.mean = mean;
    generator.deviation = deviation;
    return generator;
  }
  return resampling(recorded);
}

void draw(const Generator& generator, uint64_t seed, int64_t count, float* numbers, std::vector<uint32_t>& bits) {
  if (count == 0) return;
  const Loops& functions = loops();
  const auto scale = [&](double factor, double offset) {
    if (factor != 1 || offset != 0)
      functions.scale(numbers, count, static_cast<float>(factor), static_cast<float>(offset));
  };
  bits.resize(static_cast<size_t>(count) + 1);
  functions.bits(seed, bits.data(), count + 1);
  // Box and Muller's method makes pairs: the last number of an odd count is made apart.
  const auto draw_normal = [&] {
    functions.normal(bits.data(), numbers, count - count % 2);
    float pair[2];
    if (count % 2 != 0) {
      functions.normal(bits.data() + count - 1, pair, 2);
      numbers[count - 1] = pair[0];
    }
  };
  switch (generator.kind) {
    case Kind::kUniform:
    case Kind::kUniform24:
      (generator.kind == Kind::kUniform ? functions.uniform_32 : functions.uniform_24)(bits.data(), numbers, count);
      scale(generator.high - generator.low, generator.low);
      break;
    case Kind::kNormal:
      draw_normal();
      scale(generator.deviation, generator.mean);
      break;
    case Kind::kSoftmax:
      draw_normal();
      scale(generator.deviation, 0);
      functions.exponentials(numbers, count);
      for (int64_t first = 0; first < count; first += generator.group) {
        float sum = 0;
        for (int64_t i = first; i < first + generator.group; ++i) sum += numbers[i];
        const float factor = 1 / sum;
        for (int64_t i = first; i < first + generator.group; ++i) numbers[i] *= factor;
      }
      break;
    case Kind::kResample: {
      // Which number, and by how much it differs: at most 2^-12 of itself.
      const std::vector<float>& all = *generator.numbers;
      kernels::cpu::SplitMix64 random(seed);
      for (int64_t i = 0; i < count; ++i) {
        const float drawn = all[random.below(all.size())];
        const float change = static_cast<float>(static_cast<int32_t>(bits[static_cast<size_t>(i)])) * 0x1p-43f;
        numbers[i] = drawn + drawn * change;
      }
      break;
    }
  }
}

uint64_t seed_of(uint64_t seed, int64_t run, int64_t slice, int64_t tensor) {
  uint64_t state = seed;
  for (const int64_t number : {run, slice, tensor}) {
    state = kernels::cpu::SplitMix64(state).next() ^ (static_cast<uint64_t>(number) * 0x9e3779b97f4a7c15u);
  }
  return kernels::cpu::SplitMix64(state).next();
}

}  // namespace msda::analysis::stress
