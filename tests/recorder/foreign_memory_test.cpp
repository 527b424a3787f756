#include "recorder/preload/survey/foreign_memory.h"

#include <gtest/gtest.h>

namespace msda::record {
namespace {

TEST(ForeignMemory, KnowsWhatIsMappedFromSharedMemory) {
  ForeignMemory memory;
  memory.mapped({0x1000, 0x1000}, 7);
  memory.mapped({0x4000, 0x1000}, 8);
  EXPECT_FALSE(memory.has({0x1000, 0x1000}));
  memory.shared(7);
  EXPECT_TRUE(memory.has({0x1000, 0x1000}));
  EXPECT_FALSE(memory.has({0x4000, 0x1000}));
  memory.mapped({0x8000, 0x1000}, 7);  // once more, elsewhere
  EXPECT_TRUE(memory.has({0x8000, 0x1000}));
  memory.forget(0x1000);
  EXPECT_FALSE(memory.has({0x1000, 0x1000}));
  memory.mapped({0x1000, 0x1000}, 8);
  EXPECT_FALSE(memory.has({0x1000, 0x1000}));
}

TEST(ForeignMemory, PartsOfARangeMakeItForeign) {
  ForeignMemory memory;
  memory.shared(7);
  memory.mapped({0x2000, 0x1000}, 7);
  EXPECT_TRUE(memory.has({0x1000, 0x1001}));
  EXPECT_TRUE(memory.has({0x2FFF, 1}));
  EXPECT_TRUE(memory.has({0x1000, 0x9000}));
  EXPECT_FALSE(memory.has({0x1000, 0x1000}));
  EXPECT_FALSE(memory.has({0x3000, 0x1000}));
}

// There is no driver in this process, which would know the allocation.
TEST(ForeignMemory, NotesAnAddressThatTheDriverDoesNotKnow) {
  ForeignMemory memory;
  EXPECT_EQ(memory.note(0x5004).address, 0x5004u);
  EXPECT_TRUE(memory.has({0x5000, 0x100}));
  EXPECT_FALSE(memory.has({0x5005, 0x100}));
}

}  // namespace
}  // namespace msda::record
