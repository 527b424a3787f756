// The adapters on hand-made launches: packed parameters, and device memory with one small table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/adapters/launches.h"

namespace msda::adapters {
namespace {

using testing::HasSubstr;

constexpr uint64_t kTable = 0x7000;  // where spatial_shapes lie

// A device on which nothing but the table can be read.
ReadDevice device(const std::vector<int64_t>& sides) {
  return [sides](uint64_t address, void* to, size_t bytes) {
    const size_t size = sides.size() * sizeof sides[0];
    if (address < kTable || address - kTable > size || bytes > size - (address - kTable)) return false;
    std::memcpy(to, reinterpret_cast<const char*>(sides.data()) + (address - kTable), bytes);
    return true;
  };
}

// ---- Deformable DETR's family ----

struct Col2im {
  int64_t n = 2 * 7 * 3 * 8;
  int32_t B = 2, S = 26, M = 3, D = 8, L = 2, Q = 7, P = 5;
  std::vector<uint64_t> pointers{10, 20, kTable, 40, 50, 60, 70, 80, 90};
  bool wide_n = false;

  Launch launch(const std::string& kernel) const {
    Packer packer;
    wide_n ? packer.add(n) : packer.add(static_cast<int32_t>(n));
    for (size_t i = 0; i < 6; ++i) packer.add(pointers[i]);
    for (const int32_t size : {B, S, M, D, L, Q, P}) packer.add(size);
    for (size_t i = 6; i < 9; ++i) packer.add(pointers[i]);
    return packer.launch(kernel);
  }
};

const ReadDevice kTwoLevels = device({4, 5, 3, 2});

// As GCC mangles such a kernel in the global namespace.
std::string mangled_col2im(const std::string& identifier, const std::string& type, bool block_size, char n = 'i',
                           char shapes = 'l') {
  const bool half = type.size() > 1;  // c10 and the type itself are two more substitutions
  const std::string t = half ? "S4_" : "S2_", table = half ? "S6_" : "S4_", gradient = half ? "S7_" : "S5_";
  return "_Z" + std::to_string(identifier.size()) + identifier + "I" + type + (block_size ? "Lj32E" : "") + "Ev" + n +
         "PKT_" + t + "PK" + shapes + table + t + t + "iiiiiiiP" + (half ? "S2_" : "S0_") + gradient + gradient;
}

const std::map<std::string, bool> kVariants{{"shm_blocksize_aware_reduce_v1", true},
                                            {"shm_blocksize_aware_reduce_v2", true},
                                            {"shm_reduce_v1", false},
                                            {"shm_reduce_v2", false},
                                            {"shm_reduce_v2_multi_blocks", false},
                                            {"gm", false}};
const std::string kPrefix = "ms_deformable_col2im_gpu_kernel_";
const std::string kKernel =
    "_Z61ms_deformable_col2im_gpu_kernel_shm_blocksize_aware_reduce_v1IfLj32EEviPKT_S2_PKlS4_S2_S2_iiiiiiiPS0_S5_S5_";

TEST(Col2im17, EveryTensorOfEveryVariantAndType) {
  EXPECT_EQ(mangled_col2im(kPrefix + "shm_blocksize_aware_reduce_v1", "f", true), kKernel);
  const std::map<std::string, std::string> types{
      {"f", "f32"}, {"d", "f64"}, {"N3c104HalfE", "f16"}, {"N3c108BFloat16E", "bf16"}};
  for (const auto& [variant, block_size] : kVariants) {
    for (const auto& [type, t] : types) {
      for (const std::string& prefix : {kPrefix, std::string("deformable_attn_cuda_kernel_backward_")}) {
        for (const bool wide_n : {false, true}) {
          Col2im good;
          good.wide_n = wide_n;
          const std::string kernel = mangled_col2im(prefix + variant, type, block_size, wide_n ? 'l' : 'i');
          SCOPED_TRACE(kernel);
          const Decoded decoded = decode(good.launch(kernel), kTwoLevels);
          ASSERT_EQ(reason(decoded), "not refused");
          const Call& call = std::get<Call>(decoded);
          EXPECT_EQ(call.dialect, MSDA_DEFORMABLE_DETR);
          EXPECT_EQ(call.padding, MSDA_PADDING_ZEROS);
          EXPECT_EQ(call.align_corners, false);
          EXPECT_THAT(
              describe(call.inputs),
              testing::ElementsAre("value 20 " + t + " [2,26,3,8]", "spatial_shapes 28672 i64 [2,2]",
                                   "level_start_index 40 i64 [2]", "sampling_locations 50 " + t + " [2,7,3,2,5,2]",
                                   "attention_weights 60 " + t + " [2,7,3,2,5]", "grad_output 10 " + t + " [2,7,3,8]"));
          EXPECT_THAT(describe(call.outputs), testing::ElementsAre("grad_value 70 " + t + " [2,26,3,8]",
                                                                   "grad_sampling_locations 80 " + t + " [2,7,3,2,5,2]",
                                                                   "grad_attention_weights 90 " + t + " [2,7,3,2,5]"));
        }
      }
    }
  }
}

// "tensor@offset" of each.
std::vector<std::string> describe_pointers(const std::vector<Pointer>& pointers) {
  std::vector<std::string> words;
  for (const auto& [offset, tensor] : pointers) words.push_back(tensor + "@" + std::to_string(offset));
  return words;
}

TEST(Col2im17, Pointers) {
  const Decoded decoded = decode(Col2im().launch(kKernel), kTwoLevels);
  EXPECT_THAT(describe_pointers(std::get<Call>(decoded).pointers),
              testing::ElementsAre("inputs/grad_output@8", "inputs/value@16", "inputs/spatial_shapes@24",
                                   "inputs/level_start_index@32", "inputs/sampling_locations@40",
                                   "inputs/attention_weights@48", "outputs/grad_value@88",
                                   "outputs/grad_sampling_locations@96", "outputs/grad_attention_weights@104"));
}

// n is 2*7*3*8 = 336, in as many blocks as needed.
TEST(Col2im17, OtherBlocks) {
  const auto with = [](const std::string& variant, bool block_size, uint32_t threads) {
    const Launch launch = Col2im().launch(mangled_col2im(kPrefix + variant, "d", block_size));
    const auto shape = adapter_for(launch.kernel)->with_block(launch, threads);
    if (const auto* refusal = std::get_if<Refusal>(&shape)) return refusal->reason;
    const auto& [grid, block, shared] = std::get<LaunchShape>(shape);
    return std::to_string(grid[0]) + " of " + std::to_string(block[0]) + " with " + std::to_string(shared);
  };
  EXPECT_EQ(with("gm", false, 32), "11 of 32 with 0");
  EXPECT_EQ(with("gm", false, 336), "1 of 336 with 0");
  EXPECT_EQ(with("gm", false, 335), "2 of 335 with 0");
  // Three doubles a thread; the 8 channels in whole blocks.
  EXPECT_EQ(with("shm_reduce_v2_multi_blocks", false, 4), "84 of 4 with 96");
  EXPECT_THAT(with("shm_reduce_v2_multi_blocks", false, 3), HasSubstr("8 channels evenly"));
  for (const auto& [variant, block_size] : kVariants) {
    if (variant == "gm" || variant == "shm_reduce_v2_multi_blocks") continue;
    EXPECT_THAT(with(variant, block_size, 8), HasSubstr("sums over the 8 threads of a block")) << variant;
  }
}

TEST(Col2im17, OffsetsOfRecord) {
  const Launch launch = Col2im().launch(kKernel);
  EXPECT_EQ(launch.bytes.size(), 112u);
  EXPECT_EQ(launch.parameters[1].offset, 8u);
  EXPECT_EQ(launch.parameters[7].offset, 56u);
  EXPECT_EQ(launch.parameters[14].offset, 88u);
}

// Names that GCC gave to such templates in a namespace whose name ends in a digit, and in one without a name.
TEST(Col2im17, InNamespaces) {
  for (const std::string kernel :
       {"_ZN2v161ms_deformable_col2im_gpu_kernel_shm_blocksize_aware_reduce_v2IN3c104HalfELj64EEEviPKT_S5_PKlS7_S5_S5_"
        "iiiiiiiPS3_S8_S8_",
        "_ZN12_GLOBAL__N_158ms_deformable_col2im_gpu_kernel_shm_reduce_v2_multi_blocksIfEEviPKT_S3_PKlS5_S3_S3_"
        "iiiiiiiPS1_S6_S6_"}) {
    EXPECT_EQ(reason(decode(Col2im().launch(kernel), kTwoLevels)), "not refused") << kernel;
  }
}

TEST(Col2im17, Bytes) {
  const Decoded decoded = decode(Col2im().launch(mangled_col2im(kPrefix + "gm", "N3c104HalfE", false)), kTwoLevels);
  const Call& call = std::get<Call>(decoded);
  EXPECT_EQ(call.inputs[0].bytes(), 2 * 26 * 3 * 8 * 2);
  EXPECT_EQ(call.inputs[1].bytes(), 2 * 2 * 8);
}

TEST(Col2im17, OtherNamesAreNotItsOwn) {
  for (const std::string kernel : {"_Z34ms_deformable_im2col_gpu_kernelIfEviPKT_",
                                   "_Z27deformable_col2im_gpu_kernelIfEv", "dcnv3_col2im_gpu_kernel_gm", ""}) {
    EXPECT_EQ(adapter_for(kernel), nullptr) << kernel;
  }
}

TEST(Col2im17, OtherSignaturesAreRefused) {
  const auto refusal = [](const std::string& kernel) { return reason(decode(Col2im().launch(kernel), kTwoLevels)); };
  EXPECT_THAT(refusal(mangled_col2im(kPrefix + "gm", "f", false, 'i', 'i')), HasSubstr("int32"));
  EXPECT_THAT(refusal(mangled_col2im(kPrefix + "gm", "6__half", false)), HasSubstr("element type"));
  EXPECT_THAT(refusal(mangled_col2im(kPrefix + "shm_reduce_v3", "f", false)), HasSubstr("variant"));
  EXPECT_THAT(refusal(mangled_col2im("my_" + kPrefix + "gm", "f", false)), HasSubstr("variant"));
  EXPECT_THAT(refusal(mangled_col2im(kPrefix + "gm", "f", false, 'j')), HasSubstr("other parameters"));
  EXPECT_THAT(refusal(kKernel + "f"), HasSubstr("other parameters"));
  // A name truncated anywhere is refused or not matched.
  for (size_t size = 0; size < kKernel.size(); ++size) {
    EXPECT_NE(refusal(kKernel.substr(0, size)), "not refused") << size;
  }
  // So is a name with a changed character, except in the type, the block size, and back references.
  std::set<size_t> accepted;
  for (size_t i = 0; i < kKernel.size(); ++i) {
    for (const char c : {'d', '7', 'i', '_'}) {
      std::string changed = kKernel;
      changed[i] = c;
      if (c != kKernel[i] && refusal(changed) == "not refused") accepted.insert(i);
    }
  }
  const size_t type = kKernel.find("If") + 1;
  EXPECT_THAT(accepted, testing::UnorderedElementsAre(type, type + 3, type + 4, kKernel.find("PKlS4_") + 4,
                                                      kKernel.find("PS0_") + 2));
}

TEST(Col2im17, OtherLayoutsAreRefused) {
  const Launch good = Col2im().launch(kKernel);
  Launch launch = good;
  launch.parameters.clear();
  EXPECT_THAT(reason(decode(launch, kTwoLevels)), HasSubstr("unknown size"));
  launch = good;
  launch.parameters.pop_back();
  EXPECT_THAT(reason(decode(launch, kTwoLevels)), HasSubstr("16 parameters"));
  launch = good;
  launch.bytes.pop_back();
  EXPECT_THAT(reason(decode(launch, kTwoLevels)), HasSubstr("17 parameters"));
  for (size_t i = 0; i < good.parameters.size(); ++i) {
    launch = good;
    launch.parameters[i].size ^= 12;  // 4 for 8 and 8 for 4
    EXPECT_THAT(reason(decode(launch, kTwoLevels)), HasSubstr("parameters of")) << i;
    launch = good;
    launch.parameters[i].offset += 4;
    EXPECT_THAT(reason(decode(launch, kTwoLevels)), HasSubstr("parameters of")) << i;
  }
  Col2im wide;
  wide.wide_n = true;
  EXPECT_THAT(reason(decode(wide.launch(kKernel), kTwoLevels)), HasSubstr("parameters of"));
}

TEST(Col2im17, SizesThatCannotBeAreRefused) {
  Col2im col2im;
  col2im.n += 1;
  EXPECT_THAT(reason(decode(col2im.launch(kKernel), kTwoLevels)), HasSubstr("B*Q*M*D"));

  for (int32_t Col2im::*size : {&Col2im::B, &Col2im::S, &Col2im::M, &Col2im::D, &Col2im::L, &Col2im::Q, &Col2im::P}) {
    for (const int32_t value : {0, -1, std::numeric_limits<int32_t>::min()}) {
      col2im = {};
      col2im.*size = value;
      EXPECT_THAT(reason(decode(col2im.launch(kKernel), kTwoLevels)), HasSubstr("not positive"));
    }
  }

  const int32_t most = std::numeric_limits<int32_t>::max();
  col2im = {};
  col2im.B = col2im.S = col2im.M = most;
  EXPECT_THAT(reason(decode(col2im.launch(kKernel), kTwoLevels)), HasSubstr("too large"));
  col2im = {};  // 2^62 elements, of 4 bytes each
  col2im.B = col2im.S = 1 << 30;
  col2im.M = 4;
  col2im.D = 1;
  EXPECT_THAT(reason(decode(col2im.launch(kKernel), kTwoLevels)), HasSubstr("too large"));
  col2im = {};  // a product that is n again modulo 2^32
  col2im.B = col2im.Q = 1 << 16;
  col2im.n = 0;
  EXPECT_THAT(reason(decode(col2im.launch(kKernel), kTwoLevels)), HasSubstr("B*Q*M*D"));
  col2im = {};
  col2im.L = col2im.S = most;
  EXPECT_THAT(reason(decode(col2im.launch(kKernel), kTwoLevels)), HasSubstr("add up"));
}

TEST(Col2im17, NullPointersAreRefused) {
  for (size_t i = 0; i < 9; ++i) {
    Col2im col2im;
    col2im.pointers[i] = 0;
    EXPECT_THAT(reason(decode(col2im.launch(kKernel), kTwoLevels)), HasSubstr("null")) << i;
  }
}

// The one- and three-dimensional kernels of the same name.
TEST(Col2im17, TablesThatDoNotAddUpAreRefused) {
  const Launch launch = Col2im().launch(kKernel);
  for (const auto& table : {std::vector<int64_t>{20, 6, 0, 0}, {2, 2, 5, 2, 3, 1}, {4, 5, -3, -2}, {26, 1, 0, 0}}) {
    EXPECT_THAT(reason(decode(launch, device(table))), HasSubstr("add up"));
  }
  EXPECT_THAT(reason(decode(launch, device({}))), HasSubstr("cannot be read"));
  EXPECT_THAT(reason(decode(launch, nullptr)), HasSubstr("cannot be read"));
}

// ---- msda-triton ----

struct Triton {
  std::vector<int32_t> integers;  // B I C N H L P
  std::array<uint32_t, 3> grid;   // Q B M
  std::vector<int64_t> table;
  size_t scratch = 2;

  Launch launch() const {
    Packer packer;
    for (const uint64_t pointer : {10, 20, 30, 40, 50, 60, 70}) packer.add(pointer);
    packer.add(kTable);
    for (const int32_t integer : integers) packer.add(integer);
    for (size_t i = 0; i < scratch; ++i) packer.add(uint64_t{0});
    Launch launch = packer.launch("triton_multi_scale_deformable_attention_bwd_kernel");
    launch.grid = grid;
    launch.float_type = MSDA_FLOAT32;
    return launch;
  }
  Decoded decoded() const { return decode(launch(), device(table)); }

  // The launch for these sizes, as Triton makes it.
  static Triton of(std::vector<int32_t> sizes, std::vector<int64_t> table) {
    Triton triton{{}, {}, std::move(table)};
    triton.grid = {static_cast<uint32_t>(sizes[3]), static_cast<uint32_t>(sizes[0]), static_cast<uint32_t>(sizes[4])};
    std::ranges::copy_if(sizes, std::back_inserter(triton.integers), [](int32_t size) { return size != 1; });
    return triton;
  }
};

// B I C N H L P, or why not.
std::string describe_sizes(const Decoded& decoded) {
  if (std::holds_alternative<Refusal>(decoded)) return reason(decoded);
  const Call& call = std::get<Call>(decoded);
  const std::vector<int64_t>&value = call.inputs[0].shape, &locations = call.inputs[2].shape;
  std::string words;
  for (const int64_t size : {value[0], value[1], value[3], locations[1], value[2], locations[3], locations[4]}) {
    words += std::to_string(size) + " ";
  }
  return words;
}

const Triton kSeen{{4, 5440, 32, 1000, 8, 4, 3}, {1000, 4, 8}, {64, 64, 32, 32, 16, 16, 8, 8}};

TEST(MsdaTriton, EveryTensor) {
  for (const size_t scratch : {1, 2}) {
    Triton triton = kSeen;
    triton.scratch = scratch;
    const Decoded decoded = triton.decoded();
    ASSERT_EQ(reason(decoded), "not refused");
    const Call& call = std::get<Call>(decoded);
    EXPECT_EQ(call.dialect, MSDA_MSDA_TRITON);
    EXPECT_EQ(call.padding, std::nullopt);
    EXPECT_EQ(call.align_corners, std::nullopt);
    EXPECT_THAT(describe(call.inputs),
                testing::ElementsAre("value 50 f32 [4,5440,8,32]", "spatial_shapes 28672 i64 [4,2]",
                                     "sampling_locations 60 f32 [4,1000,8,4,3,2]",
                                     "attention_weights 70 f32 [4,1000,8,4,3]", "grad_output 40 f32 [4,1000,8,32]"));
    EXPECT_THAT(describe(call.outputs), testing::ElementsAre("grad_value 10 f32 [4,5440,8,32]",
                                                             "grad_sampling_locations 20 f32 [4,1000,8,4,3,2]",
                                                             "grad_attention_weights 30 f32 [4,1000,8,4,3]"));
  }
}

// 8 pointers, 7 integers in 28 bytes, and behind them, aligned, the scratch memory.
TEST(MsdaTriton, Pointers) {
  for (const size_t scratch : {1, 2}) {
    Triton triton = kSeen;
    triton.scratch = scratch;
    const Decoded decoded = triton.decoded();
    std::vector<std::string> wanted{"outputs/grad_value@0",
                                    "outputs/grad_sampling_locations@8",
                                    "outputs/grad_attention_weights@16",
                                    "inputs/grad_output@24",
                                    "inputs/value@32",
                                    "inputs/sampling_locations@40",
                                    "inputs/attention_weights@48",
                                    "inputs/spatial_shapes@56",
                                    "@96"};
    if (scratch == 2) wanted.push_back("@104");
    EXPECT_EQ(describe_pointers(std::get<Call>(decoded).pointers), wanted);
  }
}

TEST(MsdaTriton, ElementTypeIsNeverGuessed) {
  const ReadDevice read = device(kSeen.table);
  Launch launch = kSeen.launch();
  for (const msda_dtype type : {MSDA_FLOAT16, MSDA_BFLOAT16, MSDA_FLOAT32, MSDA_FLOAT64}) {
    launch.float_type = type;
    EXPECT_EQ(std::get<Call>(decode(launch, read)).outputs[0].type, type);
  }
  launch.float_type = MSDA_INT32;
  EXPECT_THAT(reason(decode(launch, read)), HasSubstr("floating-point"));
  launch.float_type.reset();
  EXPECT_THAT(reason(decode(launch, read)), HasSubstr("element type"));
}

// Each of the 128 ways for sizes to be 1.
TEST(MsdaTriton, SizesOfOneAreFound) {
  size_t found = 0;
  for (unsigned ones = 0; ones < 128; ++ones) {
    std::vector<int32_t> sizes{2, 26, 8, 7, 3, 2, 5};
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (ones >> i & 1) sizes[i] = 1;
    }
    const auto [S, C, N, H, L, P] = std::array{sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6]};
    if (S == 1 && L > 1) continue;  // impossible: every level has a pixel
    // After a table of one pixel there is other memory.
    const auto table = S == 1   ? std::vector<int64_t>{1, 1, 0, 0, 0, 0, 0, 0, 0, 0}
                       : L == 1 ? std::vector<int64_t>{13, 2}
                                : std::vector<int64_t>{4, 5, 3, 2};
    std::string words;
    for (const int32_t size : sizes) words += std::to_string(size) + " ";
    // With nothing between them, one number is the channels as well as the points.
    const bool ambiguous = N == 1 && H == 1 && L == 1 && (C == 1) != (P == 1);
    const std::string decoded = describe_sizes(Triton::of(sizes, table).decoded());
    EXPECT_THAT(decoded, ambiguous ? testing::Matcher<std::string>(HasSubstr("2 ways")) : testing::Eq(words)) << words;
    found += !ambiguous;
  }
  EXPECT_EQ(found, 128u - 32 - 8);
}

TEST(MsdaTriton, AmbiguousSizesAreRefused) {
  // 32 pixels of one channel on two levels, or one pixel of 32 channels with two points.
  EXPECT_THAT(reason(Triton::of({2, 32, 1, 7, 3, 2, 1}, {1, 1, 31, 1}).decoded()), HasSubstr("2 ways"));
  EXPECT_THAT(reason(Triton::of({2, 1, 32, 7, 3, 1, 2}, {1, 1, 31, 1}).decoded()), HasSubstr("2 ways"));
  // Ambiguous: four channels or four points.
  EXPECT_THAT(reason(Triton::of({1, 1, 4, 1, 1, 1, 1}, {1, 1}).decoded()), HasSubstr("2 ways"));
}

TEST(MsdaTriton, ReadsNoFurtherThanTheTable) {
  // 16 might be the levels, but the one level that can be read is all of S.
  EXPECT_EQ(describe_sizes(Triton::of({2, 26, 8, 7, 3, 1, 16}, {13, 2}).decoded()), "2 26 8 7 3 1 16 ");
}

TEST(MsdaTriton, GridThatDisagreesIsRefused) {
  for (size_t i = 0; i < 3; ++i) {
    for (const uint32_t another : {0u, 1u, 5u}) {
      Triton triton = kSeen;
      triton.grid[i] = another;
      EXPECT_THAT(reason(triton.decoded()), HasSubstr("grid")) << i << " " << another;
    }
  }
}

TEST(MsdaTriton, OtherParametersAreRefused) {
  Triton triton = kSeen;
  for (const size_t scratch : {0, 3}) {
    triton.scratch = scratch;
    EXPECT_THAT(reason(triton.decoded()), HasSubstr("scratch"));
  }
  triton = kSeen;
  triton.integers.push_back(2);
  EXPECT_THAT(reason(triton.decoded()), HasSubstr("up to 7 integers"));
  triton = kSeen;
  triton.integers[6] = 1;
  EXPECT_THAT(reason(triton.decoded()), HasSubstr("below 2"));
  triton.integers[6] = -3;
  EXPECT_THAT(reason(triton.decoded()), HasSubstr("below 2"));
  triton.integers[6] = std::numeric_limits<int32_t>::max();  // larger than memory, but it can be counted
  EXPECT_EQ(reason(triton.decoded()), "not refused");

  const ReadDevice read = device(kSeen.table);
  Launch launch = kSeen.launch();
  launch.parameters.clear();
  EXPECT_THAT(reason(decode(launch, read)), HasSubstr("unknown size"));
  launch = kSeen.launch();
  launch.parameters[9].size = 8;
  EXPECT_THAT(reason(decode(launch, read)), HasSubstr("scratch"));
  launch = kSeen.launch();
  launch.bytes.resize(launch.bytes.size() - 1);
  EXPECT_THAT(reason(decode(launch, read)), HasSubstr("scratch"));
  for (size_t i = 0; i < 8; ++i) {
    launch = kSeen.launch();
    std::memset(&launch.bytes[launch.parameters[i].offset], 0, 8);
    EXPECT_THAT(reason(decode(launch, read)), HasSubstr("null")) << i;
  }
  EXPECT_EQ(adapter_for("triton_multi_scale_deformable_attention_fwd_kernel"), nullptr);
}

TEST(MsdaTriton, OtherTablesAreRefused) {
  Triton triton = kSeen;
  triton.table[7] = 7;
  EXPECT_THAT(reason(triton.decoded()), HasSubstr("spatial_shapes"));
  triton.table = {64, 64, 32, 32, 16, 16, -8, -8};
  EXPECT_THAT(reason(triton.decoded()), HasSubstr("spatial_shapes"));
  triton.table = {int64_t{1} << 62, 4, 32, 32, 16, 16, 8, 8};
  EXPECT_THAT(reason(triton.decoded()), HasSubstr("spatial_shapes"));
  triton.table.resize(4);
  EXPECT_THAT(reason(triton.decoded()), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace msda::adapters
