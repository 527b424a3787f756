// gradcheck on every dialect and variant: right gradients pass at random points and on kinks, wrong ones fail, and the
// naive check is wrong on kinks.
#include "analysis/judge/gradcheck.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "analysis/model/owned_side.h"
#include "tests/support/grid_problem.h"
#include "tests/support/problem.h"

namespace msda::tests {
namespace {

using analysis::Call;
using analysis::Gradient;
using analysis::Side;

// Moves about every second coordinate onto a kink or a few units in the last place beside one: a cell's boundary, a
// border, the middle between two pixels.
void hug_kinks(const Call& call, OwnedTensor& locations, uint64_t seed) {
  std::mt19937_64 random(seed);
  const Gradient gradient = call.gradients()[1];
  for (int64_t flat = 0; flat < locations.view.elements(); ++flat) {
    if (random() % 2 == 0) continue;
    const auto id = call.element_id(gradient, flat);
    const analysis::Axis axis = call.axes(id)[*call.forward()->moved_axis(id)];
    const auto map = call.coordinate_map(axis.size);
    if (map.factor == 0) continue;
    const auto half_pixel = static_cast<double>(static_cast<int64_t>(random() % (2 * axis.size + 9)) - 4) / 2;
    const auto steps = static_cast<double>(static_cast<int64_t>(random() % 5) - 2);
    const double at = map.location(half_pixel);
    locations.set(flat, at + steps * std::ldexp(1.0, std::ilogb(at == 0 ? 1.0 : at)) *
                                 analysis::Precision::of(locations.view.dtype).unit * 2);
  }
}

struct Checked {
  int64_t elements = 0, kinks = 0, failed = 0, naive_at_kinks = 0;
};

Side recorded_side(const analysis::OwnedSide& owned) {
  Side side = owned.side;
  side.name = "recorded";
  side.source = analysis::Source::kRecorded;
  return side;
}

// Both the float64 gradient and that of the call's own arithmetic, every element.
Checked check(const Call& call) {
  const auto compute = [&](msda_mode mode) {
    msda_options options{};
    options.mode = mode;
    analysis::OwnedSide owned = uncomputed_side(call, "float64", mode, Side{});
    compute_on_cpu(call, options, owned);
    return owned;
  };
  const auto float64 = compute(MSDA_MODE_FLOAT64), own = compute(MSDA_MODE_DETERMINISTIC);
  const std::vector<Side> sides{float64.side, recorded_side(own)};
  Checked checked;
  for (const auto& gradient : gradcheck(call, sides, {.all = true})) {
    checked.elements += gradient.gradient.place() == 1 ? gradient.sampled : 0;
    checked.kinks += gradient.at_kinks;
    checked.naive_at_kinks += gradient.naive_failed_at_kinks;
    for (const auto& side : gradient.sides) {
      checked.failed += side.failed;
      for (const auto& worst : side.worst) {
        ADD_FAILURE() << side.side << " " << gradient.gradient.name() << " flat " << worst.id.flat << ": "
                      << worst.checked.value << " not in [" << worst.derivatives.lowest << ", "
                      << worst.derivatives.highest << "] +- " << worst.checked.bound;
        break;
      }
    }
  }
  return checked;
}

TEST(Gradcheck, MsdaPassesAtRandomPointsAndOnKinks) {
  int64_t naive = 0;
  for (const auto& conventions : all_conventions()) {
    for (const msda_dtype type : {MSDA_FLOAT32, MSDA_FLOAT64}) {
      Problem problem =
          make_problem({.B = 1, .M = 2, .D = 5, .Q = 125, .P = 2, .levels = {{4, 5}, {7, 3}}}, conventions, type, 1);
      const auto call = problem.call();
      hug_kinks(call, problem.sampling_locations, 7);
      SCOPED_TRACE(problem.text());
      const Checked checked = check(problem.call());
      EXPECT_GE(checked.elements, 2000);
      if (type == MSDA_FLOAT64) {
        EXPECT_GE(checked.kinks, 300);
      }
      EXPECT_EQ(checked.failed, 0);
      naive += checked.naive_at_kinks;
    }
  }
  EXPECT_GT(naive, 1000);
}

TEST(Gradcheck, GridSamplePassesAtRandomPointsAndOnKinks) {
  int64_t naive = 0;
  for (const Variant& variant : all_variants()) {
    for (const msda_dtype type : {MSDA_FLOAT32, MSDA_FLOAT64}) {
      SCOPED_TRACE(name_of(variant));
      const std::vector<int64_t> samples =
          variant.axes == 2 ? std::vector<int64_t>{20, 25, 1} : std::vector<int64_t>{10, 10, 4};
      GridProblem problem =
          make_grid_problem(variant, type, 3, {.N = 2, .C = 3, .image = {4, 5, 3}, .samples = samples});
      hug_kinks(problem.call, problem.grid, 5);
      const Checked checked = check(problem.call);
      EXPECT_GE(checked.elements, 2000);
      EXPECT_EQ(checked.failed, 0);
      naive += checked.naive_at_kinks;
    }
  }
  EXPECT_GT(naive, 1000);
}

// A wrong digit in the twelfth place of a float64 gradient, away from kinks.
TEST(Gradcheck, ATinyMistakeInFloat64Fails) {
  const auto problem = make_problem({.D = 3, .Q = 30}, {}, MSDA_FLOAT64, 9);
  const auto call = problem.call();
  msda_options options{};
  options.mode = MSDA_MODE_FLOAT64;
  analysis::OwnedSide owned = uncomputed_side(call, "float64", options.mode, Side{});
  compute_on_cpu(call, options, owned);
  for (const Gradient gradient : call.gradients()) {
    auto* values = reinterpret_cast<double*>(owned.memory[gradient.place()].get());
    const int64_t count = owned.side.of(gradient).elements();
    for (int64_t i = 0; i < count; ++i) values[i] *= 1 + 1e-9;
  }
  for (const auto& gradient : gradcheck(call, std::vector<Side>{owned.side}, {.all = true})) {
    int64_t nonzero = 0;
    for (int64_t i = 0; i < gradient.total; ++i) nonzero += owned.side.of(gradient.gradient).at(i) != 0;
    EXPECT_GE(gradient.sides[0].failed, nonzero * 9 / 10) << gradient.gradient.name();
  }
}

}  // namespace
}  // namespace msda::tests
