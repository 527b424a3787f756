// Twins of listed instructions, and of damaged cubins.
#include "recorder/device/twin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/device/cubin.h"
#include "tests/device/listed_instructions.h"
#include "tests/device/listed_twins.h"
#include "tests/device/made_cubin.h"
#include "tests/device/tools.h"
#include "tests/device/twin_words.h"

namespace msda::record {
namespace {

using test::as_span;
using test::AtomicOperation;
using test::kTwinArchitectures;
using test::sm;
using test::twin_operation;
using test::words_at;
using testing::IsEmpty;
using testing::SizeIs;

std::string code_of_words(const ListedWords& words) { return test::bytes_of(words.low) + test::bytes_of(words.high); }

// The rows for an architecture, and code of their additions.
struct ListedCode {
  std::vector<ListedTwin> rows;
  std::string code;

  explicit ListedCode(int architecture) {
    for (const ListedTwin& row : kListedTwins) {
      if (architecture < row.first || architecture > row.last) continue;
      rows.push_back(row);
      code += code_of_words(row.addition());
    }
  }
};

// The first places at which two texts of one length differ, as instructions.
std::set<size_t> changed_instructions(std::string_view a, std::string_view b) {
  std::set<size_t> changed;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] != b[i]) changed.insert(i / kInstructionBytes);
  }
  return changed;
}

TEST(Twin, IsWhatIsListed) {
  for (const int architecture : kTwinArchitectures) {
    const ListedCode listed(architecture);
    EXPECT_GE(listed.rows.size(), 10u);
    const std::string cubin = test::make_cubin({"f"}, listed.code);
    for (const AtomicOperation operation : test::kIntegerOperations) {
      SCOPED_TRACE(sm(architecture) + " " + std::to_string(static_cast<int>(operation)));
      const auto twin = twin_of(as_span(cubin), "f", sm(architecture) + "a", twin_operation(operation));
      ASSERT_TRUE(twin);
      const auto code = code_of(twin->cubin, "f");
      size_t without = 0;
      for (size_t i = 0; i < listed.rows.size(); ++i) {
        const ListedWords expected = listed.rows[i].twin(static_cast<int>(operation) - 1);
        const InstructionWords made = words_at(code, i * kInstructionBytes);
        without += expected.low == 0;
        EXPECT_EQ(made.low, expected.low == 0 ? listed.rows[i].addition().low : expected.low) << i;
        EXPECT_EQ(made.high, expected.low == 0 ? listed.rows[i].addition().high : expected.high) << i;
      }
      EXPECT_THAT(twin->without_twin, SizeIs(without));
      EXPECT_EQ(twin->replaced, listed.rows.size() - without);
    }
  }
}

TEST(Twin, AdditionsAreDescribed) {
  for (const int architecture : kTwinArchitectures) {
    const ListedCode listed(architecture);
    const std::string cubin = test::make_cubin({"g", "f"}, listed.code);
    const auto additions = float_additions_in(as_span(cubin), "f", sm(architecture), TwinOperation::kXor);
    ASSERT_THAT(additions, SizeIs(listed.rows.size()));
    for (size_t i = 0; i < additions.size(); ++i) {
      const ListedTwin& row = listed.rows[i];
      EXPECT_EQ(additions[i].offset, i * kInstructionBytes);
      EXPECT_STREQ(additions[i].opcode, row.opcode);
      EXPECT_STREQ(additions[i].type, row.type);
      EXPECT_EQ(additions[i].elements, row.elements);
      EXPECT_EQ(additions[i].has_twin(), row.twin(1).low != 0);
      const bool has_destination = row.opcode[0] == 'A' && (row.words[0] >> 16 & 0xFF) != 0xFF;
      EXPECT_EQ(additions[i].result_used, has_destination);
      EXPECT_TRUE(has_destination || !row.returns);
    }
  }
}

// Predicate, scope and caching are bits that all kinds have in one place.
TEST(Twin, KeepsOtherFields) {
  constexpr uint64_t kLow = 0xF000, kHigh = (uint64_t{0xF} << 13) | (uint64_t{0x7} << 20);
  std::mt19937_64 random(3);
  for (const int architecture : kTwinArchitectures) {
    for (const ListedTwin& row : ListedCode(architecture).rows) {
      const ListedWords changed{row.addition().low ^ (random() & kLow), row.addition().high ^ (random() & kHigh)};
      const std::string cubin = test::make_cubin({"f"}, code_of_words(changed));
      const auto twin = twin_of(as_span(cubin), "f", sm(architecture), TwinOperation::kMax);
      ASSERT_TRUE(twin);
      const InstructionWords made = words_at(code_of(twin->cubin, "f"), 0);
      EXPECT_EQ(made.low, row.twin(2).low ^ row.addition().low ^ changed.low);
      EXPECT_EQ(made.high, row.twin(2).high ^ row.addition().high ^ changed.high);
    }
  }
}

TEST(Twin, ChangesNothingElse) {
  for (const int architecture : kTwinArchitectures) {
    std::string code;
    std::set<size_t> additions;
    for (const ListedInstruction& listed_instruction : kListedInstructions) {
      if ((listed_instruction.architecture >= 90) == (architecture >= 90))
        code += test::bytes_of(listed_instruction.low) + test::bytes_of(listed_instruction.high);
    }
    const size_t others = code.size();
    code += ListedCode(architecture).code;
    const std::string cubin = test::make_cubin({"before", "f", "after"}, code + "and a rest");
    const auto twin = twin_of(as_span(cubin), "f", sm(architecture), TwinOperation::kMax);
    ASSERT_TRUE(twin);
    ASSERT_EQ(twin->cubin.size(), cubin.size());
    const auto whole = as_span(cubin);
    const auto begin = static_cast<size_t>(code_of(whole, "f").data() - whole.data());
    std::string_view made(reinterpret_cast<const char*>(twin->cubin.data()), twin->cubin.size());
    EXPECT_EQ(made.substr(0, begin), cubin.substr(0, begin));
    EXPECT_EQ(made.substr(begin + code.size()), cubin.substr(begin + code.size()));
    made = made.substr(begin, code.size());
    // Each of the listed additions, and those among all other instructions.
    for (const FloatAddition& found : float_additions_in(whole, "f", sm(architecture), TwinOperation::kMax)) {
      if (found.has_twin()) additions.insert(found.offset / kInstructionBytes);
      EXPECT_TRUE(found.has_twin() || found.offset < others);
    }
    EXPECT_EQ(changed_instructions(made, code), additions);
    EXPECT_EQ(twin->replaced, additions.size());
  }
}

// By the printed names of instructions: additions of floating-point numbers, and what may be part of one.
TEST(Twin, ListsWhatHasNone) {
  for (const ListedInstruction& listed : kListedInstructions) {
    if (listed.architecture < 80) continue;
    const std::string_view name = listed.name;
    SCOPED_TRACE(name);
    const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
    const bool atomic = name.starts_with("RED") || name.starts_with("ATOM") || name.starts_with("UBLKRED");
    const bool adds = has(".ADD") && (has("F16") || has("F32") || has("F64"));
    const bool may_add = has(".CAS") || name == "UTMAREDG.1D.ADD";
    const std::string cubin = test::make_cubin({"f"}, test::bytes_of(listed.low) + test::bytes_of(listed.high));
    const auto found = float_additions_in(as_span(cubin), "f", sm(listed.architecture), TwinOperation::kAdd);
    ASSERT_EQ(found.size(), (atomic && adds) || may_add ? 1u : 0u);
    if (found.empty()) continue;
    const bool vector_of_128 = listed.high == 0x001fe8000c10f784 || listed.high == 0x001fe8000c10e584;
    EXPECT_EQ(found[0].has_twin(), adds && !name.starts_with("UBLKRED") && !vector_of_128) << found[0].why_no_twin;
    EXPECT_TRUE(name.starts_with(found[0].opcode));
    if (may_add) {
      EXPECT_EQ(found[0].elements, 0);
      const std::string_view why = found[0].why_no_twin;
      EXPECT_NE(why.find(has("UTMAREDG") ? "tile" : "compare-and-swap"), why.npos);
      EXPECT_EQ(why.find("shared") != why.npos, name.starts_with("ATOMS") || has("CAST"));
    }
  }
}

// What differs from additions in the operation, or in what no compiler makes.
TEST(Twin, IsOfAdditionsOnly) {
  for (const int architecture : kTwinArchitectures) {
    const unsigned first = architecture >= 90 ? 24 : 23;
    for (const ListedTwin& row : ListedCode(architecture).rows) {
      const auto [low, high] = row.addition();
      for (unsigned operation = 1; operation < 3; ++operation) {  // MIN, MAX
        const std::string cubin = test::make_cubin({"f"}, code_of_words({low, high | uint64_t{operation} << first}));
        EXPECT_THAT(float_additions_in(as_span(cubin), "f", sm(architecture), TwinOperation::kMax), IsEmpty());
      }
      for (const ListedWords& unknown : {ListedWords{low ^ 5 << 9, high}, ListedWords{low, high | 7 << 9}}) {
        const std::string cubin = test::make_cubin({"f"}, code_of_words(unknown));
        const auto found = float_additions_in(as_span(cubin), "f", sm(architecture), TwinOperation::kMax);
        const bool is_type = (unknown.high >> 9 & 0xF) == 15 && architecture >= 90;  // f64
        if (is_type && unknown.low == low) continue;
        EXPECT_TRUE(found.empty() || !found[0].has_twin());
        EXPECT_TRUE(architecture < 90 || found.size() == 1);
      }
    }
  }
}

TEST(Twin, IsNotOfExchanges) {
  for (const int architecture : {80, 86, 89, 90}) {
    for (const ListedTwin& row : ListedCode(architecture).rows) {
      if (row.opcode[0] != 'A') continue;
      const std::string cubin =
          test::make_cubin({"f"}, code_of_words({row.words[0], row.words[1] | uint64_t{1} << 26}));
      EXPECT_FALSE(twin_of(as_span(cubin), "f", sm(architecture), TwinOperation::kAdd));
    }
  }
}

TEST(Twin, IsNoneOfOtherFunctionsAndArchitectures) {
  const std::string cubin = test::make_cubin({"f"}, ListedCode(90).code + ListedCode(80).code);
  EXPECT_TRUE(twin_of(as_span(cubin), "f", "sm_90", TwinOperation::kAdd));
  EXPECT_FALSE(twin_of(as_span(cubin), "g", "sm_90", TwinOperation::kAdd));
  EXPECT_FALSE(twin_of({}, "f", "sm_90", TwinOperation::kAdd));
  for (const char* unknown : {"", "sm_75", "sm_95", "sm_122", "compute_90"}) {
    EXPECT_FALSE(twin_of(as_span(cubin), "f", unknown, TwinOperation::kAdd)) << unknown;
  }
  EXPECT_THAT(float_additions_in(as_span(cubin), "f", "sm_75", TwinOperation::kAdd), IsEmpty());
}

// A count needs the upper half of the address in a register; other twins do not.
TEST(Twin, CountsOnlyAtAddressesInRegisters) {
  const struct {
    int architecture;
    const char* opcode;
    unsigned alone, alone_in_integers;  // the bit that says that the address has no uniform register
  } cases[] = {{80, "RED", 7, 7},    {80, "ATOMG", 7, 7},    {90, "ATOM", 7, 7},   {90, "RED", 7, 7},
               {100, "RED", 17, 17}, {100, "ATOMG", 26, 12}, {121, "RED", 17, 17}, {121, "ATOM", 26, 12}};
  for (const auto& [architecture, opcode, alone, alone_in_integers] : cases) {
    SCOPED_TRACE(sm(architecture) + opcode);
    for (const ListedTwin& row : ListedCode(architecture).rows) {
      if (row.opcode != std::string_view(opcode) || row.twin(3).low == 0 || row.elements > 4) continue;
      const auto [low, high] = row.addition();
      const ListedWords uniform{low, high & ~(uint64_t{1} << alone)}, zero{low | 0xFF000000, high};
      const ListedWords other_form{low, high & ~(uint64_t{1} << 27)};
      for (const ListedWords& listed_words : {uniform, zero, other_form}) {
        const std::string cubin = test::make_cubin({"f"}, code_of_words(listed_words));
        EXPECT_FALSE(twin_of(as_span(cubin), "f", sm(architecture), TwinOperation::kCount));
      }
      if (row.twin(0).low == 0) continue;
      const std::string cubin = test::make_cubin({"f"}, code_of_words(uniform));
      const auto sum = twin_of(as_span(cubin), "f", sm(architecture), TwinOperation::kAdd);
      ASSERT_TRUE(sum);
      const InstructionWords made = words_at(code_of(sum->cubin, "f"), 0);
      EXPECT_EQ(made.low, row.twin(0).low);
      EXPECT_EQ(made.high, row.twin(0).high & ~(uint64_t{1} << alone_in_integers));
    }
  }
}

TEST(Twin, OfDamagedCubinsIsHarmless) {
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    const int architecture = kTwinArchitectures[random() % std::size(kTwinArchitectures)];
    std::string cubin = test::make_cubin({"f", "g"}, ListedCode(architecture).code.substr(0, 400) + "and a rest");
    if (i % 2 == 0) cubin.resize(random() % cubin.size());
    const std::vector<char> exact = test::damage(cubin, random);
    const auto bytes = std::as_bytes(std::span(exact));
    for (const AtomicOperation operation : test::kIntegerOperations) {
      const auto twin = twin_of(bytes, "f", sm(architecture), twin_operation(operation));
      if (!twin) continue;
      ASSERT_EQ(twin->cubin.size(), exact.size());
      const auto found = float_additions_in(bytes, "f", sm(architecture), twin_operation(operation));
      EXPECT_EQ(found.size(), twin->replaced + twin->without_twin.size());
    }
  }
}

}  // namespace
}  // namespace msda::record
