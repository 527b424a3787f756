#include "recorder/preload/session/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/in_a_folder.h"

namespace msda::record {
namespace {

class MemoryLimit : public tests::InAFolder {
 protected:
  uint64_t found() const { return memory_limit(folder_ / "groups", folder_ / "mount"); }

  const uint64_t machine_ =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
};

TEST_F(MemoryLimit, IsTheMachinesWithoutGroups) {
  EXPECT_EQ(found(), machine_);
  write("groups", "0::/\n");
  write("mount/memory.max", "max\n");
  EXPECT_EQ(found(), machine_);
}

TEST_F(MemoryLimit, IsTheLeastOfTheGroupsAround) {
  write("groups", "0::/a.slice/b.scope\n");
  write("mount/a.slice/b.scope/memory.max", "max\n");
  write("mount/a.slice/memory.max", "50000000\n");
  EXPECT_EQ(found(), 50000000U);
  write("mount/a.slice/b.scope/memory.max", "40000000\n");
  EXPECT_EQ(found(), 40000000U);
}

// Its /proc names the group as the machine does; its mount begins at that group.
TEST_F(MemoryLimit, IsThatOfAContainer) {
  write("groups", "0::/docker/0123\n");
  write("mount/memory.max", "30000000\n");
  EXPECT_EQ(found(), 30000000U);
}

TEST_F(MemoryLimit, IsThatOfVersion1) {
  write("groups", "12:cpuset:/x\n5:cpu,memory:/y\n0::/\nnonsense\n:\n");
  write("mount/memory/y/memory.limit_in_bytes", "20000000\n");
  write("mount/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(found(), 20000000U);
}

TEST_F(MemoryLimit, IsKnownHere) { EXPECT_GT(memory_limit(), 0U); }

}  // namespace
}  // namespace msda::record
