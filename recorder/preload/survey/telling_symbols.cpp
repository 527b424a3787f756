#include "recorder/preload/survey/telling_symbols.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "recorder/adapters/made_once.h"

namespace msda::record {
namespace {

bool is_telling(std::string_view mangled) {
  constexpr std::string_view kParts[] = {"2at4_ops", "5torch8autograd9generated", "6vision3ops"};
  return std::ranges::any_of(kParts, [&](auto part) { return mangled.find(part) != mangled.npos; });
}

// A library's list of the functions that it exports.
struct DynamicSymbols {
  const ElfW(Sym) * first = nullptr;
  const char* names = nullptr;
  size_t count = 0;
};

// Returns the last symbol of a GNU hash table's chains, and so how many symbols there are.
size_t count_in(const uint32_t* table) {
  const uint32_t buckets = table[0], first = table[1], words = table[2];
  const auto* bucket = table + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* const chain = bucket + buckets;
  uint32_t last = 0;
  for (uint32_t i = 0; i < buckets; ++i) last = std::max(last, bucket[i]);
  if (last < first) return first;
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

DynamicSymbols symbols_of(const ElfW(Dyn) * entry) {
  DynamicSymbols symbols;
  for (; entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) value = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) symbols.first = reinterpret_cast<const ElfW(Sym)*>(value);
    if (entry->d_tag == DT_STRTAB) symbols.names = reinterpret_cast<const char*>(value);
    if (entry->d_tag == DT_GNU_HASH) symbols.count = count_in(reinterpret_cast<const uint32_t*>(value));
  }
  if (symbols.first == nullptr || symbols.names == nullptr) symbols.count = 0;
  return symbols;
}

struct Library {
  uint64_t base = 0, begin = ~uint64_t{0}, end = 0;
  const ElfW(Dyn) * dynamic = nullptr;
};

// Returns the loaded libraries. The kernel's own library, the vDSO, has a table that is not relocated.
std::vector<Library> loaded_libraries() {
  std::vector<Library> libraries;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* all) {
        Library library{info->dlpi_addr};
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          const uint64_t begin = info->dlpi_addr + header.p_vaddr;
          if (header.p_type == PT_LOAD) {
            library.begin = std::min(library.begin, begin);
            library.end = std::max(library.end, begin + header.p_memsz);
          }
          if (header.p_type == PT_DYNAMIC) library.dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
        }
        const bool is_kernels = std::string_view(info->dlpi_name).find("vdso") != std::string_view::npos;
        if (!is_kernels) static_cast<std::vector<Library>*>(all)->push_back(library);
        return 0;
      },
      &libraries);
  return libraries;
}

}  // namespace

TellingSymbols& TellingSymbols::instance() {
  static constinit MadeOnce<TellingSymbols> symbols;
  return symbols.get();
}

void TellingSymbols::read_libraries() {
  for (const Library& library : loaded_libraries()) {
    const bool is_new = libraries_.try_emplace(library.begin, library.end).second;
    if (!is_new || library.dynamic == nullptr) continue;
    const DynamicSymbols symbols = symbols_of(library.dynamic);
    for (size_t i = 0; i < symbols.count; ++i) {
      const ElfW(Sym)& symbol = symbols.first[i];
      const char* const name = symbols.names + symbol.st_name;
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF || !is_telling(name)) continue;
      const uint64_t begin = library.base + symbol.st_value;
      symbols_.insert_or_assign(begin, Symbol{begin + symbol.st_size, name});
    }
  }
}

std::string TellingSymbols::name_of(uint64_t at) {
  const auto has = [at](const auto& ranges, auto end_of) {
    const auto after = ranges.upper_bound(at);
    const bool has_one = after != ranges.begin() && at < end_of(std::prev(after)->second);
    return has_one ? std::prev(after) : ranges.end();
  };
  const std::lock_guard lock(mutex_);
  const auto library_end = [](uint64_t end) { return end; };
  if (has(libraries_, library_end) == libraries_.end()) {
    read_libraries();
    libraries_.try_emplace(at, at + 1);  // if it is in none, as code that the program made
  }
  const auto symbol = has(symbols_, [](const Symbol& entry) { return entry.end; });
  return symbol != symbols_.end() ? symbol->second.name : "";
}

}  // namespace msda::record
