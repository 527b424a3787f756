// What the parser finds in images, and that it reads nothing beyond them.
#include "recorder/device/cubin.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "recorder/device/source_lines.h"
#include "tests/device/made_cubin.h"
#include "tests/support/in_a_folder.h"

namespace msda::record {
namespace {

using test::bytes_of;
using test::make_cubin;
using test::Section;
using testing::ElementsAre;
using testing::IsEmpty;

std::string make_entry(uint16_t kind, uint32_t architecture, const std::string& content) {
  std::string entry = bytes_of(kind) + bytes_of(uint16_t{0x101}) + bytes_of(uint32_t{64}) +
                      bytes_of(uint64_t{content.size()}) + std::string(12, '\0') + bytes_of(architecture);
  entry.resize(64);
  return entry + content;
}
std::string make_fatbin(const std::string& entries) {
  return bytes_of(uint32_t{0xBA55ED50}) + bytes_of(uint16_t{1}) + bytes_of(uint16_t{16}) +
         bytes_of(uint64_t{entries.size()}) + entries;
}

// Bytes that end at the end of a page, after which nothing is readable.
class Guarded {
 public:
  explicit Guarded(const std::string& content) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t pages = (content.size() + page - 1) / page + 1;
    size_ = pages * page;
    memory_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory_ + size_ - page, page, PROT_NONE);
    bytes_ = content.size();
    data_ = memory_ + size_ - page - bytes_;
    std::memcpy(data_, content.data(), bytes_);
  }
  ~Guarded() { munmap(memory_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  const void* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  char *memory_, *data_;
  size_t size_, bytes_;
};

std::string text(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

TEST(Cubin, IsFoundWithItsSizeAndFunctions) {
  const std::string file = make_cubin({"first", "_Z6secondv"});
  const Guarded image(file);
  const auto cubins = cubins_in(image.data());
  ASSERT_EQ(cubins.size(), 1u);
  EXPECT_EQ(text(cubins[0].bytes), file);
  EXPECT_EQ(cubins[0].architecture, 0);
  EXPECT_THAT(functions_in(cubins[0].bytes), ElementsAre("first", "_Z6secondv"));
}

TEST(Cubin, OtherImagesHaveNone) {
  for (const std::string& another :
       {std::string("stand-in\n"), std::string("//\n.version 8.0"), std::string(4, '\0')}) {
    EXPECT_THAT(cubins_in(Guarded(another).data()), IsEmpty());
  }
  EXPECT_THAT(cubins_in(nullptr), IsEmpty());
  std::string host = make_cubin({"f"});
  host[offsetof(Elf64_Ehdr, e_machine)] = EM_X86_64;
  EXPECT_THAT(cubins_in(Guarded(host).data()), IsEmpty());
}

TEST(Cubin, CutShortIsNone) {
  const std::string file = make_cubin({"f"});
  for (size_t size = 0; size < file.size(); ++size) {
    const Guarded image(file.substr(0, size));
    EXPECT_THAT(cubin_at(image.data(), size), IsEmpty()) << size;
  }
}

TEST(Cubin, DamageIsNeverReadPast) {
  const std::string file = make_cubin({"f", "g"});
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = file;
    for (int hits = 1 + static_cast<int>(random() % 3); hits > 0; --hits) {
      const char values[] = {'\0', '\x7f', '\xff', static_cast<char>(random())};
      damaged[random() % damaged.size()] = values[random() % 4];
    }
    const Guarded image(damaged);
    functions_in(cubin_at(image.data(), image.size()));
    std::string fatbin = make_fatbin(make_entry(2, 90, file) + make_entry(2, 80, file));
    fatbin[16 + random() % (fatbin.size() - 16)] = static_cast<char>(random());
    const Guarded whole(fatbin);
    for (const Cubin& cubin : cubins_in(whole.data())) functions_in(cubin.bytes);
  }
}

TEST(Cubin, AFatbinHasOneForEachArchitecture) {
  const std::string a = make_cubin({"f"}, "for 90"), b = make_cubin({"f"}, "for 80");
  const std::string compressed = "\x28\xb5\x2f\xfd and so on";
  const Guarded image(make_fatbin(make_entry(2, 90, a) + make_entry(2, 100, compressed) +
                                  make_entry(1, 90, "//\n.version 8.0") + make_entry(2, 80, b)));
  const auto cubins = cubins_in(image.data());
  ASSERT_EQ(cubins.size(), 2u);
  EXPECT_EQ(text(cubins[0].bytes), a);
  EXPECT_EQ(text(cubins[1].bytes), b);
  EXPECT_EQ(cubins[0].architecture, 90);
  EXPECT_EQ(cubins[1].architecture, 80);
  struct {
    uint32_t magic = 0x466243B1, version = 1;
    const void* fatbin;
    const void* name = nullptr;
  } wrapper{.fatbin = image.data()};
  EXPECT_EQ(cubins_in(&wrapper).size(), 2u);
}

// The first words of instructions, which nvdisasm 13.2 shows to be the same for sm_90, sm_100 and sm_120.
TEST(Atomics, OfWholeBlocksAreFoundFromHopperOn) {
  const std::vector<std::pair<uint64_t, std::string>> instructions{
      {0x06080073bb, "UBLKRED"}, {0x04080073b6, "UTMAREDG"}, {0x0006007dbe, "REDAS"}, {0x05020079a6, "RED"},
      {0x04080073b5, ""},        {0x06080073ba, ""},         {0x00000079b7, ""}};  // stores, copies, a flush
  std::string code;
  std::vector<std::string> expected;
  for (const auto& [word, opcode] : instructions) {
    code += bytes_of(word) + std::string(8, '\0');
    if (!opcode.empty()) expected.push_back(opcode);
  }
  const std::string file = make_cubin({"f"}, code);
  const auto found = [&](int architecture) {
    std::vector<std::string> opcodes;
    for (const auto& atomic : atomics_in(std::as_bytes(std::span(file)), "f", "sm_" + std::to_string(architecture))) {
      opcodes.emplace_back(atomic.opcode);
    }
    return opcodes;
  };
  for (const int architecture : {90, 100, 120}) EXPECT_EQ(found(architecture), expected) << architecture;
  EXPECT_THAT(found(80), IsEmpty());
}

constexpr uint64_t kRed = 0x798e;  // the first word of RED

// The function f: `atomics` instructions, all of file 1, line 1, of a line table with one folder and these files.
std::string with_lines(size_t atomics, const std::string& folder, const std::vector<std::string>& files) {
  std::string code;
  for (size_t i = 0; i < atomics; ++i) code += bytes_of(kRed) + std::string(8, '\0');
  std::string header{1, 1, 0, 1, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1};
  header += folder + '\0' + '\0';
  for (const std::string& file : files) header += file + std::string{'\0', 1, 0, 0};
  header += '\0';
  std::string unit = bytes_of(uint16_t{2}) + bytes_of(static_cast<uint32_t>(header.size())) + header;
  unit += std::string{0, 9, 2};
  const uint64_t place = 4 + unit.size();
  unit += std::string(8, '\0') + std::string{1, 0, 1, 1};
  Elf64_Sym symbol{};
  symbol.st_name = 7;  // in ".text.f"
  symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  return make_cubin({"f"}, code,
                    {{".debug_line", SHT_PROGBITS, bytes_of(static_cast<uint32_t>(unit.size())) + unit},
                     {".rel.debug_line", SHT_REL, bytes_of(place) + bytes_of(uint64_t{1} << 32)},
                     {".symtab", SHT_SYMTAB, bytes_of(Elf64_Sym{}) + bytes_of(symbol)}});
}
std::vector<AtomicInstruction> atomics_of(const std::string& cubin) {
  return atomics_in(std::as_bytes(std::span(cubin)), "f", "sm_90");
}

TEST(Atomics, HaveTheLinesOfTheTable) {
  const auto atomics = atomics_of(with_lines(2, "/src", {"k.cu", "other.cu"}));
  ASSERT_EQ(atomics.size(), 2u);
  for (const auto& atomic : atomics) EXPECT_THAT(atomic.lines, ElementsAre(SourceLine{"/src/k.cu", 1}));
}

TEST(SourceLines, OfAnyInstruction) {
  const std::string cubin = with_lines(2, "/src", {"k.cu", "other.cu"});
  const std::vector<uint64_t> offsets{16, 0, 8, uint64_t{1} << 63};
  const auto lines = source_lines_at(std::as_bytes(std::span(cubin)), "f", offsets);
  ASSERT_EQ(lines.size(), offsets.size());
  for (const auto& line : lines) EXPECT_THAT(line, ElementsAre(SourceLine{"/src/k.cu", 1}));
  EXPECT_THAT(source_lines_at(std::as_bytes(std::span(cubin)), "f", {}), IsEmpty());
  EXPECT_THAT(source_lines_at(std::as_bytes(std::span(cubin)), "g", offsets),
              ElementsAre(IsEmpty(), IsEmpty(), IsEmpty(), IsEmpty()));
}

// A small file must not become a large one in memory.
TEST(Atomics, NamesTakeNoMoreMemoryThanTheyMay) {
  const auto peak = [] {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;  // KiB
  };
  const std::string bomb = with_lines(2, std::string(400'000, 'd'), std::vector<std::string>(3000, "f"));
  const auto before = peak();
  for (const auto& atomic : atomics_of(bomb)) EXPECT_THAT(atomic.lines, IsEmpty());
  size_t reported = 0;
  for (const auto& atomic : atomics_of(with_lines(30000, std::string(4000, 'd'), {"f"}))) {
    for (const SourceLine& line : atomic.lines) reported += line.file.size();
  }
  EXPECT_GT(reported, size_t{15} << 20);
  EXPECT_LE(reported, size_t{16} << 20);
  EXPECT_LT(peak() - before, 200 << 10);
}

// Attributes of a kernel: each parameter's, the last one first, as nvcc writes them.
TEST(Cubin, SizesOfParameters) {
  const auto parameter = [](uint16_t place, uint16_t offset, uint32_t size) {
    const uint16_t places[] = {place, offset};
    const uint32_t number = 0, header = 0x000c1704, word = size << 18 | 0x1f000;
    return test::bytes_of(header) + test::bytes_of(number) + test::bytes_of(places) + test::bytes_of(word);
  };
  const std::string attributes = parameter(2, 16, 8) + parameter(1, 4, 12) + parameter(0, 0, 4);
  const Guarded image(test::make_cubin({"k", "none"}, "code", {{".nv.info.k", SHT_PROGBITS, attributes}}));
  const auto cubin = cubins_in(image.data())[0].bytes;
  EXPECT_THAT(parameter_sizes(cubin, "k"), ElementsAre(4, 12, 8));
  EXPECT_THAT(parameter_sizes(cubin, "none"), IsEmpty());
  // An attribute that is cut short is none.
  const Guarded cut(test::make_cubin({"k"}, "code", {{".nv.info.k", SHT_PROGBITS, attributes.substr(0, 20)}}));
  EXPECT_THAT(parameter_sizes(cubins_in(cut.data())[0].bytes, "k"), testing::SizeIs(testing::Le(1)));
}

// As the real tools write them.
TEST(Cubin, OfNvcc) {
  if (access("/usr/local/cuda/bin/nvcc", X_OK) != 0) GTEST_SKIP() << "no nvcc here";
  const tests::TemporaryFolder temporary;
  const std::string folder = temporary.path.string();
  std::ofstream(folder + "/k.cu") << "__device__ int x; extern \"C\" __global__ void k(int* p) { *p = x; }\n";
  const auto run = [&](const std::string& options) {
    return std::system(("cd " + folder + " && /usr/local/cuda/bin/nvcc k.cu " + options).c_str());
  };
  ASSERT_EQ(run("-cubin -arch=sm_90 -o k.cubin"), 0);
  ASSERT_EQ(run("-fatbin --compress-mode=none -gencode arch=compute_90,code=[sm_90,compute_90] "
                "-gencode arch=compute_80,code=sm_80 -o plain.fatbin"),
            0);
  ASSERT_EQ(run("-fatbin --compress-mode=size -arch=sm_90 -o small.fatbin"), 0);
  const auto read = [&](const std::string& name) {
    std::ifstream file(folder + "/" + name, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const std::string cubin = read("k.cubin");
  const Guarded plain(read("plain.fatbin")), alone(cubin), small(read("small.fatbin"));
  ASSERT_EQ(cubins_in(alone.data()).size(), 1u);
  EXPECT_EQ(text(cubins_in(alone.data())[0].bytes), cubin);
  EXPECT_THAT(functions_in(cubins_in(alone.data())[0].bytes), ElementsAre("k"));
  EXPECT_THAT(cubins_in(small.data()), IsEmpty());
  const auto cubins = cubins_in(plain.data());
  ASSERT_EQ(cubins.size(), 2u);
  EXPECT_EQ(cubins[0].architecture + cubins[1].architecture, 170);
  for (const Cubin& entry : cubins) EXPECT_THAT(functions_in(entry.bytes), ElementsAre("k"));
}

}  // namespace
}  // namespace msda::record
