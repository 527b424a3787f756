// A launch is remembered for as long as what was found out about it holds, and no longer.
#include "recorder/preload/trail/launch_memo.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace msda::record {
namespace {

constexpr uint64_t kFirst = 0x200000000, kSecond = 0x300000000, kBytes = 0x1000;

// A kernel of an address, of a word that it does not read, and of a number.
class LaunchMemoTest : public testing::Test {
 protected:
  LaunchMemoTest() {
    layout_.kernel = "kernel";
    layout_.parameters = {{0, 8}, {8, 8}, {16, 4}};
    is_read_.resize(20, std::byte{0xFF});
    for (size_t i = 8; i < 16; ++i) is_read_[i] = std::byte{0};
    allocate(kFirst);
  }

  // Memory of the host: of other memory a driver would be asked for the device.
  void allocate(uint64_t address, bool is_of_host = true, bool is_fresh = false) {
    memory_.allocated({address, kBytes}, is_of_host, is_fresh, /*is_mapped=*/true);
  }

  std::shared_ptr<FoundLaunch> find(uint64_t address, uint64_t unread = 0, uint32_t number = 1, uint32_t grid = 1) {
    std::array<void*, 3> parameters{&address, &unread, &number};
    const Launched launched{nullptr, {grid, 1, 1}, {32, 1, 1}, 0, nullptr, parameters.data(), nullptr};
    memo_.enter(launched, layout_, is_read_, this);
    return memo_.find(version_of_words(memory_));
  }

  // The launch of the last find(), as a trail looks it up.
  std::shared_ptr<FoundLaunch> look_up() {
    const uint64_t version = version_of_words(memory_);
    const auto bytes = memo_.parameters();
    auto launch = std::make_shared<FoundLaunch>(words_of({bytes.begin(), bytes.end()}, memory_));
    launch->launches = &launches_;
    launch->variant = &launches_.variant_of(launch->words, row_);
    if (!launch->is_passing) memo_.keep(launch, version);
    return launch;
  }
  std::shared_ptr<FoundLaunch> remember(uint64_t address, uint64_t unread = 0, uint32_t number = 1) {
    find(address, unread, number);
    return look_up();
  }

  // What the last launch taught: it wrote 16 bytes.
  void learn(const FoundLaunch& launch) {
    auto learnt = std::make_shared<LearntLaunch>();
    learnt->row = row_;
    learnt->pointers = {0};
    learnt->cut = {0};
    FoundInPiece piece;
    piece.complement_of_begin = ~uint64_t{0};
    piece.end = piece.changed = 16;
    piece.units_and_addresses = 1;
    learnt->found = {piece};
    launch.variant->learn(learnt);
    ++row_;
  }

  Layout layout_;
  std::vector<std::byte> is_read_;
  MemoryMap memory_;
  FunctionLaunches launches_{/*draws_random_numbers=*/true};
  LaunchMemo memo_;
  uint64_t row_ = 0;
};

TEST_F(LaunchMemoTest, FindsEqualLaunchesAlone) {
  EXPECT_EQ(find(kFirst), nullptr);
  const auto launch = look_up();
  EXPECT_EQ(find(kFirst), launch);
  EXPECT_EQ(find(kFirst, /*unread=*/7), launch);
  EXPECT_EQ(find(kFirst + 16), nullptr);
  EXPECT_EQ(find(kFirst, 0, /*number=*/2), nullptr);
  EXPECT_EQ(find(kFirst, 0, 1, /*grid=*/2), nullptr);
  EXPECT_EQ(find(kFirst), launch);
}

TEST_F(LaunchMemoTest, FindsTheKernelsLastLaunch) {
  EXPECT_EQ(find(kFirst), nullptr);
  EXPECT_EQ(memo_.find_alike(version_of_words(memory_)).launch, nullptr);
  remember(kFirst);
  const auto last = remember(kFirst + 16);
  find(kFirst + 32);
  EXPECT_EQ(memo_.find_alike(version_of_words(memory_)).launch, last);
  find(kFirst, 0, 1, /*grid=*/2);
  EXPECT_EQ(memo_.find_alike(version_of_words(memory_)).launch, nullptr);
  allocate(kSecond);
  find(kFirst + 32);
  EXPECT_EQ(memo_.find_alike(version_of_words(memory_)).launch, nullptr);
}

// What an earlier launch spares must change nothing: words that became addresses, moved, or are none any more.
TEST_F(LaunchMemoTest, WordsAreTheSameWithAnEarlierLaunchAndWithout) {
  allocate(kSecond);
  const std::array<uint64_t, 6> values{0, 7, kFirst, kFirst + 64, kSecond, uint64_t{0xABCD'EF01} << 32};
  std::mt19937 random(1);
  const auto draw = [&](std::vector<std::byte> bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(bytes.data() + 8 * (random() % 12), &values[random() % values.size()], 8);
    }
    return bytes;
  };
  for (int i = 0; i < 200; ++i) {
    const auto before = draw(std::vector<std::byte>(100), 12), now = draw(before, i % 8);
    const LaunchWords earlier = words_of(before, memory_), plain = words_of(now, memory_);
    const LaunchWords spared = words_of(now, memory_, {before, &earlier});
    EXPECT_EQ(spared.bytes, plain.bytes);
    EXPECT_EQ(spared.place, plain.place);
    ASSERT_EQ(spared.pointers.size(), plain.pointers.size());
    for (size_t k = 0; k < plain.pointers.size(); ++k) {
      EXPECT_EQ(spared.pointers[k].offset, plain.pointers[k].offset);
      EXPECT_EQ(spared.pointers[k].address, plain.pointers[k].address);
      EXPECT_EQ(spared.pointers[k].region.address, plain.pointers[k].region.address);
    }
  }
}

TEST_F(LaunchMemoTest, MissingParametersAreNoZeros) {
  find(0, 0, 0);
  look_up();
  const Launched missing{nullptr, {1, 1, 1}, {32, 1, 1}, 0, nullptr, nullptr, nullptr};
  memo_.enter(missing, layout_, is_read_, this);
  EXPECT_TRUE(memo_.parameters().empty());
  EXPECT_EQ(memo_.find(version_of_words(memory_)), nullptr);
}

TEST_F(LaunchMemoTest, ForgetsWhereOtherMemoryMayLie) {
  auto launch = remember(kFirst);
  ASSERT_EQ(launch->words.pointers.size(), 1U);
  memory_.freed(kSecond);  // of which nobody knew
  EXPECT_EQ(find(kFirst), launch);

  memory_.freed(kFirst);
  EXPECT_EQ(find(kFirst), nullptr);
  EXPECT_TRUE(remember(kFirst)->words.pointers.empty());
  memory_.allocated({kFirst - kBytes, 2 * kBytes}, true, false, true);
  EXPECT_EQ(find(kFirst), nullptr);
  launch = remember(kFirst);
  EXPECT_EQ(launch->words.pointers.at(0).region.address, kFirst - kBytes);

  memory_.unmapped({kFirst - kBytes, 2 * kBytes});
  EXPECT_EQ(find(kFirst), nullptr);
  allocate(kFirst);
  launch = remember(kFirst);
  memory_.context_ends(nullptr);
  EXPECT_EQ(find(kFirst), nullptr);
}

TEST_F(LaunchMemoTest, FirstUseOfMemoryChangesNothingElse) {
  allocate(kSecond, true, /*is_fresh=*/true);
  const auto launch = remember(kSecond);
  EXPECT_TRUE(launch->words.pointers.at(0).region.is_fresh);
  EXPECT_TRUE(launch->has_notes);
  memory_.used(launch->words.pointers.at(0).region);
  EXPECT_EQ(find(kSecond), launch);
  memory_.freed(kSecond);
  allocate(kSecond, true, /*is_fresh=*/true);
  EXPECT_EQ(find(kSecond), nullptr);  // it is fresh again
}

TEST_F(LaunchMemoTest, IsNotSureOfMemoryThatNoDeviceHasYet) {
  allocate(kSecond, /*is_of_host=*/false);  // mapped, and no device may reach it so far
  find(kSecond);
  EXPECT_TRUE(look_up()->is_passing);
  EXPECT_EQ(find(kSecond), nullptr);
}

// What differs in many words hardly comes again; it is still the kernel's last launch.
TEST_F(LaunchMemoTest, ForgetsLaunchesThatAreUnlikeTheirVariant) {
  for (const size_t changes : {4U, 5U}) {
    find(kFirst);
    const uint64_t version = version_of_words(memory_);
    const auto bytes = memo_.parameters();
    auto launch = std::make_shared<FoundLaunch>(words_of({bytes.begin(), bytes.end()}, memory_));
    launch->launches = &launches_;
    launch->variant = &launches_.variant_of(launch->words, row_);
    launch->changes.resize(changes);
    memo_.keep(launch, version);
    EXPECT_EQ(find(kFirst) != nullptr, changes == 4);
    EXPECT_EQ(memo_.find_alike(version).launch, launch);
  }
}

TEST_F(LaunchMemoTest, ForgetsWhenVariantsAreJoined) {
  learn(*remember(kFirst, 0, 1));
  learn(*remember(kFirst, 0, 2));
  ASSERT_NE(find(kFirst, 0, 1), nullptr);
  ASSERT_NE(find(kFirst, 0, 2), nullptr);
  row_ += 100;
  remember(kFirst, 0, 3);  // the first that is neither: what the two have taught counts now
  EXPECT_EQ(find(kFirst, 0, 1), nullptr);
  EXPECT_EQ(find(kFirst, 0, 2), nullptr);
  const auto third = remember(kFirst, 0, 3);
  EXPECT_EQ(find(kFirst, 0, 3), third);
  EXPECT_EQ(remember(kFirst, 0, 4)->variant, third->variant);
}

// Words that decide nothing may have any value, and each time another one: such launches are found by their kind.
TEST_F(LaunchMemoTest, FindsLaunchesOfAKind) {
  allocate(kSecond);
  const auto find_of_kind = [this](uint64_t address, uint32_t number, uint32_t grid = 1) {
    EXPECT_EQ(find(address, 0, number, grid), nullptr);
    return memo_.find_of_kind(version_of_words(memory_));
  };
  learn(*remember(kFirst, 0, 1));
  learn(*remember(kFirst, 0, 2));
  row_ += 100;
  const auto third = remember(kFirst, 0, 3);
  EXPECT_EQ(find_of_kind(kFirst, 4), third);
  EXPECT_EQ(FunctionLaunches::changes_of(*third->variant, memo_.parameters(), memory_), (ChangedWords{{16, 4}}));
  EXPECT_EQ(find_of_kind(kFirst + 16, 4), nullptr);  // another address
  EXPECT_EQ(find_of_kind(kFirst, 4, /*grid=*/2), nullptr);
  const auto next = remember(kSecond, 0, 5);
  EXPECT_EQ(find_of_kind(kSecond, 6), next);
  EXPECT_EQ(find_of_kind(kFirst, 6), third);
  allocate(kSecond + kBytes);
  EXPECT_EQ(find_of_kind(kFirst, 7), nullptr);  // next memory may lie there
}

// Variants are forgotten when there are too many, and with them all that refers to them.
TEST_F(LaunchMemoTest, ForgetsWithTheVariants) {
  const auto launch = remember(kFirst);
  for (uint32_t number = 2; number <= 4095; ++number) remember(kFirst, 0, number);
  EXPECT_EQ(find(kFirst), launch);
  remember(kFirst, 0, 4096);
  EXPECT_EQ(find(kFirst), nullptr);
  EXPECT_NE(remember(kFirst)->variant, nullptr);
  EXPECT_EQ(find(kFirst, 0, 2), nullptr);
}

// It forgets what was not repeated among so many others, and nothing else.
TEST_F(LaunchMemoTest, IsBounded) {
  const auto remember_others = [this](uint32_t first) {
    for (uint64_t offset = 1; offset < kBytes; ++offset) {
      for (uint32_t number = first; number < first + 2; ++number) remember(kFirst + offset, 0, number);
    }
  };
  const auto launch = remember(kFirst);
  for (uint32_t number = 1; number <= 9; number += 2) {
    remember_others(number);
    EXPECT_EQ(find(kFirst), launch) << number;
  }
  for (uint32_t number = 11; number <= 17; number += 2) remember_others(number);
  EXPECT_EQ(find(kFirst), nullptr);
}

}  // namespace
}  // namespace msda::record
