#include "recorder/device/communication.h"

#include "recorder/device/cubin.h"

namespace msda::record {
namespace {

// The encodings are what ptxas 13.0 makes of PTX's loads, stores, fences and atomics of each scope and order for sm_80,
// 86, 89, 90, 100, 103, 120 and 121, with the names that nvdisasm 13.5 prints. tests/device/listed_communication.h has
// them. All of these architectures have the same.

// Bits 13 to 16 of the upper word of loads, stores and atomics: order and scope. Weak ones have 0, those of a block 5.
// ptxas makes no kGpuPrivate and no kMmioGpu of PTX; they are nvdisasm's names.
bool is_strong_beyond_a_block(const InstructionWords& words) {
  constexpr unsigned kGpuPrivate = 6, kGpu = 7, kMmioGpu = 8, kSystem = 10, kMmioSystem = 12;
  switch (words.bits(13, 4)) {
    case kGpuPrivate:
    case kGpu:
    case kMmioGpu:
    case kSystem:
    case kMmioSystem:
      return true;
    default:
      return false;
  }
}

// Bits 12 to 14 of MEMBAR: the scope. Block, multiprocessor, device, system.
bool is_fence_beyond_a_block(const InstructionWords& words) {
  constexpr unsigned kGpu = 2, kSystem = 3;
  const unsigned scope = words.bits(12, 3);
  return scope == kGpu || scope == kSystem;
}

// Returns the name that an atomic on global memory counts under, or null.
const char* kind_of_atomic(const InstructionWords& words, const Atomic& atomic) {
  constexpr unsigned kExchange = 8;
  const bool compares = words.opcode() == 0x18B || words.opcode() == 0x1A9;
  if (compares) return "compare_and_swaps";
  const bool joint = words.opcode() == 0x18A || words.opcode() == 0x1A8;  // not of floating-point numbers alone
  if (joint && words.bits(23, 4) == kExchange) return "exchanges";
  if (words.destination() == InstructionWords::kNoRegister) return nullptr;
  return atomic.may_be_float ? "used_float_atomics" : "used_integer_atomics";
}

// Returns the name that an instruction counts under, or null.
const char* kind_of(std::span<const std::byte, kInstructionBytes> instruction, int architecture) {
  constexpr int kBlackwell = 100;  // the first with loads and stores of 256 bits
  const InstructionWords words(instruction);
  if (words.opcode() == 0x192) return is_fence_beyond_a_block(words) ? "fences" : nullptr;
  if (!is_strong_beyond_a_block(words)) return nullptr;
  switch (words.opcode()) {
    case 0x17E:
      return architecture >= kBlackwell ? "strong_loads" : nullptr;
    case 0x17F:
      return architecture >= kBlackwell ? "strong_stores" : nullptr;
    case 0x180:
    case 0x181:
      return "strong_loads";
    case 0x185:
    case 0x186:
      return "strong_stores";
    default:
      break;
  }
  const auto atomic = atomic_in(instruction, architecture);
  return atomic && atomic->kind == Atomic::Kind::kGlobal ? kind_of_atomic(words, *atomic) : nullptr;
}

// Returns whether what counts under this name reads. Stores and fences alone hand on nothing that a block reads.
bool reads(std::string_view kind) { return kind != "strong_stores" && kind != "fences"; }

}  // namespace

std::optional<Communication> communication_in(std::span<const std::byte> cubin, std::string_view function,
                                              std::string_view architecture) {
  const auto number = decodable_architecture(architecture);
  if (!number || !atomic_fields_are_known(*number)) return std::nullopt;
  const auto code = code_of(cubin, function);
  if (code.size() < kInstructionBytes) return std::nullopt;
  Communication found{{{"compare_and_swaps", 0},
                       {"exchanges", 0},
                       {"used_integer_atomics", 0},
                       {"used_float_atomics", 0},
                       {"strong_loads", 0},
                       {"strong_stores", 0},
                       {"fences", 0}}};
  for_each_instruction(code, [&](uint64_t, std::span<const std::byte, kInstructionBytes> instruction) {
    if (const char* kind = kind_of(instruction, *number)) ++found.counts[kind];
  });
  for (const auto& [name, count] : found.counts) {
    found.may_communicate = found.may_communicate || (count > 0 && reads(name));
  }
  return found;
}

std::vector<CommunicatingInstruction> communicating_in(std::span<const std::byte> cubin, std::string_view function,
                                                       std::string_view architecture) {
  std::vector<CommunicatingInstruction> found;
  const auto number = decodable_architecture(architecture);
  if (!number || !atomic_fields_are_known(*number)) return found;
  for_each_instruction(code_of(cubin, function),
                       [&](uint64_t offset, std::span<const std::byte, kInstructionBytes> instruction) {
                         const char* kind = kind_of(instruction, *number);
                         if (kind != nullptr && reads(kind)) found.push_back({offset, kind});
                       });
  return found;
}

}  // namespace msda::record
