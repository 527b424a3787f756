#include "tests/stand_in_driver/image.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "tests/stand_in_driver/survey_kernels.h"

namespace msda::stand_in {
namespace {

template <class T>
T at(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

Image read_text(std::string_view text) {
  Image image;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.starts_with("cubin ")) {
      std::ifstream file(std::string(line.substr(6)), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      image.cubin.resize(bytes.size());
      std::memcpy(image.cubin.data(), bytes.data(), bytes.size());
    } else {
      image.codes.push_back(find_kernel_code(line));
      if (!image.codes.back()) return {};
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return image;
}

// For PTX only the names of the kernels.
Image read_ptx(std::string_view text) {
  constexpr std::string_view kEntry = "\n.visible .entry ";
  Image image;
  for (size_t at = text.find(kEntry); at != text.npos; at = text.find(kEntry, at + 1)) {
    const std::string_view name = text.substr(at + kEntry.size());
    image.codes.push_back(find_kernel_code(name.substr(0, name.find('('))));
    if (!image.codes.back()) return {};
  }
  return image;
}

Image read_cubin(const char* elf) {
  Image image;
  const auto header = at<Elf64_Ehdr>(elf);
  const auto section = [&](size_t i) { return at<Elf64_Shdr>(elf + header.e_shoff + i * sizeof(Elf64_Shdr)); };
  const char* names = elf + section(header.e_shstrndx).sh_offset;
  uint64_t end = header.e_shoff + header.e_shnum * sizeof(Elf64_Shdr);
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr entry = section(i);
    const std::string_view name = names + entry.sh_name;
    if (entry.sh_type != SHT_NOBITS) end = std::max(end, entry.sh_offset + entry.sh_size);
    if (!name.starts_with(".text.")) continue;
    const KernelCode* code = as_written(find_kernel_code(name.substr(6)), elf + entry.sh_offset, entry.sh_size);
    if (code != nullptr) image.codes.push_back(code);
  }
  if (header.e_phnum) end = std::max(end, header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr));
  image.cubin.resize(end);
  std::memcpy(image.cubin.data(), elf, end);
  return image;
}

Image read_fatbin(const char* fatbin) {
  const char* entry = fatbin + at<uint16_t>(fatbin + 6);
  const char* end = entry + at<uint64_t>(fatbin + 8);
  while (entry < end) {
    const auto header_bytes = at<uint32_t>(entry + 4);
    if (at<uint16_t>(entry) == 2 && at<uint32_t>(entry + 28) == 90) return read_cubin(entry + header_bytes);
    entry += header_bytes + at<uint64_t>(entry + 8);
  }
  return {};
}

}  // namespace

Image read_image(const void* image) {
  constexpr std::string_view kText = "stand-in\n";
  const auto* bytes = static_cast<const char*>(image);
  if (!std::strncmp(bytes, kText.data(), kText.size())) return read_text(bytes + kText.size());
  if (!std::strncmp(bytes, ELFMAG, SELFMAG)) return read_cubin(bytes);
  if (!std::strncmp(bytes, "\x50\xed\x55\xba", 4)) return read_fatbin(bytes);
  if (std::strstr(bytes, "\n.version ") != nullptr) return read_ptx(bytes);
  return {};
}

}  // namespace msda::stand_in
