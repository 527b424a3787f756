// The two 64-bit words of an instruction of sm_70 to sm_129, and the fields in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace msda::record {

inline constexpr size_t kInstructionBytes = 16;

struct InstructionWords {
  static constexpr unsigned kNoRegister = 0xFF;  // RZ: reads as zero, and drops what is written to it

  uint64_t low = 0, high = 0;

  InstructionWords() = default;
  explicit InstructionWords(std::span<const std::byte, kInstructionBytes> bytes) {
    std::memcpy(&low, bytes.data(), sizeof low);
    std::memcpy(&high, bytes.data() + sizeof low, sizeof high);
  }
  void store(std::span<std::byte, kInstructionBytes> bytes) const {
    std::memcpy(bytes.data(), &low, sizeof low);
    std::memcpy(bytes.data() + sizeof low, &high, sizeof high);
  }

  static unsigned field(uint64_t word, unsigned first, unsigned count) {
    return static_cast<unsigned>(word >> first) & ((1u << count) - 1);
  }
  static void set_field(uint64_t& word, unsigned first, unsigned count, unsigned value) {
    const uint64_t mask = ((uint64_t{1} << count) - 1) << first;
    word = (word & ~mask) | ((uint64_t{value} << first) & mask);
  }

  unsigned opcode() const { return field(low, 0, 9); }
  // Returns which operands are registers, constants or uniform registers.
  unsigned operand_form() const { return field(low, 9, 3); }
  // Returns the bank of the constant that is an operand; nothing if none is.
  std::optional<unsigned> constant_bank() const {
    constexpr unsigned kThirdIsConstant = 3, kSecondIsConstant = 5;
    const bool has_one = operand_form() == kThirdIsConstant || operand_form() == kSecondIsConstant;
    return has_one ? std::optional(field(low, 54, 5)) : std::nullopt;
  }
  // Returns where in the bank it lies, in bytes.
  unsigned constant_offset() const {
    constexpr unsigned kLoadUniform = 0x1AC;  // LDCU, of sm_100 on
    return field(low, opcode() == kLoadUniform ? 37 : 38, 16);
  }
  unsigned destination() const { return field(low, 16, 8); }
  unsigned address() const { return field(low, 24, 8); }
  unsigned data() const { return field(low, 32, 8); }
  // Returns bits of the upper word.
  unsigned bits(unsigned first, unsigned count) const { return field(high, first, count); }
};

// Calls visit(offset, bytes) for each instruction; an incomplete last one is left out.
template <class Visit>
void for_each_instruction(std::span<const std::byte> code, Visit&& visit) {
  for (size_t offset = 0; code.size() - offset >= kInstructionBytes; offset += kInstructionBytes) {
    visit(uint64_t{offset}, code.subspan(offset).first<kInstructionBytes>());
  }
}

}  // namespace msda::record
