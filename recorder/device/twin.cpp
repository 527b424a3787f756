#include "recorder/device/twin.h"

#include <iterator>

#include "recorder/device/cubin.h"
#include "recorder/device/instructions.h"

namespace msda::record {
namespace {

// The encodings are what ptxas 13.0 makes of PTX for sm_80, 86, 87, 88, 89, 90, 100, 103, 110, 120 and 121: kernels
// that add the same operands as floating-point numbers and as integers differ in these fields only. nvdisasm 13.5 has
// their names. tests/device/listed_twins.h has the words, and compiled_twin_test.cpp compiles them anew where ptxas is.
//
// Fields of the upper word, by their bits:
//   7       below sm_100: no uniform register is added to the address
//   9-12    the type of the operands; from sm_90 on, that of integers is 9-11
//   12, 26  from sm_100 on, ATOM and ATOMG: as 7; bit 12 of integers, bit 26 of floating-point numbers
//   17      from sm_100 on, RED: as 7
//   23-25   the operation of integers, below sm_90 also of floating-point numbers; in ATOM and ATOMG, 26 is EXCH
//   24-25   the operation of floating-point numbers from sm_90 on: ADD, MIN, MAX
//   27      the address is a pair of registers
constexpr int kFirstSeparate = 90;  // floating-point numbers have opcodes and types of their own
constexpr int kBlackwell = 100;     // uniform registers have eight bits, which moves others

struct Opcode {
  const char* name;
  unsigned of_floats, of_integers;
};
constexpr Opcode kSeparate[] = {{"ATOM", 0x1A2, 0x18A}, {"ATOMG", 0x1A3, 0x1A8}, {"RED", 0x1A6, 0x18E}};
constexpr Opcode kJoint[] = {{"ATOM", 0x18A, 0x18A}, {"ATOMG", 0x1A8, 0x1A8}, {"RED", 0x18E, 0x18E}};
constexpr unsigned kRed = 0x18E, kGeneric = 0x18A;

struct FloatType {
  unsigned number;
  const char* name;  // of an element
  int elements;
  int bits;  // of all elements
};
constexpr FloatType kSeparateTypes[] = {
    {0, "f16", 2, 32},   {1, "f16", 4, 64}, {2, "f16", 8, 128}, {3, "bf16", 2, 32},  {4, "bf16", 4, 64},
    {5, "bf16", 8, 128}, {9, "f32", 1, 32}, {10, "f32", 2, 64}, {11, "f32", 4, 128}, {15, "f64", 1, 64}};
constexpr FloatType kJointTypes[] = {{3, "f32", 1, 32}, {4, "f16", 2, 32}, {6, "f64", 1, 64}};
constexpr unsigned kF16x8 = 2, kBf16x8 = 5;

// An instruction that adds floating-point numbers to global memory.
struct GlobalAddition {
  Opcode opcode;
  FloatType type;
};

std::optional<GlobalAddition> global_addition_in(const InstructionWords& words, int architecture) {
  constexpr unsigned kUniformForm = 4;  // the only one that ptxas makes
  const bool separate = architecture >= kFirstSeparate;
  const std::span opcodes = separate ? std::span<const Opcode>(kSeparate) : std::span<const Opcode>(kJoint);
  const std::span types =
      separate ? std::span<const FloatType>(kSeparateTypes) : std::span<const FloatType>(kJointTypes);
  for (const Opcode& opcode : opcodes) {
    if (words.opcode() != opcode.of_floats || words.operand_form() != kUniformForm) continue;
    const bool exchanges = opcode.of_integers != kRed && architecture < kBlackwell && words.bits(26, 1) != 0;
    if (words.bits(23, 3) != 0 || exchanges) return std::nullopt;
    for (const FloatType& type : types) {
      if (words.bits(9, 4) == type.number) return GlobalAddition{opcode, type};
    }
  }
  return std::nullopt;
}

bool uses_result(const InstructionWords& words, const Opcode& opcode) {
  return opcode.of_integers != kRed && words.destination() != InstructionWords::kNoRegister;
}

// Returns whether the address is a pair of general registers to which no uniform register is added.
bool has_address_in_registers(const InstructionWords& words, const Opcode& opcode, int architecture) {
  const unsigned alone = architecture < kBlackwell ? 7 : opcode.of_integers == kRed ? 17 : 26;
  return words.bits(27, 1) != 0 && words.bits(alone, 1) != 0 && words.address() % 2 == 0;  // RZ is odd
}

const char* why_no_twin(const GlobalAddition& addition, const InstructionWords& words, int architecture,
                        TwinOperation operation) {
  const int elements = addition.type.elements, bits = addition.type.bits;
  const bool adds_32_bits = operation == TwinOperation::kCount || operation == TwinOperation::kNothing;
  if (adds_32_bits && bits > 32 && uses_result(words, addition.opcode)) {
    return "more than 32 bits of the result are used";
  }
  switch (operation) {
    case TwinOperation::kAdd:
    case TwinOperation::kXor:
      return bits > 64 ? "integers have no such vector" : nullptr;
    case TwinOperation::kCount:
      return has_address_in_registers(words, addition.opcode, architecture) ? nullptr
                                                                            : "the address is not in two registers";
    case TwinOperation::kGreatest:
    case TwinOperation::kLeast:
      if (elements > 1 && bits > 32) return "integers would compare a vector's elements all at once";
      if (elements > 1 && architecture < kFirstSeparate) return "pairs have no maximum before sm_90";
      return elements > 1 && addition.opcode.of_integers == kGeneric ? "generic addresses have no maximum of pairs"
                                                                     : nullptr;
    case TwinOperation::kMax:
    case TwinOperation::kNothing:
      return nullptr;
  }
  return nullptr;
}

// Returns the type and the operation of a twin, as numbers of the fields.
InstructionWords with_integers(InstructionWords words, const Opcode& opcode, int architecture, unsigned type,
                               unsigned operation) {
  unsigned alone = 0;
  if (architecture >= kBlackwell && opcode.of_integers != kRed) {
    alone = words.bits(26, 1);
    InstructionWords::set_field(words.high, 26, 1, 0);
  }
  InstructionWords::set_field(words.low, 0, 9, opcode.of_integers);
  InstructionWords::set_field(words.high, 9, 4, type | alone << 3);
  InstructionWords::set_field(words.high, 23, 3, operation);
  return words;
}

// Returns the greatest or the least addend.
InstructionWords with_extremes(InstructionWords words, const GlobalAddition& addition, int architecture,
                               bool is_greatest) {
  constexpr unsigned kU32 = 0, kS32 = 1, kU64 = 2, kMin = 1, kMax = 2;
  if (addition.type.elements > 1) {
    InstructionWords::set_field(words.high, 24, 2, is_greatest ? kMax : kMin);
    return words;
  }
  const unsigned s64 = architecture >= kFirstSeparate ? 3 : 5;
  const unsigned is_signed = addition.type.bits == 32 ? kS32 : s64,
                 is_unsigned = addition.type.bits == 32 ? kU32 : kU64;
  return with_integers(words, addition.opcode, architecture, is_greatest ? is_signed : is_unsigned, kMax);
}

InstructionWords twin_words(const GlobalAddition& addition, InstructionWords words, int architecture,
                            TwinOperation operation) {
  constexpr unsigned kU32 = 0, kU64 = 2, kAdd = 0, kMax = 2, kXor = 7;
  const unsigned type = addition.type.bits == 32 ? kU32 : kU64;
  switch (operation) {
    case TwinOperation::kAdd:
      return with_integers(words, addition.opcode, architecture, type, kAdd);
    case TwinOperation::kXor:
      return with_integers(words, addition.opcode, architecture, type, kXor);
    case TwinOperation::kMax:
      if (addition.type.bits <= 64) return with_integers(words, addition.opcode, architecture, type, kMax);
      InstructionWords::set_field(words.high, 9, 4, addition.type.number == kF16x8 ? kF16x8 : kBf16x8);
      InstructionWords::set_field(words.high, 24, 2, kMax);
      return words;
    case TwinOperation::kCount:
      InstructionWords::set_field(words.low, 32, 8, words.address() + 1);
      return with_integers(words, addition.opcode, architecture, kU32, kAdd);
    case TwinOperation::kGreatest:
    case TwinOperation::kLeast:
      return with_extremes(words, addition, architecture, operation == TwinOperation::kGreatest);
    case TwinOperation::kNothing:
      InstructionWords::set_field(words.low, 32, 8, InstructionWords::kNoRegister);
      return with_integers(words, addition.opcode, architecture, kU32, kAdd);
  }
  return words;
}

// Returns why another atomic that may be of floating-point numbers has no twin; null if it adds nothing.
const char* why_other_has_none(const InstructionWords& words) {
  constexpr unsigned kAdd = 0, kWeak = 0;
  switch (words.opcode()) {
    case 0x18B:
      if (words.bits(13, 4) == kWeak)
        return "compare-and-swap in shared memory of a cluster: a loop around it may make a sum";
      return "compare-and-swap: a loop around it may make a sum";
    case 0x1A9:
      return "compare-and-swap: a loop around it may make a sum";
    case 0x18D:
      return "compare-and-swap in shared memory: a loop around it may make a sum";
    case 0x1B6:
      return words.bits(23, 3) == kAdd ? "adds a tensor's tile; the tensor map has the type" : nullptr;
    case 0x1BB:
      return words.bits(23, 3) == kAdd ? "adds a block of memory" : nullptr;
    default:  // an addition, a minimum or a maximum
      return words.bits(23, 3) == kAdd ? "its encoding is not known" : nullptr;
  }
}

// Visits each FloatAddition and the words of its twin, which mean nothing if it has none.
template <class Visit>
void for_each_float_addition(std::span<const std::byte> code, int architecture, TwinOperation operation,
                             Visit&& visit) {
  for_each_instruction(code, [&](uint64_t offset, std::span<const std::byte, kInstructionBytes> bytes) {
    const InstructionWords words(bytes);
    FloatAddition found{.offset = offset};
    if (const auto addition = global_addition_in(words, architecture)) {
      found.opcode = addition->opcode.name;
      found.type = addition->type.name;
      found.elements = addition->type.elements;
      found.result_used = uses_result(words, addition->opcode);
      found.why_no_twin = why_no_twin(*addition, words, architecture, operation);
      visit(found, twin_words(*addition, words, architecture, operation));
      return;
    }
    const auto atomic = atomic_in(bytes, architecture);
    if (!atomic || !atomic->may_be_float) return;
    found.opcode = atomic->opcode;
    found.why_no_twin = why_other_has_none(words);
    if (found.why_no_twin != nullptr) visit(found, words);
  });
}

// The function's code, if it can be decoded.
struct DecodableCode {
  std::span<const std::byte> code;
  int architecture = 0;
};

DecodableCode decodable_code_of(std::span<const std::byte> cubin, std::string_view function,
                                std::string_view architecture) {
  const auto number = decodable_architecture(architecture);
  if (!number || !atomic_fields_are_known(*number)) return {};
  return {code_of(cubin, function), *number};
}

}  // namespace

std::vector<FloatAddition> float_additions_in(std::span<const std::byte> cubin, std::string_view function,
                                              std::string_view architecture, TwinOperation operation) {
  const DecodableCode decodable = decodable_code_of(cubin, function, architecture);
  std::vector<FloatAddition> additions;
  for_each_float_addition(
      decodable.code, decodable.architecture, operation,
      [&](const FloatAddition& addition, const InstructionWords&) { additions.push_back(addition); });
  return additions;
}

std::optional<Twin> twin_of(std::span<const std::byte> cubin, std::string_view function, std::string_view architecture,
                            TwinOperation operation) {
  const DecodableCode decodable = decodable_code_of(cubin, function, architecture);
  if (decodable.code.empty()) return std::nullopt;
  Twin twin;
  twin.cubin.assign(cubin.begin(), cubin.end());
  const auto code = std::span(twin.cubin).subspan(static_cast<size_t>(decodable.code.data() - cubin.data()));
  for_each_float_addition(decodable.code, decodable.architecture, operation,
                          [&](const FloatAddition& addition, const InstructionWords& words) {
                            if (addition.has_twin()) {
                              words.store(code.subspan(addition.offset).first<kInstructionBytes>());
                              ++twin.replaced;
                            } else {
                              twin.without_twin.push_back(addition);
                            }
                          });
  if (twin.replaced == 0) return std::nullopt;
  return twin;
}

}  // namespace msda::record
