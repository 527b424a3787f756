// Which work of other streams is ordered before a stream's next, by events, waits of the host, and the default stream.
#include "recorder/preload/trail/stream_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace msda::record {
namespace {

cuda::Stream stream(uintptr_t handle) { return reinterpret_cast<cuda::Stream>(handle); }
cuda::Event event(uintptr_t handle) { return reinterpret_cast<cuda::Event>(handle); }

constexpr DeviceRange kMemory{0x1000, 0x100};

// Streams of the numbers 1 to 3 do not wait for the default stream, which has the number 0; 4 does.
class StreamOrderTest : public testing::Test {
 protected:
  StreamOrderTest() {
    for (const size_t number : {size_t{1}, size_t{2}, size_t{3}}) order.created(stream(0x10 * number), true);
    order.created(stream(0x40), false);
  }
  bool is_unordered(size_t number, const DeviceRange& range = kMemory) {
    order.begin(number == 0 ? nullptr : stream(0x10 * number), number);
    return order.is_unordered({&range, 1});
  }
  // Work on the stream that writes there; whether it is unordered.
  bool writes(size_t number, const DeviceRange& range = kMemory) {
    const bool unordered = is_unordered(number, range);
    order.writes({&range, 1});
    return unordered;
  }
  StreamOrder order;
};

TEST_F(StreamOrderTest, TwoStreamsAreNot) {
  EXPECT_FALSE(writes(1));
  EXPECT_TRUE(is_unordered(2));
  EXPECT_FALSE(is_unordered(1));
  EXPECT_FALSE(is_unordered(2, {0x1100, 16}));
  EXPECT_FALSE(is_unordered(2, {0xFF0, 16}));
  EXPECT_TRUE(is_unordered(2, {0x10FF, 16}));
}

TEST_F(StreamOrderTest, AnEventOrders) {
  writes(1);
  order.recorded(event(7), 1);
  order.waits(2, event(7));
  EXPECT_FALSE(is_unordered(2));
  EXPECT_TRUE(is_unordered(3));
  // What the first stream does later is not before the event.
  writes(1);
  EXPECT_TRUE(is_unordered(2));
}

TEST_F(StreamOrderTest, EventsOrderThroughOtherStreams) {
  writes(1);
  order.recorded(event(7), 1);
  order.waits(2, event(7));
  is_unordered(2);
  order.recorded(event(8), 2);
  order.waits(3, event(8));
  EXPECT_FALSE(is_unordered(3));
}

TEST_F(StreamOrderTest, AnEventThatIsRecordedAgainIsThatOfTheLastTime) {
  writes(1);
  order.recorded(event(7), 1);
  order.recorded(event(7), 3);
  order.waits(2, event(7));
  EXPECT_TRUE(is_unordered(2));
}

TEST_F(StreamOrderTest, WaitsOfTheHostOrder) {
  writes(1);
  order.host_waited(size_t{2});
  EXPECT_TRUE(is_unordered(2));
  order.host_waited(size_t{1});
  EXPECT_FALSE(is_unordered(2));
  writes(1);
  order.recorded(event(7), 1);
  writes(1, {0x5000, 16});
  order.host_waited(event(7));
  EXPECT_FALSE(is_unordered(2));
  EXPECT_TRUE(is_unordered(2, {0x5000, 16}));
  order.host_waited();
  EXPECT_FALSE(is_unordered(2, {0x5000, 16}));
}

TEST_F(StreamOrderTest, TheDefaultStreamWaitsForThoseThatWaitForIt) {
  writes(4);
  EXPECT_FALSE(is_unordered(0));
  writes(0, {0x5000, 16});
  EXPECT_FALSE(is_unordered(4, {0x5000, 16}));
  EXPECT_TRUE(is_unordered(1, {0x5000, 16}));
  writes(1, {0x7000, 16});
  EXPECT_TRUE(is_unordered(0, {0x7000, 16}));
}

TEST_F(StreamOrderTest, LaterWorkOfTheDefaultStreamIsNotBefore) {
  EXPECT_FALSE(is_unordered(4));
  writes(1);
  EXPECT_TRUE(writes(0));
  EXPECT_TRUE(is_unordered(1));
}

TEST_F(StreamOrderTest, OldWorkIsForgotten) {
  writes(1);
  for (int i = 0; i < 1000; ++i) writes(1, {0x100000 + 0x100 * static_cast<uint64_t>(i), 16});
  EXPECT_FALSE(is_unordered(2));
  EXPECT_TRUE(is_unordered(2, {0x100000 + 0x100 * 999, 16}));
}

}  // namespace
}  // namespace msda::record
