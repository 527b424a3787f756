#include "recorder/device/parameters_read.h"

#include <algorithm>
#include <optional>
#include <string>

#include "recorder/device/cubin.h"
#include "recorder/device/instruction_words.h"
#include "recorder/device/instructions.h"

namespace msda::record {
namespace {

constexpr unsigned kLoad = 0x182, kLoadUniform = 0x0B9,
                   kLoadUniformLater = 0x1AC;  // LDC, ULDC, and LDCU from sm_100 on

bool loads(const InstructionWords& words) {
  return words.opcode() == kLoad || words.opcode() == kLoadUniform || words.opcode() == kLoadUniformLater;
}

// Returns 1, 1, 2, 2, 4, 8 or 16 bytes by bits 9 to 11 of the upper word of a load.
unsigned bytes_loaded(const InstructionWords& words) {
  constexpr unsigned kBytes[] = {1, 1, 2, 2, 4, 8, 16, 16};
  return kBytes[words.bits(9, 3)];
}

// Returns the bytes that other instructions take as an operand: MOV, SEL, FSEL, FMNMX, FSETP, ISETP, IADD3, LEA, LOP3,
// PRMT, IMNMX, SHF, FMUL, FADD, FFMA, IMAD and VIADD take 4 bytes, and some others 8.
unsigned bytes_of_operand(unsigned opcode) {
  constexpr unsigned kOfFour[] = {0x002, 0x007, 0x008, 0x009, 0x00B, 0x00C, 0x010, 0x011, 0x012,
                                  0x016, 0x017, 0x019, 0x020, 0x021, 0x023, 0x024, 0x036};
  return std::ranges::find(kOfFour, opcode) != std::end(kOfFour) ? 4 : 8;
}

// Returns where in bank 0 the address of the parameters in memory lies, by where they begin: of sm_70 to sm_89, of
// sm_90, and from sm_100 on; nothing if they begin elsewhere. A kernel that takes the address hands it on, to a
// function or to hardware, as that of a tensor map; its code does not show which parameters are read then.
std::optional<unsigned> place_of_address(unsigned begin) {
  switch (begin) {
    case 0x160:
      return 0x40;
    case 0x210:
      return 0x198;
    case 0x380:
      return 0x348;
    default:
      return std::nullopt;
  }
}

// Returns whether a load computes its place. ULDC has another field there, which is 0 where it does not.
bool is_indexed(const InstructionWords& words) {
  if (words.opcode() == kLoadUniform) return words.address() != 0 && words.address() != InstructionWords::kNoRegister;
  return loads(words) && words.address() != InstructionWords::kNoRegister;
}

}  // namespace

std::vector<bool> parameters_read_by(std::span<const std::byte> cubin, std::string_view kernel,
                                     std::string_view architecture, size_t bytes) {
  const std::vector<bool> all(bytes, true);
  const auto begin = parameters_begin(cubin, kernel);
  const auto address = begin ? place_of_address(*begin) : std::nullopt;
  if (!address || !decodable_architecture(architecture)) return all;
  std::vector<bool> read(bytes, false);
  bool is_known = true;
  for (const std::string_view function : functions_run_by(cubin, kernel)) {
    for_each_instruction(code_of(cubin, function), [&](uint64_t, std::span<const std::byte, kInstructionBytes> code) {
      const InstructionWords words(code);
      if (words.constant_bank() != 0u) return;
      const unsigned offset = words.constant_offset();
      const unsigned size = loads(words) ? bytes_loaded(words) : bytes_of_operand(words.opcode());
      const bool takes_address = offset < *address + sizeof(uint64_t) && offset + size > *address;
      if (takes_address || is_indexed(words)) is_known = false;
      for (unsigned at = offset; at < offset + size; ++at) {
        if (at >= *begin && at - *begin < bytes) read[at - *begin] = true;
      }
    });
  }
  const bool reads_any = std::ranges::find(read, true) != read.end();
  return is_known && reads_any ? read : all;
}

}  // namespace msda::record
