// Children that are forked while other threads are in the recorder: a lock that such a thread holds, and a container
// that it changes, are not the child's.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "recorder/preload/driver/images.h"
#include "recorder/preload/launch/functions.h"
#include "tests/device/made_cubin.h"

namespace msda::tests {
namespace {

using namespace msda::record;

// How many of the children, in which `in_child` runs, do not end.
int hung_children(const std::function<void()>& beside, const std::function<void()>& in_child) {
  std::atomic<bool> stop{false};
  std::thread another([&] {
    while (!stop) beside();
  });
  int hung = 0;
  for (int i = 0; i < 200 && hung == 0; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      in_child();
      _exit(0);
    }
    int status = 0, waits = 0;
    while (waitpid(child, &status, WNOHANG) == 0 && ++waits < 20000) usleep(1000);
    if (waits < 20000 && status == 0) continue;
    ++hung;
    if (waits < 20000) continue;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  stop = true;
  another.join();
  return hung;
}

class ForkTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP()
        << "GCC 12's address sanitizer leaves its allocator's locks as they were at the fork: a child may hang in it";
#endif
  }
};

// As libraries do when a child exits.
TEST_F(ForkTest, AChildUnloadsCodeWhileAThreadLoadsSome) {
  const auto load = [](uint64_t handle, const std::string& image) {
    Loading loading;
    loading.done({Owner::kModule, handle}, image.data(), [](std::string_view) { return true; });
  };
  for (uint64_t i = 0; i < 2000; ++i) load(i, record::test::make_cubin({"f"}, std::to_string(i)));
  const std::string image = record::test::make_cubin({"f"});
  EXPECT_EQ(hung_children([&] { load(9999, image); }, [] { unloaded({Owner::kModule, 1}); }), 0);
}

TEST_F(ForkTest, AChildRefusesAKernelWhileAThreadDoes) {
  const auto refuse = [] { Functions::instance().refuse("kernel", "of this test"); };
  EXPECT_EQ(hung_children(refuse, refuse), 0);
}

}  // namespace
}  // namespace msda::tests
