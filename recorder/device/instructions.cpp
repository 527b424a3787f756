#include "recorder/device/instructions.h"

#include <charconv>

#include "recorder/device/cubin.h"

namespace msda::record {
namespace {

constexpr int kHopper = 90;

// The type of an atomic's operands where one opcode stands for integers and floating-point numbers. From Hopper on
// these have opcodes of their own, and the same numbers mean other integers.
bool has_float_type(const InstructionWords& words, int architecture) {
  constexpr unsigned kF32 = 3, kF16x2 = 4, kF64 = 6;
  const unsigned type = words.bits(9, 3);
  return architecture < kHopper && (type == kF32 || type == kF16x2 || type == kF64);
}

}  // namespace

std::optional<int> decodable_architecture(std::string_view name) {
  constexpr std::string_view kSm = "sm_";
  constexpr int kOldest = 70, kNewest = 129;
  if (!name.starts_with(kSm)) return std::nullopt;
  int number = 0;
  if (std::from_chars(name.data() + kSm.size(), name.data() + name.size(), number).ec != std::errc()) {
    return std::nullopt;
  }
  return number >= kOldest && number <= kNewest ? std::optional(number) : std::nullopt;
}

bool atomic_fields_are_known(int architecture) {
  constexpr int kAmpere = 80, kBlackwell = 100, kLast = 121;
  return (architecture >= kAmpere && architecture <= kHopper) || (architecture >= kBlackwell && architecture <= kLast);
}

std::optional<Atomic> atomic_in(std::span<const std::byte, kInstructionBytes> instruction, int architecture) {
  using enum Atomic::Kind;
  const InstructionWords words(instruction);
  switch (words.opcode()) {
    case 0x18A:
      return Atomic{kGlobal, "ATOM", has_float_type(words, architecture)};
    case 0x18B:  // CAS
      return Atomic{kGlobal, "ATOM", true};
    case 0x18C:
      return Atomic{kShared, "ATOMS", false};
    case 0x18D:  // CAS
      return Atomic{kShared, "ATOMS", true};
    case 0x18E:
      return Atomic{kReduction, "RED", has_float_type(words, architecture)};
    case 0x1A8:
      return Atomic{kGlobal, "ATOMG", has_float_type(words, architecture)};
    case 0x1A9:  // CAS
      return Atomic{kGlobal, "ATOMG", true};
    default:
      break;
  }
  if (architecture < kHopper) return std::nullopt;
  switch (words.opcode()) {
    case 0x1A2:
      return Atomic{kGlobal, "ATOM", true};
    case 0x1A3:
      return Atomic{kGlobal, "ATOMG", true};
    case 0x1A6:
      return Atomic{kReduction, "RED", true};
    case 0x1B6: {  // of a tensor's tile: add, min and max come first
      constexpr unsigned kMax = 2;
      return Atomic{kReduction, "UTMAREDG", words.bits(23, 3) <= kMax};
    }
    case 0x1BB: {  // of a block of memory: types of integers come first
      constexpr unsigned kF16 = 4;
      return Atomic{kReduction, "UBLKRED", words.bits(17, 4) >= kF16};
    }
    case 0x1BE:  // in a cluster's shared memory
      return Atomic{kReduction, "REDAS", false};
    default:
      return std::nullopt;
  }
}

InstructionCounts count_instructions(std::span<const std::byte> cubin, std::string_view function,
                                     std::string_view architecture) {
  constexpr unsigned kFfma = 0x023, kDfma = 0x02B, kFfma2 = 0x049, kBranch = 0x147, kNop = 0x118;
  const auto number = decodable_architecture(architecture);
  const std::span<const std::byte> code = number ? code_of(cubin, function) : std::span<const std::byte>();
  if (code.size() < kInstructionBytes) return {};
  int64_t instructions = 0, padding = 0, fused = 0, reductions = 0, global = 0, shared = 0, floats = 0;
  for_each_instruction(code, [&](uint64_t, std::span<const std::byte, kInstructionBytes> instruction) {
    const unsigned opcode = InstructionWords(instruction).opcode();
    ++instructions;
    // Code ends in a branch to itself, padded with NOP.
    padding = opcode == kNop ? padding + 1 : opcode == kBranch ? 1 : 0;
    fused += opcode == kFfma || opcode == kDfma || opcode == kFfma2;
    const auto atomic = atomic_in(instruction, *number);
    if (!atomic) return;
    reductions += atomic->kind == Atomic::Kind::kReduction;
    global += atomic->kind == Atomic::Kind::kGlobal;
    shared += atomic->kind == Atomic::Kind::kShared;
    floats += atomic->may_be_float;
  });
  return {{"instructions", instructions - padding},
          {"fused_multiply_adds", fused},
          {"reductions", reductions},
          {"global_atomics", global},
          {"shared_atomics", shared},
          {"float_atomics", floats},
          {"atomics", reductions + global + shared}};
}

}  // namespace msda::record
