// The alignment of two sequences: what it pairs may be paired, and what was inserted is found.
#include "replay/diff/align.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace msda::replay {
namespace {

Sequence sequence_of(const std::vector<uint32_t>& tokens, const std::vector<uint64_t>& content) {
  return {tokens, tokens, content};
}

size_t paired(const std::vector<AlignedRun>& runs) {
  size_t count = 0;
  for (const AlignedRun& run : runs) count += run.count;
  return count;
}

// Ascending, within both, and of equal tokens.
void expect_sound(const std::vector<AlignedRun>& runs, const Sequence& a, const Sequence& b) {
  size_t end_a = 0, end_b = 0;
  for (const AlignedRun& run : runs) {
    EXPECT_GT(run.count, 0U);
    EXPECT_GE(run.a, end_a);
    EXPECT_GE(run.b, end_b);
    end_a = run.a + run.count;
    end_b = run.b + run.count;
    ASSERT_LE(end_a, a.size());
    ASSERT_LE(end_b, b.size());
    for (size_t i = 0; i < run.count; ++i) EXPECT_EQ(a.coarse[run.a + i], b.coarse[run.b + i]);
  }
}

TEST(Align, AnySequences) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    const auto draw = [&] {
      std::vector<uint32_t> tokens(random() % 60);
      std::vector<uint64_t> content;
      for (uint32_t& token : tokens) {
        token = static_cast<uint32_t>(random() % (1 + round % 9));
        content.push_back(random() % 5);
      }
      return sequence_of(tokens, content);
    };
    const Sequence a = draw(), b = draw();
    expect_sound(align(a, b), a, b);
  }
}

// Equal structure is paired one by one, whatever the results are: data may have come in another order.
TEST(Align, EqualStructure) {
  std::mt19937_64 random(7);
  std::vector<uint32_t> tokens;
  std::vector<uint64_t> content;
  for (uint32_t i = 0; i < 1000; ++i) {
    tokens.push_back(i % 10);
    content.push_back(i + 1);
  }
  auto another = content;
  std::ranges::shuffle(another, random);
  const auto runs = align(sequence_of(tokens, content), sequence_of(tokens, another));
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].count, tokens.size());
}

// Stretches are inserted on both sides, and replaced, with tokens of their own or of the loop: all others keep their
// partner.
TEST(Align, FindsWhatWasInserted) {
  std::mt19937_64 random(11);
  std::vector<uint32_t> tokens_a, tokens_b;
  std::vector<uint64_t> content_a, content_b;
  size_t common = 0;
  const auto add = [](auto& tokens, auto& content, uint32_t token, uint64_t given) {
    tokens.push_back(token);
    content.push_back(given);
  };
  for (uint32_t step = 0; step < 200; ++step) {
    for (uint32_t place = 0; place < 25; ++place, ++common) {
      const uint64_t result = 1000 * step + place + 1;
      add(tokens_a, content_a, place % 20, result);
      add(tokens_b, content_b, place % 20, result);
    }
    const auto more = static_cast<uint32_t>(random() % 4);
    for (uint32_t i = 0; i < more && step % 7 == 3; ++i) add(tokens_a, content_a, 100 + i, 0);
    for (uint32_t i = 0; i < more && step % 5 == 3; ++i) add(tokens_b, content_b, 200 + i, 0);
  }
  const Sequence a = sequence_of(tokens_a, content_a), b = sequence_of(tokens_b, content_b);
  ASSERT_GT(a.size(), common);
  ASSERT_GT(b.size(), common);
  const auto runs = align(a, b);
  expect_sound(runs, a, b);
  EXPECT_EQ(paired(runs), common);
  for (const AlignedRun& run : runs) {
    for (size_t i = 0; i < run.count; ++i) EXPECT_EQ(a.content[run.a + i], b.content[run.b + i]);
  }
}

}  // namespace
}  // namespace msda::replay
