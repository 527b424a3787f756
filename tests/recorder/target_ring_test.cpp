#include "recorder/preload/session/target_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace msda::record {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kFirstSegment = 128 * kMiB;  // the smallest
constexpr uint64_t kPage = 4096;

long faults() {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  return used.ru_minflt;
}

// What the ring asked its owner for, and how it is answered.
std::atomic<int> spares;
std::atomic<bool> reads;
std::vector<uint64_t> pinned;     // bytes
std::vector<long> faults_to_pin;  // page faults, by which the kernel maps pages that are not yet mapped

// Touches all pages, as the driver does. Sanitizers would touch their own memory at each, too.
__attribute__((no_sanitize_address, no_sanitize_thread)) long faults_of_touching(void* memory, uint64_t bytes) {
  const long before = faults();
  auto* touched = static_cast<volatile unsigned char*>(memory);
  for (uint64_t at = 0; at < bytes; at += kPage) touched[at] = 1;
  return faults() - before;
}

void pin(void* memory, uint64_t bytes) {
  faults_to_pin.push_back(faults_of_touching(memory, bytes));
  pinned.push_back(bytes);
}

class Ring : public testing::Test {
 protected:
  void SetUp() override {
    spares = 0;
    reads = true;
    pinned.clear();
    faults_to_pin.clear();
  }
  void TearDown() override { ring_.close(); }
  void open(uint64_t most) {
    ASSERT_TRUE(
        ring_.open(most, {pin, [](void*) {}, []() noexcept { ++spares; }, []() noexcept { return reads.load(); }}));
  }
  std::vector<RingBlock> reserve(int count, uint64_t bytes) {
    std::vector<RingBlock> blocks;
    for (int i = 0; i < count; ++i) {
      auto block = ring_.reserve(bytes, why_);
      if (!block) break;
      std::memset(block->memory(), i, bytes);
      blocks.push_back(*std::move(block));
    }
    return blocks;
  }
  TargetRing ring_;
  std::string why_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

TEST_F(Ring, GrowsToItsLimitAndThenAsksForWhatCanBeSpared) {
  open(512 * kMiB);
  std::vector<RingBlock> held = reserve(64, 8 * kMiB);  // calls that are kept, for example
  ASSERT_EQ(held.size(), 64U);
  EXPECT_EQ(pinned, (std::vector<uint64_t>{128 * kMiB, 128 * kMiB, 256 * kMiB}));
  EXPECT_EQ(spares, 0);
  for (size_t i = 0; i < held.size(); ++i) EXPECT_EQ(std::to_integer<size_t>(held[i].memory()[8 * kMiB - 1]), i);
  EXPECT_EQ(ring_.missing().missing, 0U);
  reads = false;
  EXPECT_FALSE(ring_.reserve(8 * kMiB, why_));
  EXPECT_EQ(spares, 1);
  EXPECT_THAT(ring_.missing().description(), testing::StartsWith("1 of 65 launches are missing: the writer had ended"));
  held.clear();
  EXPECT_TRUE(ring_.reserve(8 * kMiB, why_));
}

// The pages of the first segment are mapped when it is pinned; those of the others before.
TEST_F(Ring, PreparesTheNextSegmentBeforeItIsNeeded) {
  open(512 * kMiB);
  const std::vector<RingBlock> held = reserve(64, 8 * kMiB);
  ASSERT_EQ(faults_to_pin.size(), 3U);
  const auto pages = [](size_t segment) { return static_cast<long>(pinned[segment] / kPage); };
  EXPECT_GT(faults_to_pin[0], pages(0) / 2);
  EXPECT_LT(faults_to_pin[1], pages(1) / 4);
  EXPECT_LT(faults_to_pin[2], pages(2) / 4);
}

TEST_F(Ring, GrowsForABlockThatFitsNoSegment) {
  open(1024 * kMiB);
  const std::vector<RingBlock> small = reserve(1, kMiB), large = reserve(1, kFirstSegment + kMiB);
  EXPECT_EQ(large.size(), 1U);
  EXPECT_EQ(pinned.size(), 2U);
  EXPECT_TRUE(reserve(1, 1025 * kMiB).empty());
}

TEST_F(Ring, ClosesWhileASegmentIsBeingPrepared) {
  open(4096 * kMiB);
  EXPECT_EQ(reserve(12, 8 * kMiB).size(), 12U);
  ring_.close();
}

// Blocks given back are used again: the ring does not grow.
TEST_F(Ring, UsesFreedBlocksAgain) {
  open(1024 * kMiB);
  for (int i = 0; i < 100; ++i) {
    const std::vector<RingBlock> blocks = reserve(4, 8 * kMiB);
    ASSERT_EQ(blocks.size(), 4U);
  }
  EXPECT_EQ(pinned.size(), 1U);
}

// A limit on file sizes, as the shell's ulimit sets it.
class FileSizesLimited {
 public:
  explicit FileSizesLimited(uint64_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lower{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &lower);
  }
  ~FileSizesLimited() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizesLimited(const FileSizesLimited&) = delete;
  FileSizesLimited& operator=(const FileSizesLimited&) = delete;

 private:
  rlimit before_{};
};

TEST_F(Ring, IsSmallerWhereTheProcessMayNotHaveMuch) {
  const FileSizesLimited limited(100 * kMiB);
  open(1024 * kMiB);
  const std::vector<RingBlock> held = reserve(8, 8 * kMiB);
  EXPECT_EQ(held.size(), 8U) << why_;
  EXPECT_EQ(pinned, std::vector<uint64_t>{64 * kMiB});
}

// Each wait is for blocks that somebody holds; without any, there is nothing to wait for. One patience is two seconds;
// one for each of these reservations would be an hour.
TEST_F(Ring, WaitsOnceForTheWholeProgram) {
  constexpr std::chrono::minutes kFarFromBoth{1};
  {
    const FileSizesLimited limited(10 * kMiB);
    open(256 * kMiB);
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(reserve(1, 12 * kMiB).empty());
    EXPECT_NE(why_.find("ulimit -f"), std::string::npos) << why_;
  }
  std::vector<RingBlock> held = reserve(40, 8 * kMiB);
  EXPECT_EQ(held.size(), 32U);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(reserve(1, 8 * kMiB).empty());
  EXPECT_NE(why_.find("which frees none"), std::string::npos) << why_;
  EXPECT_LT(std::chrono::steady_clock::now() - start_, kFarFromBoth);
  held.clear();
  EXPECT_EQ(reserve(32, 8 * kMiB).size(), 32U);
}

// A slow writer, of whose blocks a program takes each at once, as before it stood still.
TEST_F(Ring, RecordsOnWhenTheWriterReadsOn) {
  open(256 * kMiB);
  std::vector<RingBlock> held = reserve(33, 8 * kMiB);
  ASSERT_EQ(held.size(), 32U);
  std::atomic<size_t> reads_to{0};
  std::thread writer([&] {
    for (size_t i = 0; i < held.size(); ++i) {
      while (reads_to <= i) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      held[i].give_back();
    }
  });
  reads_to = 1;
  while (reserve(1, 8 * kMiB).empty()) {
  }
  std::vector<RingBlock> later;
  for (; reads_to < held.size(); ++reads_to) std::ranges::move(reserve(1, 8 * kMiB), std::back_inserter(later));
  writer.join();
  EXPECT_GE(later.size(), 30U) << why_;
}

}  // namespace
}  // namespace msda::record
