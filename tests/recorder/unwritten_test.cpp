// Which words of memory nobody wrote, against a map of bytes.
#include "recorder/preload/survey/unwritten.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "recorder/preload/driver/copy_layout.h"

namespace msda::record {
namespace {

constexpr uint64_t kBase = 1 << 20;

uint64_t count_of(const Unwritten& memory, const DeviceRange& range) {
  const auto words = memory.words_of(range);
  return words ? words->count : 0;
}

// Whether nobody wrote the word of this number.
std::vector<bool> bits_of(const Unwritten& memory, const DeviceRange& range) {
  std::vector<bool> bits(range.bytes / 4);
  const auto words = memory.words_of(range);
  for (size_t i = 0; words && i < bits.size(); ++i) {
    bits[i] = words->bits.empty() || (words->bits[i / 32] >> i % 32 & 1) != 0;
  }
  return bits;
}

std::vector<bool> unwritten_words(const std::vector<bool>& is_byte_written) {
  std::vector<bool> bits(is_byte_written.size() / 4, true);
  for (size_t i = 0; i < 4 * bits.size(); ++i) bits[i / 4] = bits[i / 4] && !is_byte_written[i];
  return bits;
}

TEST(Unwritten, RandomWritesOverSeveralAllocations) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::vector<DeviceRange> ranges{{kBase, 1 + random() % 900}, {kBase + 1024, 1 + random() % 900}};
    std::vector<std::vector<bool>> written;
    Unwritten memory;
    for (const DeviceRange& range : ranges) {
      memory.allocated(range);
      written.emplace_back(range.bytes);
    }
    for (auto writes = random() % 6; writes > 0; --writes) {
      const uint64_t begin = kBase - 64 + random() % 2100, bytes = random() % 700;
      memory.written({begin, bytes});
      for (size_t i = 0; i < ranges.size(); ++i) {
        for (uint64_t at = 0; at < ranges[i].bytes; ++at) {
          if (ranges[i].address + at - begin < bytes) written[i][at] = true;
        }
      }
    }
    for (size_t i = 0; i < ranges.size(); ++i) {
      const auto expected = unwritten_words(written[i]);
      ASSERT_EQ(bits_of(memory, ranges[i]), expected);
      ASSERT_EQ(count_of(memory, ranges[i]), static_cast<uint64_t>(std::ranges::count(expected, true)));
    }
  }
}

TEST(Unwritten, MemoryThatIsAllocatedAgainHasNoWriter) {
  Unwritten memory;
  const DeviceRange range{kBase, 4096};
  memory.allocated(range);
  memory.written(range);
  EXPECT_FALSE(memory.words_of(range));
  memory.freed(range.address);
  memory.allocated(range);
  EXPECT_EQ(count_of(memory, range), 1024u);
  memory.freed(range.address);
  EXPECT_FALSE(memory.words_of(range));
  memory.allocated(range);
  memory.all_written();
  EXPECT_FALSE(memory.words_of(range));
}

TEST(Unwritten, SizesThatTheDriverRoundsUp) {
  Unwritten memory;
  memory.allocated({kBase, 1001});
  EXPECT_EQ(count_of(memory, {kBase, 1024}), 250u);  // whole words of what was asked for
  EXPECT_FALSE(memory.words_of({kBase, 1000}));
  EXPECT_FALSE(memory.words_of({kBase + 4, 1024}));
  memory.leave(kBase, {256, 3, {7, 0, 0, 0, 0, 0, 0, 0}});
  const auto words = memory.words_of({kBase, 1024});
  ASSERT_TRUE(words);
  EXPECT_EQ(words->all, 250u);
  EXPECT_EQ(words->count, 3u);
  memory.written({kBase + 4, 4});
  EXPECT_EQ(count_of(memory, {kBase, 1024}), 2u);
  memory.leave(kBase, {256, 2, {3, 0, 0, 0, 0, 0, 0, 0}});  // the second one was written meanwhile
  EXPECT_EQ(count_of(memory, {kBase, 1024}), 1u);
  memory.leave(kBase, {256, 0, {}});
  EXPECT_FALSE(memory.words_of({kBase, 1024}));
}

TEST(Unwritten, CopiesOfRowsAndBoxes) {
  const DeviceRange range{kBase, 6 * 5 * 64};
  cuda::CopyOfRows rows{};
  rows.to = {16, 2, cuda::MemoryType::kDevice, nullptr, kBase, nullptr, 64};
  rows.width = 24;
  rows.height = 3;
  cuda::CopyOfBox box{};
  box.to = {8, 1, 2, 0, cuda::MemoryType::kUnified, nullptr, kBase, nullptr, nullptr, 64, 5};
  box.width = 12;
  box.height = 2;
  box.depth = 3;
  std::vector<bool> by_rows(range.bytes), by_box(range.bytes);
  for (size_t at = 0; at < range.bytes; ++at) {
    const size_t x = at % 64, y = at / 64, of_layer = y % 5, z = y / 5;
    by_rows[at] = x >= 16 && x < 40 && y >= 2 && y < 5;
    by_box[at] = x >= 8 && x < 20 && of_layer >= 1 && of_layer < 3 && z >= 2 && z < 5;
  }
  Unwritten memory;
  memory.allocated(range);
  memory.copied(rows);
  EXPECT_EQ(bits_of(memory, range), unwritten_words(by_rows));
  memory.allocated(range);
  memory.copied(box);
  EXPECT_EQ(bits_of(memory, range), unwritten_words(by_box));
  memory.allocated(range);
  rows.to.type = cuda::MemoryType::kHost;
  memory.copied(rows);
  EXPECT_EQ(count_of(memory, range), range.bytes / 4);
}

}  // namespace
}  // namespace msda::record
