// What identifies a launch.
#include "recorder/preload/launch/launch_facts.h"

#include <gtest/gtest.h>

#include <cstring>

namespace msda::record {
namespace {

// Four bytes, four that belong to no parameter, and eight.
const Layout kGapped{"with_a_gap", {{0, 4}, {8, 8}}};
const Layout kFull{"without_gap", {{0, 8}, {8, 8}}};

Launched launched(void** parameters, void** extra) {
  return {nullptr, {1, 1, 1}, {32, 1, 1}, 0, nullptr, parameters, extra};
}

TEST(Identify, ForgetsTheLaunchBeforeThatUsedTheSameKey) {
  uint32_t small = 7;
  uint64_t large = 9, all_bits = ~uint64_t{0};
  void* gapped[] = {&small, &large};
  void* full[] = {&all_bits, &all_bits};
  std::string key;
  ASSERT_TRUE(identify(launched(gapped, nullptr), kGapped, key));
  const std::string first = key;
  ASSERT_TRUE(identify(launched(full, nullptr), kFull, key));
  ASSERT_TRUE(identify(launched(gapped, nullptr), kGapped, key));
  EXPECT_EQ(key, first);
}

TEST(Identify, TakesNothingBetweenPackedParameters) {
  std::string keys[2];
  for (const int gap : {0, 255}) {
    unsigned char packed[16];
    std::memset(packed, gap, sizeof packed);
    const uint32_t small = 7;
    const uint64_t large = 9;
    std::memcpy(packed, &small, sizeof small);
    std::memcpy(packed + 8, &large, sizeof large);
    size_t bytes = sizeof packed;
    void* extra[] = {reinterpret_cast<void*>(cuda::kParamBufferPointer), packed,
                     reinterpret_cast<void*>(cuda::kParamBufferSize), &bytes, reinterpret_cast<void*>(cuda::kParamEnd)};
    ASSERT_TRUE(identify(launched(nullptr, extra), kGapped, keys[gap == 0 ? 0 : 1]));
  }
  EXPECT_EQ(keys[0], keys[1]);
}

}  // namespace
}  // namespace msda::record
