#include "recorder/device/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

namespace msda::record {
namespace {

constexpr uint16_t kMachineCuda = 190;          // EM_CUDA
constexpr size_t kMost = size_t{1} << 31;       // no image is larger
constexpr uint64_t kMostSections = 1 << 24;     // 1 GiB of section headers
constexpr uint32_t kFatbinMagic = 0xBA55ED50;   // of a fatbin
constexpr uint32_t kWrapperMagic = 0x466243B1;  // fatbinary_section.h: FATBINC_MAGIC

// fatbinary_section.h: __fatBinC_Wrapper_t.
struct Wrapper {
  uint32_t magic, version;
  const void* fatbin;
};

// Headers of a fatbin and of each of its entries. No CUDA header declares them; the layout is that of fatbinary in CUDA
// 11 to 13.
struct FatbinHeader {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // of what follows the header
};
struct EntryHeader {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes;  // of what follows the header
  uint32_t compressed_bytes, options_offset;
  uint16_t minor, major;
  uint32_t architecture, name_offset, name_bytes;
  uint64_t flags;
};
static_assert(sizeof(FatbinHeader) == 16 && offsetof(EntryHeader, architecture) == 28 &&
              offsetof(EntryHeader, flags) == 40);
constexpr uint16_t kEntryElf = 2;

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

bool fits(uint64_t offset, uint64_t bytes, uint64_t limit) { return offset <= limit && bytes <= limit - offset; }

struct Sections {
  uint64_t offset, count, names;  // where the headers are, how many, and which section has the names
};

std::optional<Sections> sections_of(const std::byte* elf, size_t limit) {
  if (limit < sizeof(Elf64_Ehdr) || std::memcmp(elf, ELFMAG, SELFMAG) != 0) return std::nullopt;
  const auto header = read<Elf64_Ehdr>(elf);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != kMachineCuda || header.e_shentsize != sizeof(Elf64_Shdr) ||
      !fits(header.e_shoff, sizeof(Elf64_Shdr), limit)) {
    return std::nullopt;
  }
  Sections sections{header.e_shoff, header.e_shnum, header.e_shstrndx};
  const auto first = read<Elf64_Shdr>(elf + sections.offset);  // has the numbers that are too large for the header
  if (sections.count == 0) sections.count = first.sh_size;
  if (sections.names == SHN_XINDEX) sections.names = first.sh_link;
  if (sections.count == 0 || sections.count > kMostSections || sections.names >= sections.count ||
      !fits(sections.offset, sections.count * sizeof(Elf64_Shdr), limit)) {
    return std::nullopt;
  }
  return sections;
}

Elf64_Shdr section(const std::byte* elf, const Sections& sections, uint64_t index) {
  return read<Elf64_Shdr>(elf + sections.offset + index * sizeof(Elf64_Shdr));
}

std::vector<Cubin> cubins_in_fatbin(const std::byte* at) {
  std::vector<Cubin> cubins;
  const auto header = read<FatbinHeader>(at);
  if (header.header_bytes < sizeof header || header.bytes > kMost) return cubins;
  at += header.header_bytes;
  size_t left = header.bytes;
  while (left >= sizeof(EntryHeader)) {
    const auto entry = read<EntryHeader>(at);
    if (entry.header_bytes < sizeof entry || !fits(entry.header_bytes, entry.bytes, left)) break;
    // A compressed entry is no ELF file.
    const auto cubin =
        entry.kind == kEntryElf ? cubin_at(at + entry.header_bytes, entry.bytes) : std::span<const std::byte>();
    if (!cubin.empty()) cubins.push_back({cubin, static_cast<int>(entry.architecture)});
    at += entry.header_bytes + entry.bytes;
    left -= entry.header_bytes + entry.bytes;
  }
  return cubins;
}

}  // namespace

std::span<const std::byte> cubin_at(const void* image, size_t bytes) {
  const auto* elf = static_cast<const std::byte*>(image);
  const auto sections = sections_of(elf, bytes);
  if (!sections) return {};
  const auto header = read<Elf64_Ehdr>(elf);
  uint64_t end = sections->offset + sections->count * sizeof(Elf64_Shdr);
  const auto reach = [&](uint64_t offset, uint64_t size) {
    if (!fits(offset, size, bytes)) return false;
    end = std::max(end, offset + size);
    return true;
  };
  if (header.e_phnum > 0 && !reach(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr))) return {};
  for (uint64_t i = 0; i < sections->count; ++i) {
    const Elf64_Shdr section_header = section(elf, *sections, i);
    if (section_header.sh_type != SHT_NOBITS && section_header.sh_type != SHT_NULL &&
        !reach(section_header.sh_offset, section_header.sh_size))
      return {};
  }
  return {elf, end};
}

std::vector<Cubin> cubins_in(const void* image) {
  const auto* at = static_cast<const std::byte*>(image);
  if (at == nullptr) return {};
  if (read<uint32_t>(at) == kWrapperMagic) {
    at = static_cast<const std::byte*>(read<Wrapper>(at).fatbin);
    if (at == nullptr) return {};
  }
  if (read<uint32_t>(at) == kFatbinMagic) return cubins_in_fatbin(at);
  if (std::memcmp(at, ELFMAG, SELFMAG) != 0) return {};
  const auto cubin = cubin_at(at, kMost);
  if (cubin.empty()) return {};
  return {{cubin, 0}};
}

namespace {

// Visits each section with its name and its header.
template <class Visit>
void for_each_section(std::span<const std::byte> cubin, Visit&& visit) {
  const auto sections = sections_of(cubin.data(), cubin.size());
  if (!sections) return;
  const Elf64_Shdr strings = section(cubin.data(), *sections, sections->names);
  if (!fits(strings.sh_offset, strings.sh_size, cubin.size())) return;
  const std::string_view text(reinterpret_cast<const char*>(cubin.data()) + strings.sh_offset, strings.sh_size);
  for (uint64_t i = 0; i < sections->count; ++i) {
    const Elf64_Shdr header = section(cubin.data(), *sections, i);
    if (header.sh_name >= text.size()) continue;
    const std::string_view rest = text.substr(header.sh_name);
    const size_t end = rest.find('\0');
    if (end != rest.npos) visit(rest.substr(0, end), header);
  }
}

// Visits each section .text.<name> with the name and its header.
template <class Visit>
void for_each_function(std::span<const std::byte> cubin, Visit&& visit) {
  constexpr std::string_view kPrefix = ".text.";
  for_each_section(cubin, [&](std::string_view name, const Elf64_Shdr& header) {
    if (name.starts_with(kPrefix)) visit(name.substr(kPrefix.size()), header);
  });
}

}  // namespace

std::span<const std::byte> section_of(std::span<const std::byte> cubin, std::string_view wanted) {
  std::span<const std::byte> content;
  for_each_section(cubin, [&](std::string_view name, const Elf64_Shdr& header) {
    if (name != wanted || !content.empty() || header.sh_type == SHT_NOBITS ||
        !fits(header.sh_offset, header.sh_size, cubin.size())) {
      return;
    }
    content = cubin.subspan(header.sh_offset, header.sh_size);
  });
  return content;
}

std::vector<std::string_view> functions_in(std::span<const std::byte> cubin) {
  std::vector<std::string_view> names;
  for_each_function(cubin, [&](std::string_view name, const Elf64_Shdr&) { names.push_back(name); });
  return names;
}

std::optional<uint64_t> symbol_of(std::span<const std::byte> cubin, std::string_view function) {
  const auto sections = sections_of(cubin.data(), cubin.size());
  for (uint64_t i = 0; sections && i < sections->count; ++i) {
    const Elf64_Shdr table = section(cubin.data(), *sections, i);
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections->count ||
        !fits(table.sh_offset, table.sh_size, cubin.size())) {
      continue;
    }
    const Elf64_Shdr strings = section(cubin.data(), *sections, table.sh_link);
    if (!fits(strings.sh_offset, strings.sh_size, cubin.size())) continue;
    const std::string_view text(reinterpret_cast<const char*>(cubin.data()) + strings.sh_offset, strings.sh_size);
    for (uint64_t number = 0; number < table.sh_size / sizeof(Elf64_Sym); ++number) {
      const auto symbol = read<Elf64_Sym>(cubin.data() + table.sh_offset + number * sizeof(Elf64_Sym));
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_name >= text.size()) continue;
      const std::string_view rest = text.substr(symbol.st_name);
      if (rest.substr(0, rest.find('\0')) == function) return number;
    }
  }
  return std::nullopt;
}

std::span<const std::byte> code_of(std::span<const std::byte> cubin, std::string_view function) {
  std::span<const std::byte> code;
  for_each_function(cubin, [&](std::string_view name, const Elf64_Shdr& header) {
    if (name != function || header.sh_type == SHT_NOBITS || !fits(header.sh_offset, header.sh_size, cubin.size()))
      return;
    code = cubin.subspan(header.sh_offset, header.sh_size);
  });
  return code;
}

}  // namespace msda::record
