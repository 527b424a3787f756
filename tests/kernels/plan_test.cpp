// How the CUDA kernels divide their work, which can be checked without a GPU.
#include "kernels/cuda/msda/plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/cuda/msda/at_once_plan.h"
#include "kernels/cuda/scatter/buckets.h"

namespace msda::tests {
namespace {

using kernels::cuda::Division;
using kernels::cuda::Level;
using kernels::cuda::LevelPlan;
using kernels::cuda::make_plan;
using kernels::cuda::Plan;
using kernels::cuda::RunBlocks;

constexpr uint32_t kMost = (uint32_t{1} << 31) - 1;  // that is divided

TEST(DivisionTest, IsExactForEveryDivisorAroundItsMultiples) {
  std::mt19937_64 random(3);
  std::vector<uint32_t> divisors;
  for (uint32_t by = 1; by <= 1000; ++by) divisors.push_back(by);
  for (int bit = 10; bit < 31; ++bit) {
    for (const uint32_t near : {0u, 1u, 2u}) divisors.push_back((uint32_t{1} << bit) - 1 + near);
  }
  for (int i = 0; i < 2000; ++i) divisors.push_back(1 + static_cast<uint32_t>(random() % kMost));
  divisors.push_back(kMost);
  for (const uint32_t by : divisors) {
    const Division division(by);
    ASSERT_EQ(division.by, by);
    std::vector<uint32_t> numbers{0, 1, by - 1, by, kMost - 1, kMost, kMost / by * by, kMost / by * by - 1};
    for (int i = 0; i < 200; ++i) {
      const uint32_t multiple = by * static_cast<uint32_t>(random() % (kMost / by + uint64_t{1}));
      numbers.insert(numbers.end(),
                     {multiple, multiple - (multiple > 0 ? 1 : 0), static_cast<uint32_t>(random() >> 33)});
    }
    for (const uint32_t n : numbers) {
      const auto [quotient, rest] = division.divide(n);
      ASSERT_EQ(quotient, n / by) << n << " / " << by;
      ASSERT_EQ(rest, n % by) << n << " % " << by;
    }
  }
}

// The levels' blocks follow one another, and their segments hold every sample.
void expect_covers(const Plan& plan, int64_t samples, int64_t groups) {
  for (size_t l = 0; l < plan.levels.size(); ++l) {
    const LevelPlan& level_plan = plan.levels[l];
    const uint32_t next = l + 1 < plan.levels.size() ? plan.levels[l + 1].first_block : plan.blocks;
    ASSERT_GT(next, level_plan.first_block) << "level " << l;
    EXPECT_GE(int64_t{next - level_plan.first_block} * groups * level_plan.segment, samples) << "level " << l;
    EXPECT_LT(int64_t{next - level_plan.first_block - 1} * groups * level_plan.segment, samples)
        << "a block has no sample; level " << l;
  }
}

TEST(PlanTest, FillsTheDeviceOnceWithBlocksOfOneCostWhereSegmentsStayShort) {
  const std::vector<Level> levels{{64, 64, 0}, {32, 32, 4096}, {16, 16, 5120}, {8, 8, 5376}};
  for (const int64_t points : {3, 4}) {
    const int64_t samples = 1000 * points;
    const Plan plan = make_plan(levels, 32, 1000, points, {16, 6 * 132});
    expect_covers(plan, samples, 16);
    EXPECT_EQ(plan.blocks, 792u / 32);  // as many as fit
    // A cell's first run costs twice what a sample does (measured on an H200); so many cells have one.
    for (const LevelPlan& level_plan : plan.levels) {
      const double cells = (level_plan.level.height + 1.0) * (level_plan.level.width + 1.0);
      const double runs = cells * (1 - std::pow(1 - 1 / cells, static_cast<double>(samples)));
      const double cost = level_plan.segment * (1 + 2 * runs / static_cast<double>(samples));
      EXPECT_NEAR(cost, points == 3 ? 50 : 63, 8) << points << " points, " << level_plan.cells << " cells";
    }
  }
}

TEST(PlanTest, CoversAllSamplesOfAnyCall) {
  std::mt19937_64 random(7);
  const auto upto = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  for (int i = 0; i < 3000; ++i) {
    std::vector<Level> levels;
    for (int64_t l = upto(20); l > 0; --l) {
      levels.push_back({static_cast<int32_t>(upto(200)), static_cast<int32_t>(upto(200)), 0});
    }
    const int64_t Q = upto(i % 3 == 0 ? 100000 : 300), P = upto(8), groups = i % 2 == 0 ? 16 : 8;
    const Plan plan = make_plan(levels, upto(i % 5 == 0 ? 5000 : 64), Q, P, {groups, 6 * upto(132)});
    ASSERT_NO_FATAL_FAILURE(expect_covers(plan, Q * P, groups)) << "call " << i;
    for (const LevelPlan& level : plan.levels) ASSERT_LE(level.segment, 2 * 64u) << "call " << i;
  }
}

// Each row of pixels has one part, and no part has more cells than a block has room for.
TEST(PlanTest, CutsTheLevelsOfShortCallsIntoPartsOfWholeRows) {
  using kernels::cuda::AtOncePlan;
  const std::vector<std::vector<Level>> pyramids = {
      {{80, 80, 0}, {40, 40, 6400}, {20, 20, 8000}}, {{1, 1, 0}}, {{1, 500, 0}, {500, 1, 500}, {3, 7, 1000}}};
  for (const auto& levels : pyramids) {
    for (const int64_t heads : {1, 8, 64}) {
      for (const int64_t samples : {1, 400, 1280}) {
        const AtOncePlan plan = kernels::cuda::make_at_once_plan(levels, heads, samples, 528);
        EXPECT_EQ(plan.most_cells % 8, 0u);
        for (size_t l = 0; l < levels.size(); ++l) {
          const uint32_t first = plan.levels[l].first_part, rows = plan.levels[l].rows;
          const uint32_t parts = (l + 1 < levels.size() ? plan.levels[l + 1].first_part : plan.parts) - first;
          ASSERT_GT(rows, 0u);
          EXPECT_GE(int64_t{parts} * rows, levels[l].height);
          EXPECT_LT(int64_t{parts - 1} * rows, levels[l].height) << "a part without rows";
          EXPECT_GT(int64_t{plan.most_cells}, (int64_t{rows} + 1) * (levels[l].width + 1));
        }
        EXPECT_LE(heads * plan.parts, 2 * 528 + heads * static_cast<int64_t>(levels.size())) << "too many blocks";
      }
    }
  }
}

TEST(PlanTest, GivesLargeShortCallsAboutTheWantedNumberOfParts) {
  const std::vector<Level> levels = {{80, 80, 0}, {40, 40, 6400}, {20, 20, 8000}};
  const int64_t parts = 64 * kernels::cuda::make_at_once_plan(levels, 64, 1200, 528).parts;
  EXPECT_GE(parts, 528 / 2);
  EXPECT_LE(parts, 528 * 2);
}

TEST(BucketsTest, HaveEachRowOnceWithinTheLimits) {
  using namespace kernels::cuda;  // NOLINT: the limits of buckets
  for (const int64_t n : {1, 7, 8, 100, 5000, 8192, 8193, 220000, 262144}) {
    for (const int64_t rows : {1, 2, 3, 262, 263, 264, 1000, 20000, 134656, 523776}) {
      for (const bool finds : {true, false}) {
        const Buckets buckets(n, rows, 132, finds);
        ASSERT_TRUE(buckets.fit());
        EXPECT_LE(buckets.count, kMostBuckets);
        EXPECT_LE(buckets.rows, kMostRowsOfBucket);
        EXPECT_TRUE(buckets.count % 2 == 1 || buckets.count == rows);
        EXPECT_LE(buckets.count, rows);
        EXPECT_LT(rows - 1, int64_t{buckets.count} * buckets.rows);
        EXPECT_EQ(buckets.segments == 0, finds && n <= kMostFound);
        EXPECT_LE(buckets.segments, kMostSegments);
        EXPECT_TRUE(buckets.segments == 0 || n <= buckets.segments * kSegment);
        const Division::Result last = buckets.by.divide(static_cast<uint32_t>(rows - 1));
        EXPECT_LT(last.quotient, buckets.rows);
      }
    }
  }
  EXPECT_FALSE(Buckets(0, 10, 132, true).fit());
  EXPECT_FALSE(Buckets(262145, 10, 132, true).fit());
  EXPECT_FALSE(Buckets(10, 523777, 132, true).fit());
}

}  // namespace
}  // namespace msda::tests
