// Twins of what ptxas makes here of floating-point additions are what it makes of integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/device/cubin.h"
#include "recorder/device/instructions.h"
#include "recorder/device/twin.h"
#include "tests/device/atomic_kernels.h"
#include "tests/device/listed_twins.h"
#include "tests/device/tools.h"
#include "tests/device/twin_words.h"

namespace msda::record {
namespace {

using test::as_span;
using test::AtomicOperation;
using test::AtomicShape;
using test::AtomicType;
using test::kTwinArchitectures;
using test::sm;
using test::twin_operation;
using test::words_at;

// The fields that register allocation and scheduling choose.
struct ChosenFields {
  unsigned destination, address, data, predicate, uniform;
  uint64_t scheduling;

  explicit ChosenFields(const InstructionWords& words)
      : destination(words.destination()),
        address(words.address()),
        data(words.data()),
        predicate(words.bits(17, 3)),
        uniform(words.bits(0, 6)),
        scheduling(words.high >> 41) {}
};
// The words with the fields that `like` has. In RED and others, bits 17 to 19 are no predicate, and stay.
InstructionWords with_chosen(InstructionWords words, const ChosenFields& like, bool has_predicate) {
  InstructionWords::set_field(words.low, 16, 8, like.destination);
  InstructionWords::set_field(words.low, 24, 8, like.address);
  InstructionWords::set_field(words.low, 32, 8, like.data);
  InstructionWords::set_field(words.high, 0, 6, like.uniform);
  if (has_predicate) InstructionWords::set_field(words.high, 17, 3, like.predicate);
  words.high = (words.high & ((uint64_t{1} << 41) - 1)) | like.scheduling << 41;
  return words;
}

// But for scheduling, which differs where other code does.
bool is_same_but_for_scheduling(const ListedTwin& a, const ListedTwin& b) {
  bool same = std::string_view(a.opcode) == b.opcode && std::string_view(a.type) == b.type &&
              a.elements == b.elements && a.returns == b.returns;
  for (size_t i = 0; i < std::size(a.words); ++i) {
    const int scheduling = i % 2 == 0 ? 0 : 23;  // bits
    same = same && (a.words[i] ^ b.words[i]) << scheduling == 0;
  }
  return same;
}

// The offset of the only addition to global memory.
std::optional<FloatAddition> only_addition(const std::string& cubin, const std::string& function, int architecture) {
  std::optional<FloatAddition> only;
  for (const FloatAddition& found :
       float_additions_in(as_span(cubin), function, sm(architecture), TwinOperation::kMax)) {
    if (!found.has_twin()) continue;
    EXPECT_FALSE(only) << function << " has more than one";
    only = found;
  }
  return only;
}

// The atomic of a kernel that has but one.
std::optional<InstructionWords> only_atomic(std::span<const std::byte> code, std::string_view opcode,
                                            int architecture) {
  std::optional<InstructionWords> only;
  for_each_instruction(code, [&](uint64_t, std::span<const std::byte, kInstructionBytes> bytes) {
    const auto atomic = atomic_in(bytes, architecture);
    const InstructionWords words(bytes);
    const bool compares = words.opcode() == 0x18B || words.opcode() == 0x1A9;
    if (atomic && atomic->opcode == opcode && !compares) only = words;
  });
  return only;
}

// Each kernel of an addition that exists for an architecture, and what ptxas makes of them.
struct AssembledKernels {
  int architecture;
  std::string cubin;

  explicit AssembledKernels(int number)
      : architecture(number), cubin(test::assemble(test::atomic_kernels(number), sm(number))) {}
  std::span<const std::byte> code(const std::string& function) const { return code_of(as_span(cubin), function); }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const AtomicShape& shape : test::kAtomicShapes) {
      for (const AtomicType& type : test::kAtomicTypes) {
        if (!test::exists(shape, type, architecture)) continue;
        SCOPED_TRACE(sm(architecture) + " " + test::kernel_name(shape, type, AtomicOperation::kFloat));
        visit(shape, type);
      }
    }
  }
};

// RED and ATOMG: the kernels differ in nothing but the atomic. For ATOM, ptxas writes other code beside integers, and
// for kCount, kNothing and pairs other code before it; then the fields are compared that it does not choose.
void expect_twins_are_compiled(const AssembledKernels& kernels, const AtomicShape& shape, const AtomicType& type) {
  const std::string function = test::kernel_name(shape, type, AtomicOperation::kFloat);
  const auto addition = only_addition(kernels.cubin, function, kernels.architecture);
  const bool is_red = shape.opcode == std::string_view("RED"), is_generic = shape.opcode == std::string_view("ATOM");
  ASSERT_TRUE(addition);
  EXPECT_STREQ(addition->opcode, shape.opcode);
  EXPECT_STREQ(addition->type, type.name);
  EXPECT_EQ(addition->elements, type.elements);
  if (shape.returns || is_red) {  // An ATOM whose result nobody takes may have a destination.
    EXPECT_EQ(addition->result_used, shape.returns);
  }
  for (const AtomicOperation operation : test::kIntegerOperations) {
    SCOPED_TRACE(static_cast<int>(operation));
    const auto twin = twin_of(as_span(kernels.cubin), function, sm(kernels.architecture), twin_operation(operation));
    ASSERT_EQ(twin.has_value(), test::has_twin(shape, type, operation, kernels.architecture));
    if (!twin) continue;
    EXPECT_EQ(twin->replaced, 1u);
    const auto code = code_of(twin->cubin, function);
    const auto compiled = kernels.code(test::kernel_name(shape, type, operation));
    const bool count = operation == AtomicOperation::kCount, nothing = operation == AtomicOperation::kNothing;
    const bool halves = test::is_extreme(operation) && type.elements > 1;
    if (!is_generic && !count && !nothing && !halves) {
      EXPECT_TRUE(std::ranges::equal(code, compiled));
      continue;
    }
    const InstructionWords made = words_at(code, addition->offset);
    const auto expected = only_atomic(compiled, shape.opcode, kernels.architecture);
    ASSERT_TRUE(expected);
    const InstructionWords alike = with_chosen(*expected, ChosenFields(made), is_generic);
    EXPECT_EQ(made.low, alike.low);
    EXPECT_EQ(made.high, alike.high);
    if (count) {
      EXPECT_EQ(made.data(), made.address() + 1);
      EXPECT_EQ(expected->data(), expected->address() + 1);
    }
    if (nothing) {
      EXPECT_EQ(made.data(), InstructionWords::kNoRegister);
      EXPECT_EQ(expected->data(), InstructionWords::kNoRegister);
    }
  }
}

TEST(CompiledTwin, IsWhatPtxasMakesOfIntegers) {
  if (!test::has_ptxas()) GTEST_SKIP() << "no ptxas here";
  int assembled = 0;
  for (const int architecture : kTwinArchitectures) {
    const AssembledKernels kernels(architecture);
    if (kernels.cubin.empty()) continue;  // ptxas has said why, as it does of an architecture that is too new for it
    ++assembled;
    kernels.for_each(
        [&](const AtomicShape& shape, const AtomicType& type) { expect_twins_are_compiled(kernels, shape, type); });
  }
  EXPECT_GT(assembled, 0);
}

// The row of listed_twins.h that ptxas makes of these kernels.
ListedTwin listed_twin(const AssembledKernels& kernels, const AtomicShape& shape, const AtomicType& type) {
  ListedTwin row{kernels.architecture, kernels.architecture, shape.opcode, type.name, type.elements, shape.returns, {}};
  const std::string function = test::kernel_name(shape, type, AtomicOperation::kFloat);
  const auto addition = only_addition(kernels.cubin, function, kernels.architecture);
  if (!addition) return row;
  const InstructionWords floats = words_at(kernels.code(function), addition->offset);
  row.words[0] = floats.low;
  row.words[1] = floats.high;
  for (const AtomicOperation operation : test::kIntegerOperations) {
    if (!test::has_twin(shape, type, operation, kernels.architecture)) continue;
    const auto compiled = kernels.code(test::kernel_name(shape, type, operation));
    const auto integers = only_atomic(compiled, shape.opcode, kernels.architecture);
    if (!integers) continue;
    InstructionWords alike = with_chosen(*integers, ChosenFields(floats), shape.opcode == std::string_view("ATOM"));
    if (operation == AtomicOperation::kCount) {
      InstructionWords::set_field(alike.low, 32, 8, floats.address() + integers->data() - integers->address());
    }
    if (operation == AtomicOperation::kNothing) InstructionWords::set_field(alike.low, 32, 8, integers->data());
    row.words[2 * static_cast<int>(operation)] = alike.low;
    row.words[2 * static_cast<int>(operation) + 1] = alike.high;
  }
  return row;
}

// Prints the rows of listed_twins.h: --gtest_also_run_disabled_tests
// --gtest_filter=CompiledTwin.DISABLED_RowsArePrinted
TEST(CompiledTwin, DISABLED_RowsArePrinted) {
  std::vector<ListedTwin> rows;
  for (const int architecture : kTwinArchitectures) {
    const AssembledKernels kernels(architecture);
    kernels.for_each([&](const AtomicShape& shape, const AtomicType& type) {
      const ListedTwin row = listed_twin(kernels, shape, type);
      for (ListedTwin& known : rows) {
        if (!is_same_but_for_scheduling(known, row)) continue;
        known.last = architecture;
        return;
      }
      rows.push_back(row);
    });
  }
  for (const ListedTwin& row : rows) {
    std::printf("    {%d, %d, \"%s\", \"%s\", %d, %s", row.first, row.last, row.opcode, row.type, row.elements,
                row.returns ? "true" : "false");
    for (size_t i = 0; i < std::size(row.words); ++i) {
      std::printf("%s0x%016lx", i == 0 ? ", {\n     " : i % 5 == 0 ? ",\n     " : ", ", row.words[i]);
    }
    std::printf("}},\n");
  }
}

}  // namespace
}  // namespace msda::record
