#include "recorder/writer/program_file.h"

#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

namespace msda::record {
namespace {

namespace fs = std::filesystem;

// An ELF file, of which no offset or size is trusted. One of 32 bits has neither segments nor names here.
class Elf {
 public:
  explicit Elf(std::ifstream& file) : file_(file), header_(read<Elf64_Ehdr>(0)) {
    if (!is_64_bits()) return;
    for (uint64_t i = 0; i < header_.e_phnum; ++i) {
      segments_.push_back(read<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr)));
    }
  }

  bool is_64_bits() const { return header_.e_ident[EI_CLASS] == ELFCLASS64; }
  uint16_t machine() const { return header_.e_machine; }  // at the same place in files of 32 bits

  bool has(uint32_t type) const { return std::ranges::find(segments_, type, &Elf64_Phdr::p_type) != segments_.end(); }

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

  std::ifstream& file_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Phdr> segments_;
};

// The program and its arguments after #!.
std::string interpreter_of(std::ifstream& file) {
  constexpr size_t kLongest = 256;  // as Linux reads it
  char line[kLongest] = {};
  file.clear();
  file.seekg(2);
  file.read(line, kLongest - 1);
  std::string_view text(line);
  text = text.substr(0, text.find('\n'));
  const size_t begin = text.find_first_not_of(" \t");
  return begin == text.npos ? std::string() : std::string(text.substr(begin));
}

}  // namespace

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

ProgramFile read_program(const fs::path& path) {
  ProgramFile program;
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return program;  // opening a FIFO would wait
  program.changes_user =
      (status.st_mode & (S_ISUID | S_ISGID)) != 0 || getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return program;
  char magic[SELFMAG] = {};
  file.read(magic, sizeof magic);
  file.clear();
  program.kind = ProgramFile::Kind::kOther;
  if (std::memcmp(magic, "#!", 2) == 0) {
    program.kind = ProgramFile::Kind::kScript;
    program.interpreter = interpreter_of(file);
  } else if (std::memcmp(magic, ELFMAG, SELFMAG) == 0) {
    Elf elf(file);
    program.kind = elf.is_64_bits() ? ProgramFile::Kind::kElf : ProgramFile::Kind::kOtherElf;
    program.machine = elf.machine();
    program.has_interpreter = elf.has(PT_INTERP);
    program.dynamic_names = elf.dynamic_names();
  }
  return program;
}

bool ProgramFile::imports(std::string_view symbol) const {
  return dynamic_names.find(std::string(1, '\0') + std::string(symbol) + '\0') != std::string::npos;
}

}  // namespace msda::record
