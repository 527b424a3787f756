#include "recorder/writer/sanitizers.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

namespace msda::record {
namespace {

namespace fs = std::filesystem;

// The file that execvp would run; empty if there is none.
fs::path find_program(const std::string& program) {
  if (program.find('/') != program.npos) return program;
  const char* path = getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/bin:/usr/bin";
  for (;;) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const fs::path candidate = fs::path(rest.substr(0, end)) / program;
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored) && access(candidate.c_str(), X_OK) == 0) return candidate;
    if (end == rest.size()) return {};
    rest.remove_prefix(end + 1);
  }
}

// A 64-bit ELF file. Any other file has no dynamic symbols.
class Elf {
 public:
  explicit Elf(const fs::path& path) {
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) return;  // opening a FIFO would wait
    file_.open(path, std::ios::binary);
    const auto header = read<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return;
    for (uint64_t i = 0; i < header.e_phnum; ++i) {
      segments_.push_back(read<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr)));
    }
  }

  // The names of its dynamic symbols, and of the libraries that it needs, each after a zero byte.
  std::string dynamic_names() {
    const auto dynamic = std::ranges::find(segments_, uint32_t{PT_DYNAMIC}, &Elf64_Phdr::p_type);
    if (dynamic == segments_.end()) return {};
    uint64_t address = 0, size = 0;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->p_filesz && file_; at += sizeof(Elf64_Dyn)) {
      const auto entry = read<Elf64_Dyn>(dynamic->p_offset + at);
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_STRTAB) address = entry.d_un.d_ptr;
      if (entry.d_tag == DT_STRSZ) size = entry.d_un.d_val;
    }
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz) {
        return bytes(segment.p_offset + (address - segment.p_vaddr), size);
      }
    }
    return {};
  }

 private:
  static constexpr uint64_t kLargestTable = 256 << 20;

  template <class T>
  T read(uint64_t offset) {
    T value{};
    if (!file_.seekg(static_cast<std::streamoff>(offset)) || !file_.read(reinterpret_cast<char*>(&value), sizeof value))
      return {};
    return value;
  }
  // Memory grows as data arrive: the declared size is not trusted.
  std::string bytes(uint64_t offset, uint64_t size) {
    std::string all;
    char chunk[1 << 16];
    file_.seekg(static_cast<std::streamoff>(offset));
    for (uint64_t left = std::min(size, kLargestTable); left > 0 && file_;
         left -= std::min(left, uint64_t{sizeof chunk})) {
      file_.read(chunk, static_cast<std::streamsize>(std::min(left, uint64_t{sizeof chunk})));
      all.append(chunk, static_cast<size_t>(file_.gcount()));
    }
    return all;
  }

  std::ifstream file_;
  std::vector<Elf64_Phdr> segments_;
};

}  // namespace

std::string why_not_recordable(const std::string& program) {
  constexpr std::string_view kMemorySanitizer("\0__msan_init\0", 13);
  if (Elf(find_program(program)).dynamic_names().find(kMemorySanitizer) == std::string::npos) return {};
  return program +
         " is built with the memory sanitizer, which would report everything that the recorder writes as "
         "uninitialized; "
         "record a build without -fsanitize=memory";
}

void set_sanitizer_options() {
  for (const auto& [name, option] : {std::pair{"ASAN_OPTIONS", "verify_asan_link_order=0"},
                                     std::pair{"TSAN_OPTIONS", "ignore_noninstrumented_modules=1"}}) {
    const char* asked = getenv(name);
    setenv(name, (asked != nullptr && *asked != 0 ? fmt::format("{}:{}", option, asked) : option).c_str(), 1);
  }
}

}  // namespace msda::record
