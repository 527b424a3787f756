#include "recorder/writer/code_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

namespace msda::record {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::IsEmpty;

CodeFactCounts count(const std::string& text, const std::string& function) {
  InstructionCounter counter(function);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    counter.line(std::string_view(text).substr(at, end - at));
    at = end + 1;
  }
  return counter.counts();
}

// Written by hand after nvdisasm's form; counted by hand.
constexpr char kListing[] = R"(
	.section	.text.other,"ax",@progbits
other:
.text.other:
        /*0000*/                   RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R2], R7 ;
	.section	.text.mine,"ax",@progbits
mine:
.text.mine:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 FFMA R5, R0, R5, 1 ;
        /*0020*/             @!UP1 DFMA R6, R6, R8, R10 ;
        /*0030*/                   REDUX.SUM UR4, R3 ;
        /*0040*/                   HFMA2.MMA R11, -RZ, RZ, 1.875, 0 ;
.L_x_2:
        /*0050*/              @P0  REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR8][R2.64], R7 ;
        /*0060*/                   RED.E.ADD.F64.RN.STRONG.GPU [R2], R4 ;
        /*0070*/                   ATOMG.E.EXCH.STRONG.GPU PT, R11, desc[UR8][R4.64+0x8], R11 ;
        /*0080*/                   ATOM.E.CAS.STRONG.GPU PT, R11, [R4], R10, R11 ;
        /*0090*/                   ATOMS.CAST.SPIN R5, [R0], R4, R5 ;
        /*00a0*/              @!P0 BRA `(.L_x_2) ;
        /*00b0*/                   EXIT ;
.L_x_3:
        /*00c0*/                   BRA `(.L_x_3);
        /*00d0*/                   NOP;
        /*00e0*/                   NOP;
.L_x_5:
	.section	.nv.info.mine,"",@"SHT_CUDA_INFO"
        /*0000*/ 	.byte	0x04, 0x17
)";

TEST(CodeFacts, CountsOneFunctionOfAListing) {
  const CodeFactCounts expected{{"instructions", 12},  {"fused_multiply_adds", 2}, {"reductions", 2},
                                {"global_atomics", 2}, {"shared_atomics", 1},      {"float_atomics", 4},
                                {"atomics", 5}};
  EXPECT_EQ(count(kListing, "mine"), expected);
  EXPECT_EQ(count(kListing, "other").at("atomics"), 1);
  EXPECT_THAT(count(kListing, "min"), IsEmpty());
}

// As nvdisasm 13.2 writes them for sm_90, sm_100 and sm_120. The type of a tensor's reduction is in its tensor map.
TEST(CodeFacts, CountsReductionsOfWholeBlocks) {
  const CodeFactCounts counts = count(R"(
.text.mine:
        /*0000*/                   UBLKRED.G.S.ADD.F32.RN [UR6], [UR8], UR4 ;
        /*0010*/                   UBLKRED.G.S.ADD [UR4], [UR8], UR9 ;
        /*0020*/                   UBLKRED.G.S.ADD.BF16.RN [UR10], [UR8], UR9 ;
        /*0030*/                   UBLKRED.G.S.MAX.S32 [UR4], [UR8], UR9 ;
        /*0040*/                   UTMAREDG.2D.ADD [UR8], [UR4] ;
        /*0050*/                   UTMAREDG.5D.IM2COL.MAX [UR8], [UR4] ;
        /*0060*/                   UTMAREDG.2D.AND [UR8], [UR4] ;
        /*0070*/                   REDAS.ADD [R6.64], R0 ;
        /*0080*/                   UTMASTG.2D [UR8], [UR4] ;
        /*0090*/                   UBLKCP.G.S [UR6], [UR8], UR11 ;
        /*00a0*/                   EXIT ;
)",
                                      "mine");
  EXPECT_EQ(counts.at("reductions"), 8);
  EXPECT_EQ(counts.at("atomics"), 8);
  EXPECT_EQ(counts.at("float_atomics"), 4);
}

TEST(CodeFacts, CountsWhatCuobjdumpWrites) {
  const CodeFactCounts counts = count(
      "\t\tFunction : other\n        /*0000*/    RED [R2], R7 ;   /* 0x0 */\n"
      "\t\tFunction : mine\n"
      "        /*0000*/                   FFMA R5, R0, R5, 1 ;                /* 0x3f80000000057423 */\n"
      "                                                                     /* 0x001fca0000000005 */\n"
      "        /*0010*/                   EXIT ;                              /* 0x000000000000794d */\n",
      "mine");
  EXPECT_EQ(counts.at("instructions"), 2);
  EXPECT_EQ(counts.at("fused_multiply_adds"), 1);
  EXPECT_EQ(counts.at("atomics"), 0);
}

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "code-facts-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path script(const std::string& body) {
    const fs::path path = folder_ / "nvdisasm";
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    chmod(path.c_str(), 0700);
    return path;
  }
  fs::path folder_;
  std::vector<std::byte> some_ = std::vector<std::byte>(100);
};

using CodeFactsOfACubin = Folder;

TEST_F(CodeFactsOfACubin, NeverHurtTheCapture) {
  EXPECT_THAT(count_instructions({}, {{"", "f"}, some_, ""}, seconds(1)), IsEmpty());
  EXPECT_THAT(count_instructions(folder_ / "none", {{"", "f"}, some_, ""}, seconds(1)), IsEmpty());
  EXPECT_THAT(count_instructions(script("exit 1"), {{"", "f"}, some_, ""}, seconds(1)), IsEmpty());
  EXPECT_THAT(count_instructions(script("kill -SEGV $$"), {{"", "f"}, some_, ""}, seconds(1)), IsEmpty());
  EXPECT_THAT(
      count_instructions(script("printf '.text.f:\\n/*0000*/ EXIT ;'; exit 3"), {{"", "f"}, some_, ""}, seconds(1)),
      IsEmpty());
}

TEST_F(CodeFactsOfACubin, EndInTime) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(count_instructions(script("exec sleep 60"), {{"", "f"}, some_, ""}, milliseconds(300)), IsEmpty());
  EXPECT_THAT(count_instructions(script("sleep 60 & wait"), {{"", "f"}, some_, ""}, milliseconds(300)), IsEmpty());
  EXPECT_THAT(count_instructions(script("exec yes"), {{"", "f"}, some_, ""}, milliseconds(300)), IsEmpty());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(10));
}

TEST_F(CodeFactsOfACubin, TheDisassemblerSeesTheCubin) {
  const auto program =
      script("[ \"$1\" = -c ] && echo .text.f: && wc -c < \"$2\" | sed 's/.*/\\/*0000*\\/ RED [&] ;/'");
  const CodeFactCounts counts = count_instructions(program, {{"", "f"}, some_, ""}, seconds(5));
  ASSERT_FALSE(counts.empty());
  EXPECT_EQ(counts.at("reductions"), 1);
}

TEST_F(CodeFactsOfACubin, OfSeveralKernelsAreThoseOfEach) {
  const auto program = script("echo .text.f: && wc -c < \"$2\" | sed 's/.*/\\/*0000*\\/ RED [&] ;/'");
  std::vector<CubinFunction> functions;
  for (int i = 0; i < 9; ++i) functions.push_back({{std::to_string(i), i == 3 ? "g" : "f"}, some_, ""});
  const InstructionCounts counts = count_instructions(program, functions, seconds(5), seconds(30));
  EXPECT_EQ(counts.size(), 8U);
  EXPECT_FALSE(counts.contains({"3", "g"}));  // the disassembler does not tell of it
  EXPECT_EQ(counts.at({"8", "f"}).at("reductions"), 1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(count_instructions(script("exec sleep 60"), functions, seconds(60), milliseconds(500)), IsEmpty());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(20));
}

// A kernel whose atomics are known from its source, by the real tools.
TEST_F(CodeFactsOfACubin, AgreeWithTheSource) {
  const fs::path nvcc = "/usr/local/cuda/bin/nvcc";
  const char* named = getenv("MSDA_DISASSEMBLER");
  const std::vector<fs::path> folders = named != nullptr ? std::vector<fs::path>{named} : std::vector<fs::path>();
  const fs::path disassembler = find_disassembler(folders);
  if (!fs::exists(nvcc)) GTEST_SKIP() << "no nvcc here";
  if (disassembler.empty()) GTEST_SKIP() << "no nvdisasm and no cuobjdump here: set MSDA_DISASSEMBLER to their folder";
  std::ofstream(folder_ / "k.cu") << R"(
extern "C" __global__ void three(float* p, float* q) {
  __shared__ int s;
  atomicMax(&s, 7 * threadIdx.x);   // shared
  __syncthreads();
  atomicAdd(q, p[s]);               // two whose results nobody takes
  atomicAdd(q + 1, 2 * p[s]);
  q[2] = atomicExch(q + 3, p[1]);   // one whose result is taken
}
extern "C" __global__ void fused(float* p, float a) {
  float x = p[threadIdx.x];
  x = __fmaf_rn(x, a, 1.0f);
  x = __fmaf_rn(x, a, 2.0f);
  p[threadIdx.x] = __fmaf_rn(x, a, 3.0f);
}
)";
  const std::string command = "cd " + folder_.string() + " && " + nvcc.string() + " -cubin -arch=sm_90 k.cu -o k.cubin";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::ifstream file(folder_ / "k.cubin", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> cubin(text.size());
  std::memcpy(cubin.data(), text.data(), text.size());
  // The disassembler gets only the requested function; if its architecture is not known, the whole cubin and the
  // function's name.
  const fs::path spy =
      script("echo \"$@\" >> " + (folder_ / "asked").string() + "; exec " + disassembler.string() + " \"$@\"");
  ASSERT_FALSE(count_instructions(spy, {{"", "fused"}, cubin, "sm_90"}, seconds(60)).empty());
  std::ifstream asked(folder_ / "asked");
  const std::string first_asked{std::istreambuf_iterator<char>(asked), {}};
  EXPECT_EQ(first_asked.find(disassembler.filename() == "nvdisasm" ? "-b SM90 " : "-sass "), 0U);
  EXPECT_EQ(first_asked.find("-c "), std::string::npos);
  EXPECT_EQ(count_instructions(disassembler, {{"", "three"}, cubin, ""}, seconds(60)),
            count_instructions(disassembler, {{"", "three"}, cubin, "sm_90"}, seconds(60)));
  const CodeFactCounts three = count_instructions(disassembler, {{"", "three"}, cubin, "sm_90"}, seconds(60));
  ASSERT_FALSE(three.empty());
  EXPECT_EQ(three.at("reductions"), 2);
  EXPECT_EQ(three.at("global_atomics"), 1);
  EXPECT_EQ(three.at("shared_atomics"), 1);
  EXPECT_EQ(three.at("atomics"), 4);
  EXPECT_EQ(three.at("fused_multiply_adds"), 0);
  const CodeFactCounts fused = count_instructions(disassembler, {{"", "fused"}, cubin, "sm_90"}, seconds(60));
  EXPECT_EQ(fused.at("fused_multiply_adds"), 3);
  EXPECT_EQ(fused.at("atomics"), 0);
}

}  // namespace
}  // namespace msda::record
