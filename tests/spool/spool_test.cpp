// The spool: messages written and read back, hostile sizes, incomplete frames.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "recorder/capture/digest.h"
#include "recorder/spool/appender.h"
#include "recorder/spool/check.h"
#include "recorder/spool/checksum.h"
#include "recorder/spool/follower.h"
#include "recorder/spool/output.h"
#include "tests/support/in_a_folder.h"

namespace msda::tests {
namespace {

using namespace msda::spool;

std::vector<std::byte> some_bytes(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

Begin some_begin() {
  return {{{{"kernel", "k"}, {"label", ""}},
           {{"stream", -1}, {"thread", 1LL << 40}},
           {{"scale", 0.1}, {"nan", std::nan("")}},
           {{"aligned", true}, {"wraps", false}}},
          42,
          1,
          {1, 2, 3},
          {}};
}

TEST(Output, OtherNamesKeepTheEnding) {
  EXPECT_EQ(output_name("/a.d/b.c.h5", 7, 0), "/a.d/b.c.h5");
  EXPECT_EQ(output_name("/a.d/b.c.h5", 7, 1), "/a.d/b.c.7.h5");
  EXPECT_EQ(output_name("/a.d/b.c.h5", 7, 2), "/a.d/b.c.7.2.h5");
  EXPECT_EQ(output_name("/a.d/b", 7, 1), "/a.d/b.7");
}

TEST(Messages, ThereAndBack) {
  const Begin begin = decode<Begin>(encode(some_begin()));
  EXPECT_EQ(begin.invocation, 42u);
  EXPECT_EQ(begin.texts, some_begin().texts);
  EXPECT_EQ(begin.integers, some_begin().integers);
  EXPECT_EQ(begin.reals.at("scale"), 0.1);
  EXPECT_TRUE(std::isnan(begin.reals.at("nan")));
  EXPECT_EQ(begin.flags, some_begin().flags);
  EXPECT_EQ(begin.grid, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_TRUE(begin.block.empty());
  const spool::Run run = decode<spool::Run>(encode(spool::Run{{"a", "b c"}, {{"X", "1"}}, {}, {{"host", "h"}}}));
  EXPECT_EQ(run.argv, (std::vector<std::string>{"a", "b c"}));
  EXPECT_EQ(run.facts.at("host"), "h");
}

TEST(Messages, EveryCutAndEveryHugeSizeIsAnError) {
  const auto whole = encode(some_begin());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(decode<Begin>(std::span(whole).first(size)), spool::Error) << size;
  }
  for (size_t at = 0; at + 8 <= whole.size(); ++at) {
    auto damaged = whole;
    std::memset(damaged.data() + at, 0xff, 8);
    try {
      decode<Begin>(damaged);  // numbers and letters may be anything; sizes may not
    } catch (const spool::Error&) {
    }
  }
}

class SpoolFile : public InAFolder {
 protected:
  const std::string path = folder_ / "spool";
};

TEST_F(SpoolFile, FramesComeAsTheyWereAppended) {
  Appender appender;
  ASSERT_EQ(appender.open(path), 0);
  Follower follower(path);
  EXPECT_FALSE(follower.next());
  const auto payload = some_bytes(100'000);
  ASSERT_TRUE(appender.append(some_begin()));
  ASSERT_TRUE(appender.append(Tensor{42, 1, "inputs", {"value", MSDA_FLOAT32, {5, 5}, {}}}, payload));
  const auto begin = follower.next(), tensor = follower.next();
  ASSERT_TRUE(begin && tensor);
  EXPECT_EQ(begin->kind, Kind::kBegin);
  EXPECT_EQ(decode<Tensor>(tensor->message).description.shape, (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(follower.payload(*tensor), payload);
  EXPECT_FALSE(follower.next());
  EXPECT_EQ(follower.trailing_bytes(), 0u);
  // Later readers skip released frames.
  follower.release(*begin);
  follower.release(*tensor);
  ASSERT_TRUE(appender.append(End{42}));
  Follower second(path);
  EXPECT_EQ(second.next()->kind, Kind::kEnd);
}

TEST_F(SpoolFile, EndsWithTheLastWholeFrame) {
  {
    Appender appender;
    ASSERT_EQ(appender.open(path), 0);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(appender.append(some_begin(), some_bytes(1000)));
  }
  const auto size = std::filesystem::file_size(path);
  const auto count = [&] {
    Follower follower(path);
    int frames = 0;
    while (follower.next()) ++frames;
    return frames;
  };
  EXPECT_EQ(count(), 3);
  for (const int cut : {1, 999, 1200}) {
    std::filesystem::resize_file(path, size - static_cast<uintmax_t>(cut));
    EXPECT_EQ(count(), 2) << cut;
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(300);
  file.put('x');  // in the first frame's payload
  file.close();
  EXPECT_EQ(count(), 0);
  for (uintmax_t left = 17; left-- > 0;) {  // and with the header, whole or not
    std::filesystem::resize_file(path, left);
    EXPECT_EQ(count(), 0) << left;
  }
  std::ofstream(path) << "mine";
  EXPECT_THROW(count(), Error);
}

TEST_F(SpoolFile, NeverOpensWhatIsThere) {
  std::ofstream(path) << "mine";
  Appender appender;
  EXPECT_EQ(appender.open(path), EEXIST);
  std::filesystem::remove(path);
  ASSERT_EQ(appender.open(path), 0);  // a second try is a first one
  EXPECT_TRUE(appender.append(End{1}));
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/null", path);
  EXPECT_EQ(Appender().open(path), EEXIST);
}

TEST(SpoolDigest, IsTheCapturesOwn) { EXPECT_EQ(digest_of(some_bytes(12345)), capture::digest(some_bytes(12345))); }

}  // namespace
}  // namespace msda::tests
