// Escaping of text, and parsing of numbers.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "recorder/text/closest.h"
#include "recorder/text/environment.h"
#include "recorder/text/escape.h"
#include "recorder/text/numbers.h"
#include "recorder/text/wrap.h"

namespace msda::tests {
namespace {

using text::closest;
using text::escaped;
using text::parse_number;
using text::parse_size;
using text::unbroken;
using text::without_recorder;
using text::wrapped;

TEST(Escape, ControlCharactersAreShown) {
  EXPECT_EQ(escaped("a\x1b[31mred\x07\r\n\tb\x7f"), "a\\x1b[31mred\\x07\\x0d\\n\\tb\\x7f");
  EXPECT_EQ(escaped(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(escaped("\xc2\x9b 31m"), "\\u009b 31m");  // C1
  EXPECT_EQ(escaped("\xe2\x80\xae txet\xe2\x81\xa6 \xe2\x80\xa8"),
            "\\u202e txet\\u2066 \\u2028");  // bidi, line separator
}

TEST(Wrap, LinesFit) {
  EXPECT_EQ(wrapped("", 10), "");
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 6), "one\ntwo\nthree");
  EXPECT_EQ(wrapped("  one  two three", 10, 4), "  one  two\n    three");  // a table keeps its spaces
  EXPECT_EQ(wrapped("one two", 7, 0, 1), "one\ntwo");                      // begins in column 1
  EXPECT_EQ(wrapped("é\x1b[1mé é\x1b[0m é", 4), "é\x1b[1mé é\x1b[0m\né");  // neither bytes nor colours count
}

TEST(Wrap, WordsStayWhole) {
  EXPECT_EQ(wrapped("a /a/path/too/long b", 8), "a\n/a/path/too/long\nb");
  EXPECT_EQ(wrapped(unbroken("run a b") + " then", 4), "run a b\nthen");
  EXPECT_EQ(wrapped("in f<int, g<int>, int> here", 6), "in\nf<int, g<int>, int>\nhere");
  EXPECT_EQ(wrapped("a < b if c<d and e", 6), "a < b\nif c<d\nand e");  // no template
}

TEST(Escape, Utf8Stays) {
  for (const char* text :
       {"", "plain", "Grüße", "κόσμε", "日本語", "🦎", "a\\b", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(escaped(text), text);
  }
}

TEST(Escape, BytesThatAreNoUtf8AreShown) {
  EXPECT_EQ(escaped("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(escaped("\xc3"), "\\xc3");           // cut short
  EXPECT_EQ(escaped("\xc0\xaf"), "\\xc0\\xaf");  // longer than it need be
  EXPECT_EQ(escaped("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");
  EXPECT_EQ(escaped("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // half of a pair
  EXPECT_EQ(escaped("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
  EXPECT_EQ(escaped("\x9b"
                    "31m"),
            "\\x9b31m");
}

TEST(Environment, IsTheProgramsOwn) {
  EXPECT_EQ(without_recorder("MSDA_RECORD_KEEP", "all"), std::nullopt);
  EXPECT_EQ(without_recorder("MSDA_CPU_ISA", "baseline"), "baseline");
  EXPECT_EQ(without_recorder("OMP_NUM_THREADS", ""), "");
  EXPECT_EQ(without_recorder("LD_PRELOAD", "/a/libmsda_record.so"), std::nullopt);
  EXPECT_EQ(without_recorder("LD_PRELOAD", "/a/libmsda_record.so::/b.so /c.so:"), "/b.so:/c.so");
  EXPECT_EQ(without_recorder("CUDA_INJECTION64_PATH", "/my tools/libmsda_record.so"), std::nullopt);
  EXPECT_EQ(without_recorder("CUDA_INJECTION64_PATH", "/my tools/tool.so"), "/my tools/tool.so");
}

TEST(Numbers, AreReadWholeOrNotAtAll) {
  EXPECT_EQ(parse_number<int>("12"), 12);
  EXPECT_EQ(parse_number<int64_t>("-1"), -1);
  EXPECT_EQ(parse_number<double>("1e-3"), 1e-3);
  for (const char* text : {"", " 1", "1 ", "1x", "x1", "0x10", "99999999999", "1e3"}) {
    EXPECT_FALSE(parse_number<int>(text)) << text;
  }
  EXPECT_FALSE(parse_number<int64_t>("99999999999999999999"));
  EXPECT_FALSE(parse_number<uint64_t>("-1"));
  for (const char* text : {"1e-3abc", "", "1,5", "1e999"}) EXPECT_FALSE(parse_number<double>(text)) << text;
}

TEST(Sizes, HaveUnits) {
  const uint64_t M = uint64_t{1} << 20, G = M << 10;
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("500000"), 500000u);
  EXPECT_EQ(parse_size("7B"), 7u);
  for (const char* text : {"64M", "64MiB", "64mib", "64 MiB"}) EXPECT_EQ(parse_size(text), 64 * M) << text;
  for (const char* text : {"64MB", "64mb", "64 MB"}) EXPECT_EQ(parse_size(text), 64000000u) << text;
  EXPECT_EQ(parse_size("2GiB"), 2 * G);
  EXPECT_EQ(parse_size("16777215T"), (uint64_t{16777215} << 40));
  for (const char* text :
       {"", "MB", "-1", "1X", "1MBx", "1  MB", " 1", "1.5G", "+1", "16777216T", "99999999999999999999", "1i"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(Closest, FindsTheWordThatWasMeant) {
  const std::vector<std::string> words{"run", "list", "stages", "stress", "gradcheck", "--tolerance", "--threads"};
  const auto meant = [&](const char* word) { return closest(word, words); };
  EXPECT_EQ(meant("rnu"), "run");         // exchanged
  EXPECT_EQ(meant("lst"), "list");        // left out
  EXPECT_EQ(meant("streess"), "stress");  // added
  EXPECT_EQ(meant("gradchekc"), "gradcheck");
  EXPECT_EQ(meant("--tolerence"), "--tolerance");  // replaced
  EXPECT_EQ(meant("--tol"), "--tolerance");        // a beginning
  EXPECT_EQ(meant("run"), "run");
  for (const char* word : {"", "r", "-x", "ru", "xyz", "--jsonfile", "checkgrad"}) EXPECT_EQ(meant(word), "") << word;
  EXPECT_EQ(meant(std::string(100000, 'r').c_str()), "");
}

}  // namespace
}  // namespace msda::tests
