#include "recorder/preload/session/target_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

namespace msda::record {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kFirstSegment = 128 * kMiB;  // the smallest

// What the ring asked its owner for, and what the owner does.
std::atomic<int> pins, spares, waits;
std::atomic<bool> reads;
std::chrono::milliseconds pinning{0};  // how long it takes, whatever the size
std::deque<RingBlock> written;         // one is freed each time that the ring looks whether the writer lives

class Ring : public testing::Test {
 protected:
  void SetUp() override {
    pins = spares = waits = 0;
    reads = true;
    written.clear();
  }
  void TearDown() override {
    written.clear();
    ring_.close();
  }
  void open(uint64_t most) {
    ASSERT_TRUE(ring_.open(most, {[](void*, uint64_t) {
                                    ++pins;
                                    std::this_thread::sleep_for(pinning);
                                  },
                                  [](void*) {}, []() noexcept { ++spares; },
                                  []() noexcept {
                                    ++waits;
                                    if (!written.empty()) written.pop_front();
                                    return reads.load();
                                  }}));
  }
  TargetRing ring_;
};

TEST_F(Ring, WaitsForAWriterThatIsFasterThanGrowing) {
  pinning = std::chrono::seconds(1);  // much longer than all waits together, also on a busy machine
  open(1024 * kMiB);
  for (int i = 0; i < 48; ++i) {  // the first 16 fill the ring
    auto block = ring_.reserve(8 * kMiB);
    ASSERT_TRUE(block);
    std::memset(block->memory(), 1, 8 * kMiB);
    written.push_back(*std::move(block));
  }
  EXPECT_EQ(pins, 1);
  EXPECT_GT(waits, 0);
  EXPECT_EQ(spares, 0);
}

TEST_F(Ring, GrowsToItsLimitForBlocksThatNobodyFrees) {
  pinning = std::chrono::milliseconds(10);
  open(512 * kMiB);
  std::vector<RingBlock> held;
  while (held.size() < 64) {  // calls that are kept, for example
    auto block = ring_.reserve(8 * kMiB);
    ASSERT_TRUE(block);
    held.push_back(*std::move(block));
  }
  EXPECT_EQ(pins, 3);   // 128, 128 and 256 MiB
  EXPECT_GT(waits, 0);  // before it grew
  EXPECT_EQ(spares, 0);
  reads = false;
  EXPECT_FALSE(ring_.reserve(8 * kMiB));
  EXPECT_EQ(spares, 1);
  held.clear();
  EXPECT_TRUE(ring_.reserve(8 * kMiB));
}

TEST_F(Ring, GrowsAtOnceForABlockThatFitsNoSegment) {
  pinning = std::chrono::milliseconds(10);
  open(1024 * kMiB);
  auto small = ring_.reserve(kMiB);
  ASSERT_TRUE(small);
  auto large = ring_.reserve(kFirstSegment + kMiB);
  ASSERT_TRUE(large);
  EXPECT_EQ(pins, 2);
  EXPECT_EQ(waits, 0);
  EXPECT_FALSE(ring_.reserve(1025 * kMiB));
}

}  // namespace
}  // namespace msda::record
