// What launches write is learnt from what their first ones changed, and equally in equal runs.
#include "recorder/preload/trail/written_parts.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "recorder/device/kernel_names.h"

namespace msda::record {
namespace {

// Parameters of an address and then of these words.
LaunchWords words_with(const std::vector<uint64_t>& scalars) {
  std::vector<uint64_t> words{spool::TrailRow::kAddress};
  words.insert(words.end(), scalars.begin(), scalars.end());
  LaunchWords launch;
  launch.bytes.resize(8 * words.size());
  std::memcpy(launch.bytes.data(), words.data(), launch.bytes.size());
  launch.pointers.push_back({0, 0x7000, {}});
  return launch;
}

// Bytes that a launch changed behind the address.
struct Changed {
  uint64_t begin = 0, end = 0, count = 0;
  bool has_addresses = false;
  uint64_t compared = 1 << 20;
};
Changed all_of(uint64_t end) { return {0, end, end, false, 1 << 20}; }

std::shared_ptr<LearntLaunch> found(uint64_t row, const Changed& changed) {
  auto launch = std::make_shared<LearntLaunch>();
  launch->row = row;
  launch->pointers = {0};
  launch->cut = {changed.compared};
  FoundInPiece piece;
  if (changed.count > 0) {
    piece.complement_of_begin = ~changed.begin;
    piece.end = changed.end;
    piece.changed = changed.count;
    piece.units_and_addresses = (changed.end - changed.begin + 15) / 16 | uint64_t{changed.has_addresses} << 63;
  }
  launch->found = {piece};
  return launch;
}

// A trail of launches of one function, whose rows are printed as their parts: "?" where a launch is learnt from.
class Launches {
 public:
  std::string next(const LaunchWords& words, const Changed& changed) {
    LaunchVariant& variant = known_.variant_of(words, row_);
    const WrittenParts* const parts = variant.parts_for(row_);
    if (parts == nullptr) variant.learn(found(row_, changed));
    ++row_;
    return parts == nullptr ? "?" : text_of(*parts);
  }
  std::string next(const std::vector<uint64_t>& scalars, const Changed& changed) {
    return next(words_with(scalars), changed);
  }
  void skip(uint64_t rows) { row_ += rows; }
  uint64_t bytes_to_compare(const std::vector<uint64_t>& scalars) {
    return known_.variant_of(words_with(scalars), row_).bytes_to_compare();
  }

 private:
  FunctionLaunches known_;
  uint64_t row_ = 0;
};

TEST(WrittenParts, AreKnownSoManyRowsAfterTheFirstLaunch) {
  Launches launches;
  for (int row = 0; row < 64; ++row) EXPECT_EQ(launches.next({5}, all_of(100)), "?") << row;
  EXPECT_EQ(launches.next({5}, all_of(100)), "0+0:100");
}

TEST(WrittenParts, AreThoseOfAllLaunchesThatWereLearntFrom) {
  Launches launches;
  launches.next({5}, {40, 50, 10});
  launches.next({5}, {20, 44, 24});
  launches.skip(64);
  EXPECT_EQ(launches.next({5}, all_of(100)), "0+20:52");
}

// A launch that changed nothing found what it wrote in memory: several of them are looked at.
TEST(WrittenParts, NothingChangedIsNotBelievedAtOnce) {
  Launches launches;
  launches.next({5}, {});
  launches.skip(64);
  EXPECT_EQ(launches.next({5}, {64, 72, 8}), "?");
  launches.skip(64);
  EXPECT_EQ(launches.next({5}, {64, 72, 8}), "0+64:72");
}

TEST(WrittenParts, LaterLaunchesAreLookedAtEverMoreSeldom) {
  Launches launches;
  launches.next({5}, all_of(16));
  launches.skip(64);
  std::vector<int> looked;
  for (int i = 1; i < 300; ++i) {
    if (launches.next({5}, all_of(16)) == "?") looked.push_back(i);
  }
  EXPECT_EQ(looked, (std::vector<int>{16, 256}));
}

TEST(WrittenParts, AddressesThatAreWrittenMakeEachLaunchBeCompared) {
  Launches launches;
  launches.next({5}, {0, 8, 8, true});
  launches.skip(1000);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(launches.next({5}, {0, 8, 8, true}), "?");
}

TEST(WrittenParts, ALaunchThatWritesUpToWhereTheComparisonEndsIsComparedFurther) {
  Launches launches;
  EXPECT_EQ(launches.bytes_to_compare({5}), 1u << 20);
  launches.next({5}, all_of(1 << 20));
  launches.skip(64);
  EXPECT_EQ(launches.next({5}, {0, 5'000'000, 5'000'000, false, 8 << 20}), "?");
  EXPECT_EQ(launches.bytes_to_compare({5}), 8u << 20);
  launches.skip(64);
  EXPECT_EQ(launches.next({5}, {}), "0+0:5000000");
  Launches with_equal_ends;  // whose last bytes were the same before
  with_equal_ends.next({5}, {0, (1 << 20) - 3, 1 << 18, false, 1 << 20});
  with_equal_ends.skip(64);
  EXPECT_EQ(with_equal_ends.bytes_to_compare({5}), 1u << 20);
  EXPECT_EQ(with_equal_ends.next({5}, {}), "?");
  EXPECT_EQ(with_equal_ends.bytes_to_compare({5}), 8u << 20);
}

// PyTorch's fill has its size and its value in the halves of one word.
TEST(WrittenParts, AValueThatIsIndifferentLeavesTheSizeBesideIt) {
  const auto fill = [](uint32_t size, float value) {
    return std::vector<uint64_t>{size | uint64_t{std::bit_cast<uint32_t>(value)} << 32};
  };
  Launches launches;
  launches.next(fill(1, 1.5F), all_of(4));
  launches.next(fill(1, 0.5F), all_of(4));
  launches.skip(64);
  EXPECT_EQ(launches.next(fill(1, 1024), all_of(4)), "0+0:4");
  EXPECT_EQ(launches.next(fill(512, 1024), all_of(2048)), "?");
  launches.skip(64);
  EXPECT_EQ(launches.next(fill(512, 1024), all_of(2048)), "0+0:2048");
  EXPECT_EQ(launches.next(fill(1, 2048), all_of(4)), "0+0:4");
}

// A number that decides nothing, as a seed: its launches are of one kind. One that is a size: they are not.
TEST(WrittenParts, NumbersThatDecideNothingAreFound) {
  Launches launches;
  launches.next({5, 0x1111'2222'3333'4444}, all_of(100));
  launches.next({5, 0x5555'6666'7777'8888}, all_of(100));
  launches.skip(64);
  EXPECT_EQ(launches.next({5, 0x9999'AAAA'BBBB'CCCC}, all_of(100)), "0+0:100");
  EXPECT_EQ(launches.next({6, 0x9999'AAAA'BBBB'CCCC}, all_of(200)), "?");
}

// The last bytes of a number may be those that were there before.
TEST(WrittenParts, LaunchesAreJoinedThoughTheyDidNotChangeTheSameBytes) {
  Launches launches;
  launches.next({5, 0x1111'2222'3333'4444}, {3, 98, 90});
  launches.next({5, 0x5555'6666'7777'8888}, {2, 99, 90});
  launches.skip(64);
  EXPECT_EQ(launches.next({5, 0x9999'AAAA'BBBB'CCCC}, {1, 97, 90}), "0+0:100");
  EXPECT_EQ(launches.next({6, 0x9999'AAAA'BBBB'CCCC}, {1, 97, 90}), "?");
}

// The first number or the last one may have stayed as it was, and is of the kind's parts.
TEST(WrittenParts, LaunchesOfAKindWriteWhatAnyOfThemWrote) {
  Launches launches;
  launches.next({5, 0x1111'2222'3333'4444}, {0, 84, 84});
  launches.next({5, 0x5555'6666'7777'8888}, {8, 92, 84});
  launches.skip(64);
  EXPECT_EQ(launches.next({5, 0x9999'AAAA'BBBB'CCCC}, {}), "0+0:92");
  EXPECT_EQ(launches.next({5, 0x1111'2222'3333'4444}, {}), "0+0:92");
}

// Launches that were learnt from in rows 0, 1, ..., each with this word; then another one, by which they are joined.
class Kind {
 public:
  Kind(const std::vector<std::pair<uint64_t, Changed>>& launches) {
    uint64_t row = 0;
    for (const auto& [word, changed] : launches) {
      LaunchVariant& variant = known.variant_of(words_with({word}), row);
      if (variant.parts_for(row) == nullptr) variant.learn(found(row, changed));
      ++row;
    }
    variant_ = &known.variant_of(words_with({0x7777'2222'3333'4444}), row + 64);
  }
  bool is_found(uint64_t word) const {
    const LaunchVariant* const kind = known.kind_of(words_with({word}).bytes);
    return kind != nullptr && kind == variant_;
  }
  ChangedWords changes(uint64_t word) const { return FunctionLaunches::changes_of(*variant_, words_with({word})); }

  FunctionLaunches known;

 private:
  LaunchVariant* variant_ = nullptr;
};

TEST(WrittenParts, KindsAreFoundUnlessLaunchesLikeTheirsWroteOtherParts) {
  const std::vector<std::pair<uint64_t, Changed>> equal{{0x1111'2222'3333'4444, all_of(100)},
                                                        {0x5555'2222'3333'4444, all_of(100)}};
  const Kind kind(equal);
  EXPECT_TRUE(kind.is_found(0x9999'2222'3333'4444));
  EXPECT_FALSE(kind.is_found(0x9999'2222'3333'4445));  // a half that was always the same
  for (const size_t at : {0, 1, 2}) {
    auto launches = equal;
    launches.insert(launches.begin() + static_cast<ptrdiff_t>(at), {0x6666'2222'3333'4444, all_of(200)});
    EXPECT_FALSE(Kind(launches).is_found(0x9999'2222'3333'4444)) << at;
  }
}

// A word that decides nothing and is an address in some launches alone is no parameter.
TEST(WrittenParts, WordsInUnusedPlacesAreNoChanges) {
  std::vector<std::pair<uint64_t, Changed>> launches{{0x4242'4242'4242'0000, all_of(48)}};
  for (uint64_t i = 1; i < 20; ++i) launches.push_back({i << 40 | i << 8, all_of(48)});
  const uint64_t number = 0x9999'2222'3333'4444;
  const Kind used(launches);
  EXPECT_EQ(used.changes(number), (ChangedWords{{8, number}}));
  Kind unused(launches);
  ASSERT_NE(unused.known.variant_of(words_with({spool::TrailRow::kAddress}), 200).bytes,
            words_with({spool::TrailRow::kAddress}).bytes);
  EXPECT_TRUE(unused.changes(number).empty());
}

// Where the words that differ may be sizes, the numbers that were written have to be the same.
TEST(WrittenParts, SizesThatEndInOneUnitAreNotIndifferent) {
  Launches launches;
  for (const uint64_t size : {1, 2, 3, 4}) launches.next({size}, all_of(4 * size));
  launches.skip(64);
  EXPECT_EQ(launches.next({64}, all_of(256)), "?");
}

// What launches wrote is compared by units of 16 bytes.
TEST(WrittenParts, LaunchesThatChangedOtherUnitsAreNotJoined) {
  Launches launches;
  launches.next({5, 0x1111'2222'3333'4444}, {0, 96, 90});
  launches.next({5, 0x5555'6666'7777'8888}, {0, 97, 90});
  launches.skip(64);
  EXPECT_EQ(launches.next({5, 0x9999'AAAA'BBBB'CCCC}, {0, 96, 90}), "?");
}

// Two launches of other sizes changed as much, as the rest was in memory before: a later, larger one is digested whole.
TEST(WrittenParts, ANumberThatMayBeASizeIsNotIndifferent) {
  Launches launches;
  launches.next({64}, {0, 48, 20});
  launches.next({128}, {0, 48, 20});
  launches.skip(64);
  EXPECT_EQ(launches.next({4096}, all_of(4096)), "?");
}

// Unused places of a structure hold what was on the stack, which may look like a size: three others show it.
TEST(WrittenParts, AWordThatManyLaunchesDifferInIsIndifferentThoughItMayBeASize) {
  Launches launches;
  for (const uint64_t stale : {64, 128, 192}) launches.next({7, stale}, {0, 48, 20});
  launches.skip(64);
  EXPECT_EQ(launches.next({7, 256}, {0, 48, 20}), "?");
  launches.skip(64);
  EXPECT_EQ(launches.next({7, 4096}, {0, 48, 20}), "0+0:48");
  EXPECT_EQ(launches.next({8, 4096}, {0, 48, 20}), "?");
}

// Or that hold one of two values each, so that no launch has the words of an earlier one.
TEST(WrittenParts, WordsThatHoldOneOfTwoValuesAreIndifferentOnceLaunchesOfManyCombinationsWroteTheSame) {
  Launches launches;
  std::mt19937 random(1);
  const auto next = [&] {
    std::vector<uint64_t> words;
    for (int i = 0; i < 24; ++i) words.push_back(random() % 2 == 0 ? 128 : 64);
    launches.skip(64);
    return launches.next(words, {0, 48, 20});
  };
  for (int i = 0; i < 10; ++i) EXPECT_EQ(next(), "?");
  for (int i = 10; i < 60; ++i) next();
  for (int i = 60; i < 70; ++i) EXPECT_EQ(next(), "0+0:48");
}

// Or like an address: in three other launches.
TEST(WrittenParts, AWordThatIsAnAddressInSomeLaunchesMayBeIndifferent) {
  Launches launches;
  const auto words = [](uint64_t stale, uint64_t size) { return std::vector<uint64_t>{size, stale, 7}; };
  launches.next(words(0x4242'4242'4242'0000, 64), all_of(48));
  for (const uint64_t size : {65, 66}) launches.next(words(spool::TrailRow::kAddress, size), all_of(48));
  launches.skip(64);
  EXPECT_EQ(launches.next(words(spool::TrailRow::kAddress, 64), all_of(48)), "?");
  launches.skip(64);
  EXPECT_EQ(launches.next(words(0x4242'4242'4242'0000, 67), all_of(48)), "?");
  launches.skip(64);
  EXPECT_EQ(launches.next(words(spool::TrailRow::kAddress, 68), all_of(48)), "0+0:48");
}

TEST(WrittenParts, LaunchesThatWriteMuchAreJoinedAsWell) {
  Launches launches;
  launches.next({7, 0x1111'2222'3333'4444}, all_of(1 << 20));
  launches.skip(64);
  launches.next({7, 0x2222'2222'3333'4444}, {0, 5'000'000, 5'000'000, false, 8 << 20});
  launches.next({7, 0x3333'2222'3333'4444}, {0, 5'000'000, 5'000'000, false, 8 << 20});
  EXPECT_EQ(launches.bytes_to_compare({7, 0x4444'2222'3333'4444}), 8u << 20);
  launches.skip(64);
  EXPECT_EQ(launches.next({7, 0x5555'2222'3333'4444}, {}), "0+0:5000000");
}

// What decided nothing about launches of one dimension may be the stride of those of two.
TEST(WrittenParts, WordsAreIndifferentOnlyWhileTheOthersAreEqual) {
  const uint64_t kGarbage = uint64_t{0x7001} << 48;
  Launches launches;
  launches.next({1, kGarbage}, all_of(100));
  launches.next({1, 3 * kGarbage}, all_of(100));
  launches.skip(64);
  EXPECT_EQ(launches.next({1, 5 * kGarbage}, all_of(100)), "0+0:100");
  launches.next({2, kGarbage}, all_of(200));
  launches.skip(64);
  EXPECT_EQ(launches.next({2, 3 * kGarbage}, all_of(400)), "?");
}

// Names of kernels that torch 2.11 has; the last is of a product of matrices.
TEST(RandomNumbers, AreToldByNamesOfKernels) {
  EXPECT_TRUE(draws_random_numbers("_ZN2at6native43_GLOBAL__N__24fused_dropout_kernel_vecIffjLi1ELi4EbEEv"));
  EXPECT_TRUE(draws_random_numbers("at::native::distribution_elementwise_grid_stride_kernel<float, 4>"));
  EXPECT_FALSE(draws_random_numbers("cutlass::gemm::threadblock::DefaultMmaCore<OperandA, operand_b>"));
}

// Random numbers have a seed and a place, which may be small; sizes stand in more words.
TEST(WrittenParts, APlaceOfRandomNumbersIsIndifferent) {
  FunctionLaunches random(/*draws_random_numbers=*/true);
  const auto launch = [&](const std::vector<uint64_t>& scalars, uint64_t row, uint64_t end) {
    LaunchVariant& variant = random.variant_of(words_with(scalars), row);
    const WrittenParts* const parts = variant.parts_for(row);
    if (parts == nullptr) variant.learn(found(row, all_of(end)));
    return parts == nullptr ? std::string("?") : text_of(*parts);
  };
  launch({1000, 1000, 1000, 1000, 42, 0}, 0, 400);
  launch({1000, 1000, 1000, 1000, 42, 4}, 1, 400);
  EXPECT_EQ(launch({1000, 1000, 1000, 1000, 42, 8}, 100, 400), "0+0:400");
  launch({1001, 1001, 1001, 1001, 42, 12}, 101, 400);
  EXPECT_EQ(launch({2000, 2000, 2000, 2000, 42, 16}, 300, 800), "?");
}

// As of graphs of one key with more or fewer copies.
TEST(WrittenParts, ParametersOfSeveralSizes) {
  Launches launches;
  launches.next({1}, all_of(16));
  launches.next(std::vector<uint64_t>(2000, uint64_t{1} << 60), all_of(16));
  std::vector<uint64_t> others(2000, uint64_t{1} << 60);
  others.back() = uint64_t{1} << 61;
  launches.next(others, all_of(16));
  launches.skip(64);
  others.back() = uint64_t{1} << 62;
  EXPECT_EQ(launches.next(others, all_of(16)), "0+0:16");
}

// A launch that never ends: it is waited for once, and the others are compared as a whole.
TEST(WrittenParts, WhatNeverEndsIsWaitedForWithinBounds) {
  FunctionLaunches known;
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t row = 0; row < 100; ++row) {
    LaunchVariant& variant = known.variant_of(words_with({row << 40}), 2 * row);
    auto launch = std::make_shared<LearntLaunch>();
    launch->row = 2 * row;
    if (variant.parts_for(2 * row) == nullptr) variant.learn(launch);
  }
  for (uint64_t row = 200; row < 300; ++row) {
    LaunchVariant& variant = known.variant_of(words_with({(row - 200) << 40}), row);
    EXPECT_EQ(variant.parts_for(row), nullptr);
    variant.learn(std::make_shared<LearntLaunch>());
    EXPECT_EQ(variant.parts_for(row + 1000), nullptr);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
}

TEST(WrittenParts, EqualHistoriesGiveEqualDecisions) {
  const auto decisions = [](unsigned seed) {
    std::mt19937 random(seed);
    Launches launches;
    std::string all;
    for (int i = 0; i < 3000; ++i) {
      const std::vector<uint64_t> scalars{random() % 4, uint64_t{random() % 100} << 32,
                                          random() % 2 ? 7 : uint64_t{random()} << 33};
      const uint64_t begin = random() % 3 * 16, end = begin + 16 * (scalars[0] + 1);
      const Changed changed{begin, end, random() % 5 ? end - begin : 0};
      all += launches.next(scalars, changed) + "\n";
    }
    return all;
  };
  for (const unsigned seed : {1u, 2u, 3u}) EXPECT_EQ(decisions(seed), decisions(seed));
  EXPECT_NE(decisions(1), decisions(2));
}

}  // namespace
}  // namespace msda::record
