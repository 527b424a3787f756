// Cubins made for tests.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace msda::record::test {

template <class T>
std::string bytes_of(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

struct Section {
  std::string name;
  uint32_t type;
  std::string content;
};

// An ELF file with a section .text.<name> for each name, and others: header, contents, names, section headers.
inline std::string make_cubin(const std::vector<std::string>& functions, const std::string& code = "code",
                              const std::vector<Section>& others = {}) {
  std::string names(1, '\0');
  std::vector<Elf64_Shdr> sections(1);
  std::string body;
  const auto add = [&](const std::string& name, uint32_t type, const std::string& content) {
    Elf64_Shdr section{};
    section.sh_name = static_cast<uint32_t>(names.size());
    section.sh_type = type;
    section.sh_offset = sizeof(Elf64_Ehdr) + body.size();
    section.sh_size = content.size();
    names += name + '\0';
    body += content;
    sections.push_back(section);
  };
  for (const std::string& function : functions) add(".text." + function, SHT_PROGBITS, code);
  for (const Section& another : others) add(another.name, another.type, another.content);
  add(".nv.shared", SHT_NOBITS, "");
  sections.back().sh_size = 1 << 20;  // takes no space in the file
  add(".shstrtab", SHT_STRTAB, "");
  sections.back().sh_size = names.size();
  body += names;
  for (Elf64_Shdr& section : sections) section.sh_link = static_cast<uint32_t>(sections.size() - 1);  // the names
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = 190;
  header.e_shoff = sizeof header + body.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<uint16_t>(sections.size());
  header.e_shstrndx = static_cast<uint16_t>(sections.size() - 1);
  std::string file = bytes_of(header) + body;
  for (const Elf64_Shdr& section : sections) file += bytes_of(section);
  return file;
}

}  // namespace msda::record::test
