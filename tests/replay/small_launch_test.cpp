// The search for a smaller launch, with launches that vary by rule.
#include "replay/minimize/small_launch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace msda::replay {
namespace {

struct Rule {
  std::array<int64_t, 3> least_grid;
  std::vector<std::pair<size_t, size_t>> needed;  // bytes that must stay as they are, by memory
};

SmallLaunch launch_of(std::mt19937& random) {
  static const capture::TensorInfo kInfo{{.name = "memory_0", .shape = {}}, "", ""};
  SmallLaunch launch;
  for (int64_t& side : launch.grid) side = 1 + static_cast<int64_t>(random() % 100);
  for (int i = 0; i < 3; ++i) {
    auto& bytes = launch.memory.emplace_back(SmallLaunch::Memory{&kInfo, false, {}}).bytes;
    bytes.resize(1 + random() % 100'000);
    std::ranges::generate(bytes, [&] { return std::byte(random() % 255 + 1); });
  }
  return launch;
}

Rule rule_of(const SmallLaunch& launch, std::mt19937& random) {
  Rule rule;
  for (size_t i = 0; i < 3; ++i) rule.least_grid[i] = 1 + static_cast<int64_t>(random() % launch.grid[i]);
  for (auto count = random() % 5; count > 0; --count) {
    const size_t memory = random() % launch.memory.size();
    rule.needed.emplace_back(memory, random() % launch.memory[memory].bytes.size());
  }
  return rule;
}

bool varies(const SmallLaunch& launch, const SmallLaunch& whole, const Rule& rule) {
  for (size_t i = 0; i < 3; ++i) {
    if (launch.grid[i] < rule.least_grid[i]) return false;
  }
  return std::ranges::all_of(rule.needed, [&](const auto& byte) {
    return launch.memory[byte.first].bytes[byte.second] == whole.memory[byte.first].bytes[byte.second];
  });
}

TEST(SmallLaunch, KeepsTheBlocksAndBytesThatMatter) {
  constexpr size_t kPiece = 512;  // what is left of memory around a byte that matters
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const SmallLaunch whole = launch_of(random);
    const Rule rule = rule_of(whole, random);
    SmallLaunch small = whole;
    LaunchSearch search{[&](const SmallLaunch& launch, const std::string&) { return varies(launch, whole, rule); },
                        [] { return false; }, 100'000};
    ASSERT_TRUE(search.make_smaller(small));
    EXPECT_EQ(small.grid, rule.least_grid);
    EXPECT_TRUE(varies(small, whole, rule));
    for (size_t i = 0; i < small.memory.size(); ++i) {
      const auto &bytes = small.memory[i].bytes, &before = whole.memory[i].bytes;
      ASSERT_EQ(bytes.size(), before.size());
      for (size_t at = 0; at < bytes.size(); ++at) {
        if (bytes[at] == std::byte{0}) continue;
        ASSERT_EQ(bytes[at], before[at]);
        ASSERT_TRUE(std::ranges::any_of(rule.needed, [&](const auto& needed) {
          return needed.first == i && std::max(needed.second, at) - std::min(needed.second, at) < kPiece;
        }));
      }
    }
    EXPECT_LT(search.trials, 400);
  }
}

TEST(SmallLaunch, EndsWithWhatVariedWhenItIsStopped) {
  std::mt19937 random(4);
  for (int64_t most = 0; most < 40; ++most) {
    const SmallLaunch whole = launch_of(random);
    const Rule rule{whole.grid, {{0, 0}, {1, whole.memory[1].bytes.size() / 2}, {2, 0}}};
    for (const bool by_signal : {false, true}) {
      SmallLaunch small = whole;
      int64_t calls = 0;
      LaunchSearch search{[&](const SmallLaunch& launch, const std::string&) {
                            ++calls;
                            return varies(launch, whole, rule);
                          },
                          [&] { return by_signal && calls >= most; }, by_signal ? 100'000 : most};
      EXPECT_FALSE(search.make_smaller(small));
      EXPECT_TRUE(varies(small, whole, rule));
      EXPECT_EQ(search.trials, most);
      EXPECT_EQ(calls, most);
    }
  }
}

}  // namespace
}  // namespace msda::replay
