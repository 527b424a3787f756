// Which bytes of their parameters compiled kernels read, and listed instructions.
#include "recorder/device/parameters_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/device/listed_parameters.h"
#include "tests/device/made_cubin.h"
#include "tests/device/tools.h"

namespace msda::record {
namespace {

using test::as_span;
using test::sm;

constexpr int kReadingArchitectures[] = {80, 86, 89, 90, 100, 120};

// Where the fields of the structure below lie, and what comes behind it.
constexpr size_t kCharacter = 0, kNumber = 8, kCount = 16, kUnused = 24, kArray = 56, kOut = 88, kEnd = 96;
constexpr const char* kKernels = R"(
struct Some {
  char character;
  double number;
  int count;
  long long unused[4];
  int array[8];
};
extern "C" {
__global__ void fields(Some some, double* out) { out[threadIdx.x] = some.number * some.count + some.character; }
__global__ void element(Some some, double* out) { out[threadIdx.x] = some.array[5]; }
__global__ void wide(Some some, double* out) { *reinterpret_cast<long long*>(out) = some.unused[2] ^ clock(); }
__global__ void by_thread(Some some, double* out) { out[threadIdx.x] = some.array[threadIdx.x & 7]; }
__global__ void by_loop(Some some, double* out) {
  int sum = 0;
  for (int i = 0; i < some.count; ++i) sum += some.array[i] + (i > 2 ? __syncthreads_count(sum) : 0);
  out[threadIdx.x] = sum;
}
__global__ void by_address(const __grid_constant__ Some some, const void** out) { *out = &some; }
}
)";

class Read {
 public:
  Read(const std::string& cubin, const char* kernel, int architecture)
      : read_(parameters_read_by(as_span(cubin), kernel, sm(architecture), kEnd)) {}

  bool all(size_t begin, size_t end) const { return count(begin, end) == end - begin; }
  bool none(size_t begin, size_t end) const { return count(begin, end) == 0; }
  std::string text() const {
    std::string text;
    for (const bool entry : read_) text += entry ? 'x' : '.';
    return text;
  }

 private:
  size_t count(size_t begin, size_t end) const {
    size_t found = 0;
    for (size_t i = begin; i < end; ++i) found += read_.at(i);
    return found;
  }
  std::vector<bool> read_;
};

void expect_as_in_the_source(const std::string& cubin, int architecture) {
  const Read fields(cubin, "fields", architecture);
  EXPECT_TRUE(fields.all(kCharacter, 1) && fields.all(kNumber, kNumber + 8) && fields.all(kCount, kCount + 4))
      << fields.text();
  EXPECT_TRUE(fields.all(kOut, kEnd)) << fields.text();
  EXPECT_TRUE(fields.none(kCharacter + 1, kNumber) && fields.none(kUnused, kOut)) << fields.text();
  const Read element(cubin, "element", architecture);
  EXPECT_TRUE(element.all(kArray + 20, kArray + 24) && element.all(kOut, kEnd)) << element.text();
  EXPECT_TRUE(element.none(0, kArray + 20) && element.none(kArray + 28, kOut)) << element.text();
  const Read wide(cubin, "wide", architecture);
  EXPECT_TRUE(wide.all(kUnused + 16, kUnused + 24)) << wide.text();
  EXPECT_TRUE(wide.none(0, kUnused + 16) && wide.none(kUnused + 24, kOut)) << wide.text();
  for (const char* kernel : {"by_thread", "by_loop"}) {
    const Read indexed(cubin, kernel, architecture);
    EXPECT_TRUE(indexed.all(kArray, kEnd)) << kernel << indexed.text();
  }
  const Read by_address(cubin, "by_address", architecture);
  EXPECT_TRUE(by_address.all(0, kEnd)) << by_address.text();
}

TEST(ParametersRead, AreThoseOfCompiledKernels) {
  if (!test::has_cuda_compiler()) GTEST_SKIP() << "no nvcc here";
  int compiled = 0;
  for (const int architecture : kReadingArchitectures) {
    SCOPED_TRACE(sm(architecture));
    const std::string cubin = test::output_of(
        std::string(test::kNvcc) + " -x cu -cubin -arch=" + sm(architecture) + " input -o output", kKernels);
    if (cubin.empty()) continue;  // nvcc has said why, as it does of an architecture that is too new for it
    ++compiled;
    expect_as_in_the_source(cubin, architecture);
  }
  EXPECT_GT(compiled, 0);
}

// A kernel of these instructions alone, whose parameters begin there.
std::string cubin_of(const ListedRead& listed) {
  constexpr unsigned char kFormatOfSized = 4, kParameterBank = 0x0A;
  std::string attribute{static_cast<char>(kFormatOfSized), static_cast<char>(kParameterBank)};
  const uint16_t size = 8, begin = static_cast<uint16_t>(listed.begin), bytes = kEnd;
  const uint32_t symbol = 1;
  attribute += test::bytes_of(size) + test::bytes_of(symbol) + test::bytes_of(begin) + test::bytes_of(bytes);
  return test::make_cubin({"f"}, test::bytes_of(listed.low) + test::bytes_of(listed.high),
                          {{".nv.info.f", SHT_PROGBITS, attribute}});
}

TEST(ParametersRead, AreThoseOfListedInstructions) {
  for (const ListedRead& listed : kListedReads) {
    for (const int architecture : kReadingArchitectures) {
      if (architecture < listed.first || architecture > listed.last) continue;
      SCOPED_TRACE(sm(architecture) + " " + listed.name);
      const Read read(cubin_of(listed), "f", architecture);
      if (listed.bytes == 0) {
        EXPECT_TRUE(read.all(0, kEnd)) << read.text();
        continue;
      }
      const size_t begin = listed.at - listed.begin, end = begin + listed.bytes;
      EXPECT_TRUE(read.all(begin, end) && read.none(0, begin) && read.none(end, kEnd)) << read.text();
    }
  }
}

TEST(ParametersRead, AreAllWhereNothingIsKnown) {
  const auto& listed = kListedReads[0];
  const std::string cubin = cubin_of(listed);
  EXPECT_FALSE(Read(cubin, "f", 80).all(0, kEnd));
  EXPECT_TRUE(Read(cubin, "other", 80).all(0, kEnd));
  EXPECT_TRUE(Read(cubin, "f", 60).all(0, kEnd));
  ListedRead elsewhere = listed;
  elsewhere.begin = 0x140;  // of no architecture that is known
  EXPECT_TRUE(Read(cubin_of(elsewhere), "f", 80).all(0, kEnd));
  EXPECT_TRUE(Read("", "f", 80).all(0, kEnd));
}

TEST(ParametersRead, DamagedCubinsAreLeftAlone) {
  std::mt19937 random(2026);
  for (int i = 0; i < 2000; ++i) {
    const std::vector<char> damaged = test::damage(cubin_of(kListedReads[random() % std::size(kListedReads)]), random);
    const auto bytes = std::as_bytes(std::span(damaged));
    EXPECT_EQ(parameters_read_by(bytes, "f", "sm_90", kEnd).size(), kEnd);
  }
}

}  // namespace
}  // namespace msda::record
