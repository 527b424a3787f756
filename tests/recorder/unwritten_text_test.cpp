// The text of unwritten bytes against a map of bytes.
#include "recorder/preload/survey/unwritten_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace msda::record {
namespace {

std::vector<bool> bytes_in(const std::string& text, const std::string& tensor, uint64_t all) {
  std::vector<bool> bytes(all);
  std::istringstream series(text);
  for (std::string entry; series >> entry;) {
    if (!entry.starts_with(tensor + "@")) continue;
    std::string digits = entry.substr(tensor.size() + 1);
    std::ranges::replace_if(
        digits, [](char c) { return c == ':' || c == '*' || c == '/'; }, ' ');
    std::istringstream numbers(digits);
    uint64_t offset = 0, size = 0, count = 1, stride = 0;
    numbers >> offset >> size;
    if (!(numbers >> count >> stride)) count = 1;
    for (uint64_t i = 0; i < count; ++i) {
      for (uint64_t at = offset + i * stride; at < offset + i * stride + size; ++at) {
        EXPECT_FALSE(bytes.at(at));
        bytes.at(at) = true;
      }
    }
  }
  return bytes;
}

Unwritten::Words words_of(const std::vector<bool>& is_unwritten) {
  Unwritten::Words words{is_unwritten.size(), 0, std::vector<uint32_t>(words_of_bits(is_unwritten.size()))};
  for (size_t i = 0; i < is_unwritten.size(); ++i) {
    words.count += is_unwritten[i];
    words.bits[i / 32] |= static_cast<uint32_t>(is_unwritten[i]) << i % 32;
  }
  return words;
}

TEST(UnwrittenText, NamesTheBytesOfTheTensorThatAreUnwritten) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::vector<bool> is_unwritten(1 + random() % 300);
    const uint64_t period = 1 + random() % 40, part = random() % 40;
    const bool is_random = random() % 2 == 0;
    for (size_t i = 0; i < is_unwritten.size(); ++i) {
      is_unwritten[i] = is_random ? random() % 3 == 0 : i % period < part;
    }
    const uint64_t all = 4 * is_unwritten.size() + random() % 4;
    const uint64_t begin = random() % all, end = begin + random() % (all - begin + 1);
    UnwrittenText text;
    text.add("inputs/memory_0", words_of(std::vector<bool>(7, true)), 0, 28);
    text.add("outputs/memory_1", words_of(is_unwritten), begin, end);
    std::vector<bool> expected(end - begin);
    for (uint64_t at = begin; at < end; ++at) {
      expected[at - begin] = at / 4 < is_unwritten.size() && is_unwritten[at / 4];
    }
    ASSERT_EQ(bytes_in(text.text(), "outputs/memory_1", end - begin), expected) << text.text();
    ASSERT_EQ(bytes_in(text.text(), "inputs/memory_0", 28), std::vector<bool>(28, true));
    ASSERT_EQ(text.bytes_left_out(), 0U);
  }
}

TEST(UnwrittenText, AllAndRowsAreShort) {
  UnwrittenText text;
  text.add("inputs/memory_0", {1'000'000, 1'000'000, {}}, 8, 4'000'000);
  std::vector<bool> rows(30'000);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = i % 30 >= 20;
  text.add("inputs/memory_1", words_of(rows), 0, 120'000);
  EXPECT_EQ(text.text(), "inputs/memory_0@0:3999992 inputs/memory_1@80:40*1000/120");
}

TEST(UnwrittenText, WhatHasNoRoomIsCounted) {
  std::mt19937 random(6);
  std::vector<bool> is_unwritten(100'000);
  for (size_t i = 0; i < is_unwritten.size(); ++i) is_unwritten[i] = random() % 2 == 0;
  const auto words = words_of(is_unwritten);
  UnwrittenText text;
  text.add("inputs/memory_0", words, 0, 400'000);
  const auto reported = bytes_in(text.text(), "inputs/memory_0", 400'000);
  const auto count = static_cast<uint64_t>(std::ranges::count(reported, true));
  EXPECT_LE(text.text().size(), size_t{16} << 10);
  EXPECT_GT(count, 1000U);
  EXPECT_EQ(count + text.bytes_left_out(), 4 * words.count);
  for (size_t at = 0; at < reported.size(); ++at) ASSERT_TRUE(!reported[at] || is_unwritten[at / 4]);
}

}  // namespace
}  // namespace msda::record
