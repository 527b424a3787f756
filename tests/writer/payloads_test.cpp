// Which tensors of held calls stay in the memory shared with the target.
#include "recorder/writer/payloads.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "recorder/spool/appender.h"
#include "tests/support/in_a_folder.h"

namespace msda::tests {
namespace {

using namespace msda::spool;
using record::Item;
using record::Payloads;

class PayloadsTest : public InAFolder {
 protected:
  static constexpr uint64_t kBlockBytes = 4096;

  void SetUp() override {
    ASSERT_EQ(spool_.open(folder_ / "a.spool"), 0);
    follower_.emplace(folder_ / "a.spool");
    file_ = memfd_create("payloads", MFD_CLOEXEC);
  }
  void TearDown() override {
    payloads_.reset();
    munmap(memory_, kMostBytes);
  }

  // As the target does: the header, and blocks that hold their own number.
  void share(uint64_t most_bytes, uint32_t blocks) {
    resize(blocks);
    memory_ = static_cast<std::byte*>(mmap(nullptr, kMostBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0));
    ASSERT_NE(memory_, MAP_FAILED);
    header().most_bytes = most_bytes;
    fill(0, blocks);
    payloads_.emplace(*follower_, dup(file_), /*release=*/true);
  }
  void resize(uint32_t blocks) { ASSERT_EQ(ftruncate(file_, RingHeader::kBytes + blocks * kBlockBytes), 0); }
  void fill(uint32_t begin, uint32_t end) {
    for (uint32_t block = begin; block < end; ++block) {
      header().taken[block] = 1;
      std::memset(memory_ + RingHeader::kBytes + block * kBlockBytes, static_cast<int>(block), kBlockBytes);
    }
  }
  Item item_in(uint32_t block) {
    Item item;
    item.tensor.description = {"x", kernels::kUInt8, {static_cast<int64_t>(kBlockBytes)}, {}};
    item.tensor.block = block;
    item.tensor.offset = RingHeader::kBytes + block * kBlockBytes;
    item.tensor.bytes = kBlockBytes;
    payloads_->use(item);
    return item;
  }
  void expect_holds(const Item& item, uint32_t block) {
    std::vector<std::byte> memory;
    const auto bytes = payloads_->bytes(item, memory);
    EXPECT_TRUE(std::ranges::all_of(bytes, [&](std::byte byte) { return byte == static_cast<std::byte>(block); }));
    EXPECT_EQ(bytes.size(), kBlockBytes);
  }
  RingHeader& header() { return *reinterpret_cast<RingHeader*>(memory_); }

  static constexpr uint64_t kMostBytes = RingHeader::kBytes + 2048 * kBlockBytes;
  Appender spool_;
  std::optional<Follower> follower_;
  int file_ = -1;
  std::byte* memory_ = nullptr;
  std::optional<Payloads> payloads_;
};

TEST_F(PayloadsTest, KeepsNoMoreThanAQuarterOfTheSharedMemory) {
  share(12 * kBlockBytes, 6);
  std::vector<std::vector<Item>> calls;
  for (uint32_t block = 0; block < 6; ++block) {
    calls.push_back({item_in(block)});
    payloads_->keep(calls.back());
    EXPECT_EQ(header().taken[block], block < 3 ? 1U : 0U) << block;
    expect_holds(calls.back()[0], block);
  }
  payloads_->release(calls[1][0]);
  EXPECT_EQ(header().taken[1], 0U);
  header().taken[1] = 1;
  std::vector<Item> later{item_in(1)};
  payloads_->keep(later);
  EXPECT_EQ(header().taken[1], 1U);  // one has left its room
}

// One tensor that stayed would hold the block of those that did not.
TEST_F(PayloadsTest, KeepsABlockForAllOfItsTensorsOrNone) {
  share(4 * kBlockBytes, 2);
  std::vector<Item> call{item_in(0), item_in(0), item_in(1)};
  payloads_->keep(call);
  EXPECT_EQ(header().taken[0], 0U);
  EXPECT_EQ(header().taken[1], 1U);
  for (const uint32_t i : {0U, 1U, 2U}) expect_holds(call[i], i / 2);
}

TEST_F(PayloadsTest, KeepsNoMoreThanHalfOfTheBlocks) {
  constexpr uint32_t kHalf = RingHeader::kBlocks / 2;
  share(uint64_t{1} << 30, kHalf + 1);
  for (uint32_t block = 0; block <= kHalf; ++block) {
    std::vector<Item> call{item_in(block)};
    payloads_->keep(call);
    EXPECT_EQ(header().taken[block], block < kHalf ? 1U : 0U) << block;
  }
}

TEST_F(PayloadsTest, BytesStayWhereTheyAreWhenTheMemoryGrows) {
  share(kMostBytes, 1);
  const Item first = item_in(0);
  std::vector<std::byte> memory;
  const auto bytes = payloads_->bytes(first, memory);
  resize(1000);
  fill(1, 1000);
  expect_holds(item_in(999), 999);
  EXPECT_EQ(payloads_->bytes(first, memory).data(), bytes.data());
  expect_holds(first, 0);
  EXPECT_THROW(expect_holds(item_in(1000), 1000 & 0xff), Error);
}

}  // namespace
}  // namespace msda::tests
