#include "recorder/device/variables.h"

#include <map>
#include <set>
#include <string>

#include "recorder/device/instruction_words.h"
#include "recorder/device/instructions.h"

namespace msda::record {
namespace {

constexpr uint64_t kAddress = 8;  // bytes

// Returns the addresses of variables that the code reads, by where they lie in their bank. ptxas 13.0 puts them into
// bank 4, for sm_80 to sm_121; into the instructions themselves, which are then relocated, where code is debugged or
// linked.
std::set<uint64_t> addresses_read_by(std::span<const std::byte> code) {
  constexpr unsigned kBankOfAddresses = 4;
  std::set<uint64_t> offsets;
  for_each_instruction(code, [&](uint64_t, std::span<const std::byte, kInstructionBytes> instruction) {
    const InstructionWords words(instruction);
    if (words.constant_bank() != kBankOfAddresses) return;
    const uint64_t offset = words.constant_offset() / kAddress * kAddress;
    offsets.insert({offset, offset + kAddress});  // some load two
  });
  return offsets;
}

}  // namespace

std::vector<Variable> variables_used_by(std::span<const std::byte> cubin, std::string_view kernel,
                                        std::string_view architecture) {
  if (!decodable_architecture(architecture)) return variables_in(cubin);
  const auto addresses = variables_relocated_in(cubin, ".nv.constant4");
  std::map<std::string_view, Variable> used;
  for (const std::string_view function : functions_run_by(cubin, kernel)) {
    for (const uint64_t offset : addresses_read_by(code_of(cubin, function))) {
      const auto [begin, end] = addresses.equal_range(offset);
      for (auto found = begin; found != end; ++found) used[found->second.name] = found->second;
    }
    for (const auto& [offset, variable] : variables_relocated_in(cubin, ".text." + std::string(function))) {
      used[variable.name] = variable;
    }
  }
  std::vector<Variable> variables;
  for (const auto& [name, variable] : used) variables.push_back(variable);
  return variables;
}

}  // namespace msda::record
