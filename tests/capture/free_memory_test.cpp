#include "recorder/machine/free_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/in_a_folder.h"

namespace msda::machine {
namespace {

namespace fs = std::filesystem;

class FreeMemory : public tests::InAFolder {
 protected:
  std::optional<int64_t> found() const { return free_memory(folder_ / "proc", folder_ / "mount"); }
};

TEST_F(FreeMemory, IsTheMachinesWithoutGroups) {
  EXPECT_EQ(found(), std::nullopt);
  write("proc/meminfo", "MemTotal: 9000 kB\nMemFree: 1 kB\nMemAvailable:    5000 kB\nSwapFree: 300 kB\n");
  EXPECT_EQ(found(), 5300 * 1024);
  write("proc/self/cgroup", "0::/\n");
  write("mount/memory.max", "max\n");
  EXPECT_EQ(found(), 5300 * 1024);
}

TEST_F(FreeMemory, IsWhatItsGroupHasLeft) {
  write("proc/meminfo", "MemAvailable: 5000 kB\n");
  write("proc/self/cgroup", "0::/a.slice/b.scope\n");
  write("mount/a.slice/b.scope/memory.max", "1000000\n");
  EXPECT_EQ(found(), 1000000);
  write("mount/a.slice/b.scope/memory.current", "700000\n");
  EXPECT_EQ(found(), 300000);
  write("mount/a.slice/b.scope/memory.stat", "anon 500000\nfile 200000\nactive_file 80000\ninactive_file 120000\n");
  EXPECT_EQ(found(), 420000);
  write("mount/a.slice/b.scope/memory.current", "1700000\n");
  EXPECT_EQ(found(), 0);
}

TEST_F(FreeMemory, IsTheLeastOfTheGroupsAround) {
  write("proc/meminfo", "MemAvailable: 5000 kB\n");
  write("proc/self/cgroup", "0::/a.slice/b.scope\n");
  write("mount/a.slice/b.scope/memory.max", "1000000\n");
  write("mount/a.slice/memory.max", "2000000\n");
  write("mount/a.slice/memory.current", "1900000\n");
  EXPECT_EQ(found(), 100000);
  write("proc/meminfo", "MemAvailable: 50 kB\n");
  EXPECT_EQ(found(), 50 * 1024);
}

TEST_F(FreeMemory, IsWhatAGroupOfVersion1HasLeft) {
  write("proc/self/cgroup", "12:cpuset:/x\n5:cpu,memory:/y\n0::/\n");
  write("mount/memory/y/memory.limit_in_bytes", "1000000\n");
  write("mount/memory/y/memory.usage_in_bytes", "900000\n");
  write("mount/memory/y/memory.stat", "inactive_file 1\ntotal_inactive_file 50000\n");
  write("mount/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(found(), 150000);
}

TEST_F(FreeMemory, TakesNothingFromFilesThatMakeNoSense) {
  write("proc/meminfo", "MemAvailable: 5000 kB\n");
  write("proc/self/cgroup", std::string("nonsense\n:\n0::/\n\n0::\n1:memory:") + std::string(1, '\0') + "/../x\n");
  for (const char* limit : {"", "-1\n", "99999999999999999999\n", "x 7\n"}) {
    write("mount/memory.max", limit);
    EXPECT_EQ(found(), 5000 * 1024) << limit;
  }
  write("mount/memory.max", "1000000\n");
  for (const char* nonsense : {"", "-5\n", "x\n", "99999999999999999999\n", "inactive_file\n", "inactive_file -7\n"}) {
    write("mount/memory.current", nonsense);
    write("mount/memory.stat", nonsense);
    EXPECT_EQ(found(), 1000000) << nonsense;
  }
  for (const char* file : {"memory.max", "memory.current", "memory.stat"}) {
    fs::remove(folder_ / "mount" / file);
    fs::create_directory(folder_ / "mount" / file);
  }
  EXPECT_EQ(found(), 5000 * 1024);
}

TEST_F(FreeMemory, IsKnownHere) { EXPECT_GT(free_memory().value_or(0), 0); }

}  // namespace
}  // namespace msda::machine
