// Images for the kernels of a survey: with the instructions that a real one has.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tests/device/made_cubin.h"
#include "tests/stand_in_driver/survey_kernels.h"

namespace msda::stand_in {

using Code = std::span<const uint64_t>;                                         // two words of an instruction
constexpr uint64_t kPlain[] = {0x0000000000007918, 0x000fc00000000000};         // NOP
constexpr uint64_t kReadsAddress[] = {0x01000000ff027b82, 0x000fe20000000a00};  // LDC.64 R2, c[0x4][RZ]

// An image that has its kernel's code, as a real one does; with a variable if the kernel has one.
inline std::string image_of(const std::string& kernel, Code code, bool has_variable) {
  using record::test::Section;
  std::vector<Section> others;
  if (has_variable) {
    constexpr uint16_t kSectionOfVariables = 2;  // after the null section and the code
    others.push_back({".nv.global", SHT_NOBITS, ""});
    Elf64_Sym variable{};
    variable.st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT);
    variable.st_shndx = kSectionOfVariables;
    variable.st_size = sizeof(int);
    // The names of sections: a zero, ".text.<kernel>", ".nv.global", ".symtab", and then this one.
    variable.st_name = static_cast<uint32_t>(1 + 6 + kernel.size() + 1 + 11 + 8);
    others.push_back({".symtab", SHT_SYMTAB, record::test::bytes_of(variable)});
    others.push_back({kCounter, SHT_NOTE, ""});
    // Its address is the first in the bank of addresses.
    others.push_back({".rela.nv.constant4", SHT_RELA, record::test::bytes_of(Elf64_Rela{})});
  }
  return record::test::make_cubin({kernel}, std::string(reinterpret_cast<const char*>(code.data()), code.size_bytes()),
                                  others);
}

}  // namespace msda::stand_in
