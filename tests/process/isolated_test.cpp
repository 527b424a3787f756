// Functions that are called in another process, and what becomes of it when they crash, hang or answer nonsense.
#include "recorder/process/isolated.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace msda::tests {
namespace {

using process::Failure;
using How = Failure::How;

class Doubtful {
 public:
  Doubtful(process::Channel& channel, int most) : channel_(channel), most_(most) {
    if (most < 0) throw std::invalid_argument("most is negative");
  }
  static std::string error(int) {
    try {
      throw;
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
  }
  static void allow_time() { process::limit_computing(1); }

  std::string repeated(const std::string& text, int times) const {
    if (times > most_) throw std::invalid_argument("too often");
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  }
  std::optional<int> sum_of_data() const {
    std::vector<int> numbers;
    const bool received = channel_.receive_data([&](uint64_t bytes) {
      numbers.resize(bytes / sizeof(int));
      return std::as_writable_bytes(std::span(numbers));
    });
    if (!received) return std::nullopt;
    for (const int& number : numbers) channel_.send_data(std::as_bytes(std::span(&number, 1)));
    return std::reduce(numbers.begin(), numbers.end());
  }
  std::vector<int> open_files() const {
    std::vector<int> open;
    for (int file = 0; file < 1000; ++file) {
      if (fcntl(file, F_GETFD) >= 0) open.push_back(file);
    }
    return open;
  }
  bool gets(int signal) const { return std::raise(signal) == 0; }
  bool ends() const { _exit(7); }
  bool throws() const { throw std::runtime_error("what error() does not know"); }
  bool computes() const {
    for (volatile int i = 0;;) i = 1 - i;
  }
  bool sleeps() const { return sleep(1000) == 0; }
  bool writes() const {
    const std::string nonsense(1000, 'x');
    return write(process::FencedProcess::kSocket, nonsense.data(), nonsense.size()) > 0;
  }

 private:
  process::Channel& channel_;
  int most_;
};

class IsolatedTest : public testing::Test {
 protected:
  // Returns how the call failed.
  template <auto Function, class... Arguments>
  Failure failure(const Arguments&... arguments) {
    try {
      isolated.call<Function>(arguments...);
    } catch (const Failure& failure) {
      return failure;
    }
    ADD_FAILURE() << "it did not fail";
    return {};
  }

  process::Isolated<Doubtful> isolated{[](const Failure& failure) { throw failure; }, 3};
};

TEST_F(IsolatedTest, ReturnsWhatFunctionsReturn) {
  EXPECT_EQ(isolated.call<&Doubtful::repeated>(std::string("ab"), 3), "ababab");
  const std::vector<int> numbers{3, 5, 7};
  isolated.request<&Doubtful::sum_of_data>();
  ASSERT_TRUE(isolated.channel().send_data(std::as_bytes(std::span(numbers))));
  std::vector<int> returned;
  const auto sum = isolated.answer<std::optional<int>>(
      [&](uint64_t bytes) { return std::as_writable_bytes(std::span(&returned.emplace_back(), bytes / sizeof(int))); });
  EXPECT_EQ(sum, 15);
  EXPECT_EQ(returned, numbers);
}

TEST_F(IsolatedTest, ReportsExceptionsAndGoesOn) {
  const Failure why = failure<&Doubtful::repeated>(std::string("a"), 4);
  EXPECT_EQ(why.how, How::kError);
  EXPECT_EQ(why.text, "too often");
  EXPECT_EQ(isolated.call<&Doubtful::repeated>(std::string("a"), 2), "aa");
  process::Isolated<Doubtful> unusable([](const Failure& failed) { throw failed; }, -1);
  EXPECT_THROW(unusable.call<&Doubtful::repeated>(std::string("a"), 1), Failure);
}

TEST_F(IsolatedTest, HasNoFileOfTheParent) {
  const int open = ::open("/dev/null", O_RDONLY);
  process::Isolated<Doubtful> second([](const Failure& failed) { throw failed; }, 1);
  EXPECT_EQ(second.call<&Doubtful::open_files>(), (std::vector<int>{0, 1, 2, process::FencedProcess::kSocket}));
  ::close(open);
}

TEST_F(IsolatedTest, SaysHowItEnded) {
  EXPECT_EQ(failure<&Doubtful::ends>().number, 7);
  EXPECT_EQ(failure<&Doubtful::ends>().how, How::kExit);  // nor can it be called again
}

TEST_F(IsolatedTest, EndsByAnExceptionThatIsNoError) { EXPECT_EQ(failure<&Doubtful::throws>().how, How::kExit); }

TEST_F(IsolatedTest, SurvivesACrash) {
  const Failure why = failure<&Doubtful::gets>(SIGKILL);
  EXPECT_EQ(why.how, How::kSignal);
  EXPECT_EQ(why.number, SIGKILL);
  EXPECT_EQ(why.text, "Killed");
}

TEST_F(IsolatedTest, EndsWhatComputesWithoutEnd) { EXPECT_EQ(failure<&Doubtful::computes>().number, SIGXCPU); }

TEST_F(IsolatedTest, EndsWhatDoesNotAnswer) {
  isolated.channel().allow(std::chrono::milliseconds(100));
  EXPECT_EQ(failure<&Doubtful::sleeps>().how, How::kLate);
}

TEST_F(IsolatedTest, RefusesWhatIsNoAnswer) {
  EXPECT_EQ(failure<&Doubtful::writes>().how, How::kInvalid);
  process::Isolated<Doubtful> other([](const Failure& failed) { throw failed; }, 1);
  other.request<&Doubtful::repeated>(std::string("a"), 1);
  try {
    other.answer<int>();
    ADD_FAILURE() << "a text is no number";
  } catch (const Failure& failed) {
    EXPECT_EQ(failed.how, How::kInvalid);
  }
}

TEST_F(IsolatedTest, RefusesMessagesThatAreTooLarge) {
  isolated.channel().allow(std::chrono::seconds(10), 100);
  EXPECT_EQ(isolated.call<&Doubtful::repeated>(std::string(20, 'a'), 1).size(), 20u);
  EXPECT_EQ(failure<&Doubtful::repeated>(std::string(50, 'a'), 3).how, How::kInvalid);
}

}  // namespace
}  // namespace msda::tests
