#include "recorder/preload/survey/surveyed_kernel.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "recorder/device/communication.h"
#include "recorder/device/cubin.h"
#include "recorder/device/instructions.h"
#include "recorder/device/kernel_names.h"
#include "recorder/device/variables.h"
#include "recorder/preload/launch/functions.h"
#include "recorder/preload/session/config.h"

namespace msda::record {
namespace {

// Returns whether a kernel calls what has effects outside of its memory, or memory of its own. An assertion that fails
// is no such call: it ends the program, surveyed or not.
bool calls_out(const Image& image, std::string_view kernel) {
  constexpr std::string_view kHarmless = "__assertfail";
  return std::ranges::any_of(functions_called_by(image.bytes, kernel), [&](auto name) { return name != kHarmless; });
}

// Takes over the counts of instructions.
void add_counts(SurveyedKernel& kernel) {
  const std::string &name = kernel.layout.kernel, &architecture = kernel.facts.architecture;
  auto& integers = kernel.facts.integers;
  integers.merge(count_instructions(kernel.image->bytes, name, architecture));
  if (auto communication = communication_in(kernel.image->bytes, name, architecture)) {
    integers.merge(communication->counts);
    integers["may_communicate"] = communication->may_communicate;
  }
}

// Copies are of whole units of 16 bytes, but variables lie anywhere, several of them in one unit.
void add_unaligned(std::vector<DeviceRange>& ranges, const DeviceRange& variable) {
  constexpr uint64_t kUnit = 16;
  uint64_t begin = variable.address / kUnit * kUnit;
  uint64_t end = (variable.address + variable.bytes + kUnit - 1) / kUnit * kUnit;
  std::erase_if(ranges, [&](const DeviceRange& range) {
    const bool overlaps = range.address < end && begin < range.address + range.bytes;
    if (overlaps) end = std::max(end, range.address + range.bytes);
    if (overlaps) begin = std::min(begin, range.address);
    return overlaps;
  });
  ranges.push_back({begin, end - begin});
}

}  // namespace

const char* name_of(Unsurveyed why) {
  constexpr std::array kReasons{
      "",           "not_asked",    "captured",  "graph_nodes", "collective",         "other_memory", "shared_memory",
      "over_limit", "unknown_code", "calls_out", "busy",        "parameters_unknown", "refused"};
  static_assert(kReasons.size() == static_cast<size_t>(Unsurveyed::kCount));
  return kReasons[static_cast<size_t>(why)];
}

SurveyedKernel examine(cuda::Function function) {
  SurveyedKernel kernel;
  bool is_kernel = false;
  kernel.layout.kernel = name_of_function(function, is_kernel);
  kernel.layout.parameters = parameters_of(function, is_kernel);
  if (is_collective(kernel.layout.kernel)) {  // run again by one process alone, it would never end
    kernel.never = Unsurveyed::kCollective;
    return kernel;
  }
  kernel.image = image_of(function, is_kernel);
  kernel.facts = code_facts_of(function, is_kernel);
  if (kernel.image == nullptr) {
    kernel.never = Unsurveyed::kUnknownCode;
    return kernel;
  }
  add_counts(kernel);
  if (calls_out(*kernel.image, kernel.layout.kernel)) kernel.never = Unsurveyed::kCallsOut;
  return kernel;
}

std::optional<std::vector<DeviceRange>> variables_of(const SurveyedKernel& kernel, cuda::Function function) {
  std::vector<DeviceRange> ranges;
  if (kernel.image == nullptr) return ranges;
  bool is_kernel = false;
  name_of_function(function, is_kernel);
  const auto& [name, architecture] = std::tie(kernel.layout.kernel, kernel.facts.architecture);
  for (const Variable& variable : variables_used_by(kernel.image->bytes, name, architecture)) {
    // The compiler placed these texts, of assertions and printf, there; nobody can write them.
    if (variable.name.starts_with('$') || variable.name.starts_with("__unnamed_")) continue;
    const auto place = variable_of(function, is_kernel, std::string(variable.name));
    if (!place) return std::nullopt;
    add_unaligned(ranges, {place->address, place->bytes});
  }
  return ranges;
}

bool SurveyedKernel::cannot_vary() const {
  const auto is_zero = [&](const char* name) {
    const auto found = facts.integers.find(name);
    return found != facts.integers.end() && found->second == 0;
  };
  return is_zero("float_atomics") && is_zero("may_communicate");
}

bool SurveyedKernel::varies_only_beside() const {
  return varied > 0 && !differs_alone() && !cannot_vary() && twin_equal == twin_trials;
}

spool::Surveyed SurveyedKernel::message() const {
  spool::Surveyed message{number, {{"kernel", layout.kernel}}, facts.integers, {}};
  if (image != nullptr) message.texts["kernel_digest"] = image->digest;
  if (!facts.architecture.empty()) message.texts["architecture"] = facts.architecture;
  const std::pair<const char*, const std::string&> callers[] = {
      {"node", caller.node}, {"operation", caller.operation}, {"python", caller.python}};
  for (const auto& [name, text] : callers) {
    if (!text.empty()) message.texts[name] = text;
  }
  const std::pair<const char*, int64_t> integers[] = {
      {"launches", launches},
      {"surveyed", surveyed},
      {"varied", varies_only_beside() ? 0 : varied},
      {"varied_beside", varies_only_beside() ? varied : 0},
      {"first_varied", first_varied},
      {"kept", kept},
      {"extra_launches", extra},
      {"extra_that_differ", extra_that_differ},
      {"extra_beside", extra_beside},
      {"beside_that_differ", beside_that_differ},
      {"most_words", static_cast<int64_t>(most_words)},
      {"most_bytes", static_cast<int64_t>(most_bytes)},
      {"microseconds", static_cast<int64_t>(seconds * 1e6)},
  };
  if (twin) {
    message.integers["twin_replaced"] = static_cast<int64_t>(twin->replaced);
    message.integers["twin_left"] = static_cast<int64_t>(twin->left);
    message.integers["twin_refused"] = twin->is_refused;
    message.integers["twin_trials"] = twin_trials;
    message.integers["twin_equal"] = twin_equal;
  }
  if (evidence) evidence->describe(message.texts, message.integers, message.numbers);
  const std::pair<const char*, const Places&> places[] = {{"additions", additions}, {"communication", communication}};
  for (const auto& [name, found] : places) {
    if (!found.text.empty()) message.texts[std::string("lines_of_") + name] = found.text;
    if (found.left_out > 0) message.integers[std::string("lines_left_out_of_") + name] = found.left_out;
  }
  if (config().survey_poison) {
    message.integers["poisoned"] = poison.compared;
    message.integers["unwritten_launches"] = poison.depend;
    message.integers["first_unwritten"] = poison.first;
    message.integers["unwritten_results"] = static_cast<int64_t>(poison.most_words);
    message.integers["unwritten_words"] = static_cast<int64_t>(poison.unwritten);
    message.integers["unwritten_bytes"] = static_cast<int64_t>(poison.allocation_bytes);
    message.integers["poison_no_room"] = poison.no_room;
  }
  for (const auto& [name, value] : integers) message.integers[name] = value;
  for (const auto& [why, count] : unsurveyed) message.integers[std::string("not_surveyed_") + name_of(why)] = count;
  return message;
}

}  // namespace msda::record
