#include "recorder/device/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>

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

// Visits each section with its name, its header and its number.
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
    if (end != rest.npos) visit(rest.substr(0, end), header, i);
  }
}

// Visits each section .text.<name> with the name and its header.
template <class Visit>
void for_each_function(std::span<const std::byte> cubin, Visit&& visit) {
  constexpr std::string_view kPrefix = ".text.";
  for_each_section(cubin, [&](std::string_view name, const Elf64_Shdr& header, uint64_t) {
    if (name.starts_with(kPrefix)) visit(name.substr(kPrefix.size()), header);
  });
}

}  // namespace

std::span<const std::byte> section_of(std::span<const std::byte> cubin, std::string_view wanted) {
  std::span<const std::byte> content;
  for_each_section(cubin, [&](std::string_view name, const Elf64_Shdr& header, uint64_t) {
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

namespace {

// A symbol, its name and its number in its table.
struct Symbol {
  Elf64_Sym entry;
  std::string_view name;
  uint64_t number;
};

// Returns the text in `strings` that begins there.
std::string_view text_at(std::string_view strings, uint64_t at) {
  if (at >= strings.size()) return {};
  const std::string_view rest = strings.substr(at);
  return rest.substr(0, rest.find('\0'));
}

// Visits the symbols, until `visit` returns true.
template <class Visit>
void for_each_symbol(std::span<const std::byte> cubin, Visit&& visit) {
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
      const auto entry = read<Elf64_Sym>(cubin.data() + table.sh_offset + number * sizeof(Elf64_Sym));
      if (visit(Symbol{entry, text_at(text, entry.st_name), number})) return;
    }
  }
}

// Visits the contents of the attributes of one kind of a function (.nv.info.<function>). Each attribute has a byte of
// form, a byte of kind, and 16 bits, which are the size of what follows if the form is 4; others are left out.
template <class Visit>
void for_each_attribute(std::span<const std::byte> attributes, std::byte kind, Visit&& visit) {
  constexpr size_t kHead = 4;
  constexpr auto kSized = std::byte{4};
  while (attributes.size() >= kHead) {
    const bool is_sized = attributes[0] == kSized;
    const size_t bytes = is_sized ? read<uint16_t>(attributes.data() + 2) : 0;
    const bool is_of_kind = is_sized && attributes[1] == kind;
    attributes = attributes.subspan(kHead);
    if (bytes > attributes.size()) break;
    if (is_of_kind) visit(attributes.first(bytes));
    attributes = attributes.subspan(bytes);
  }
}

// Returns what it needs from outside: the numbers of symbols.
std::set<uint64_t> externals_in(std::span<const std::byte> attributes) {
  constexpr auto kExternals = std::byte{0x0F};
  std::set<uint64_t> numbers;
  for_each_attribute(attributes, kExternals, [&](std::span<const std::byte> content) {
    for (size_t at = 0; at + sizeof(uint32_t) <= content.size(); at += sizeof(uint32_t)) {
      numbers.insert(read<uint32_t>(content.data() + at));
    }
  });
  return numbers;
}

}  // namespace

std::optional<uint64_t> symbol_of(std::span<const std::byte> cubin, std::string_view function) {
  std::optional<uint64_t> found;
  for_each_symbol(cubin, [&](const Symbol& symbol) {
    if (ELF64_ST_TYPE(symbol.entry.st_info) == STT_FUNC && symbol.name == function) found = symbol.number;
    return found.has_value();
  });
  return found;
}

namespace {

bool is_variable(const Symbol& symbol) {
  return ELF64_ST_TYPE(symbol.entry.st_info) == STT_OBJECT && symbol.entry.st_size > 0;
}

// Returns the numbers of the sections whose names begin so.
std::set<uint64_t> sections_called(std::span<const std::byte> cubin, std::string_view prefix) {
  std::set<uint64_t> numbers;
  for_each_section(cubin, [&](std::string_view name, const Elf64_Shdr&, uint64_t number) {
    if (name.starts_with(prefix)) numbers.insert(number);
  });
  return numbers;
}

std::set<uint64_t> sections_of_variables(std::span<const std::byte> cubin) {
  return sections_called(cubin, ".nv.global");  // and .nv.global.init
}

std::set<std::string_view> kernels_in(std::span<const std::byte> cubin) {
  constexpr unsigned char kEntry = 0x10;  // of a symbol's st_other: a kernel, and no function that one may call
  std::set<std::string_view> kernels;
  for_each_symbol(cubin, [&](const Symbol& symbol) {
    if ((symbol.entry.st_other & kEntry) != 0) kernels.insert(symbol.name);
    return false;
  });
  return kernels;
}

// Returns the relocations of a section: the number of the symbol, by the offset.
std::multimap<uint64_t, uint64_t> relocations_of(std::span<const std::byte> cubin, std::string_view section) {
  std::multimap<uint64_t, uint64_t> symbols;
  for_each_section(cubin, [&](std::string_view name, const Elf64_Shdr& header, uint64_t) {
    const bool has_addends = header.sh_type == SHT_RELA;
    const uint64_t bytes = has_addends ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    if ((!has_addends && header.sh_type != SHT_REL) ||
        name != (has_addends ? ".rela" : ".rel") + std::string(section) ||
        !fits(header.sh_offset, header.sh_size, cubin.size())) {
      return;
    }
    for (uint64_t at = 0; at + bytes <= header.sh_size; at += bytes) {
      const auto entry = read<Elf64_Rel>(cubin.data() + header.sh_offset + at);  // an Elf64_Rela begins so, too
      symbols.emplace(entry.r_offset, ELF64_R_SYM(entry.r_info));
    }
  });
  return symbols;
}

std::vector<Variable> variables_in_sections(std::span<const std::byte> cubin, const std::set<uint64_t>& memory) {
  std::vector<Variable> variables;
  for_each_symbol(cubin, [&](const Symbol& symbol) {
    if (is_variable(symbol) && memory.contains(symbol.entry.st_shndx)) {
      variables.push_back({symbol.name, symbol.entry.st_size});
    }
    return false;
  });
  return variables;
}

}  // namespace

std::vector<Variable> variables_in(std::span<const std::byte> cubin) {
  return variables_in_sections(cubin, sections_of_variables(cubin));
}

std::vector<Variable> constants_in(std::span<const std::byte> cubin) {
  return variables_in_sections(cubin, sections_called(cubin, ".nv.constant3"));
}

std::multimap<uint64_t, Variable> variables_relocated_in(std::span<const std::byte> cubin, std::string_view section) {
  std::multimap<uint64_t, Variable> found;
  const auto relocations = relocations_of(cubin, section);
  if (relocations.empty()) return found;
  const auto memory = sections_of_variables(cubin);
  std::map<uint64_t, Variable> variables;  // by number
  for_each_symbol(cubin, [&](const Symbol& symbol) {
    if (memory.contains(symbol.entry.st_shndx)) variables[symbol.number] = {symbol.name, symbol.entry.st_size};
    return false;
  });
  for (const auto& [offset, number] : relocations) {
    if (const auto variable = variables.find(number); variable != variables.end()) {
      found.emplace(offset, variable->second);
    }
  }
  return found;
}

std::optional<unsigned> parameters_begin(std::span<const std::byte> cubin, std::string_view kernel) {
  constexpr auto kBank = std::byte{0x0A};  // the number of a symbol, where they begin, and their size
  std::optional<unsigned> begin;
  const auto attributes = section_of(cubin, ".nv.info." + std::string(kernel));
  for_each_attribute(attributes, kBank, [&](std::span<const std::byte> content) {
    if (content.size() >= 2 * sizeof(uint32_t)) begin = read<uint16_t>(content.data() + sizeof(uint32_t));
  });
  return begin;
}

std::vector<unsigned> parameter_sizes(std::span<const std::byte> cubin, std::string_view kernel) {
  constexpr auto kParameter =
      std::byte{0x17};  // a number, its place and offset, and a word whose upper bits are the size
  std::map<unsigned, unsigned> sizes;
  const auto attributes = section_of(cubin, ".nv.info." + std::string(kernel));
  for_each_attribute(attributes, kParameter, [&](std::span<const std::byte> content) {
    if (content.size() < 3 * sizeof(uint32_t)) return;
    sizes[read<uint16_t>(content.data() + sizeof(uint32_t))] =
        read<uint32_t>(content.data() + 2 * sizeof(uint32_t)) >> 18;
  });
  std::vector<unsigned> all;
  for (const auto& [place, size] : sizes) all.push_back(size);
  return all;
}

std::vector<std::string_view> functions_run_by(std::span<const std::byte> cubin, std::string_view kernel) {
  const auto kernels = kernels_in(cubin);
  auto functions = functions_in(cubin);
  std::erase_if(functions, [&](auto function) { return function != kernel && kernels.contains(function); });
  return functions;
}

std::set<std::string_view> functions_called_by(std::span<const std::byte> cubin, std::string_view kernel) {
  constexpr std::string_view kPrefix = ".nv.info.";
  const auto kernels = kernels_in(cubin);
  std::set<std::string_view> names;
  std::set<uint64_t> numbers;
  for_each_section(cubin, [&](std::string_view name, const Elf64_Shdr& header, uint64_t) {
    if (!name.starts_with(kPrefix) || !fits(header.sh_offset, header.sh_size, cubin.size())) return;
    const std::string_view function = name.substr(kPrefix.size());
    if (function != kernel && kernels.contains(function)) return;
    numbers.merge(externals_in(cubin.subspan(header.sh_offset, header.sh_size)));
  });
  for_each_symbol(cubin, [&](const Symbol& symbol) {
    if (numbers.contains(symbol.number)) names.insert(symbol.name);
    return false;
  });
  return names;
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
