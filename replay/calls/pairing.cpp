#include "replay/calls/pairing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "recorder/text/words.h"
#include "replay/base/errors.h"
#include "replay/calls/conventions.h"
#include "replay/calls/damage.h"
#include "replay/calls/load_operator.h"
#include "replay/calls/operator_row.h"

namespace msda::replay {
namespace {

// A test and what it compares with are at most so many calls apart: one call of a hundred thousand then costs no more
// than one of a few.
constexpr size_t kNear = 64;

// Returns what decides, beside the inputs, where samples land; the kernels of an operator have a dialect besides.
std::string conventions_key(const capture::Invocation& invocation) {
  const capture::CallFacts& facts = invocation.facts;
  std::string key =
      fmt::format("{} {} {}", operator_of(invocation), facts.padding_mode, facts.align_corners ? "align_corners" : "");
  if (facts.dialect.empty()) key += conventions_text(invocation);
  return key;
}

// "their padding_mode and align_corners differ"
std::string differing_conventions(const capture::Invocation& a, const capture::Invocation& b) {
  std::vector<std::string> names;
  if (a.facts.padding_mode != b.facts.padding_mode) names.emplace_back("padding_mode");
  if (a.facts.align_corners != b.facts.align_corners) names.emplace_back("align_corners");
  const nlohmann::ordered_json of_a = conventions_of(a), of_b = conventions_of(b);
  for (const auto& [name, value] : of_a.items()) {
    if (!of_b.contains(name) || of_b[name] != value) names.push_back(name);
  }
  for (const auto& [name, value] : of_b.items()) {
    if (!of_a.contains(name)) names.push_back(name);
  }
  return fmt::format("their {} differ{}", fmt::join(names, ", "), names.size() == 1 ? "s" : "");
}

// Returns what of the inputs differs; empty if they are equal.
std::string difference(const capture::Invocation& a, const capture::Invocation& b) {
  for (const capture::TensorInfo& input : a.inputs) {
    const capture::TensorInfo* twin = find(b.inputs, input.name);
    if (twin == nullptr || twin->digest != input.digest || twin->shape != input.shape || twin->type != input.type) {
      return fmt::format("their {} differ", input.name);
    }
  }
  if (conventions_key(a) != conventions_key(b)) {
    return operator_of(a) != operator_of(b) ? "they are of different operators" : differing_conventions(a, b);
  }
  return {};
}

// Equal for calls of equal inputs; of outlines, which have no digests, for calls that may have equal inputs.
std::string inputs_key(const capture::Invocation& invocation) {
  std::string key = conventions_key(invocation);
  for (const capture::TensorInfo& input : invocation.inputs) {
    key += fmt::format("; {} {} {} {}", input.name, static_cast<int>(input.type), fmt::join(input.shape, ","),
                       input.digest);
  }
  return key;
}

// Returns whether two of them are of different kernels or dialects, as a test and what it compares with are.
bool are_of_several_kinds(const std::vector<const capture::Invocation*>& invocations) {
  return std::ranges::any_of(invocations, [&](const capture::Invocation* invocation) {
    const capture::CallFacts &facts = invocation->facts, &first = invocations.front()->facts;
    return facts.dialect != first.dialect || facts.kernel != first.kernel;
  });
}

bool have_digests(const capture::Invocation& invocation) {
  return !invocation.inputs.empty() &&
         std::ranges::none_of(invocation.inputs, [](const auto& input) { return input.digest.empty(); });
}

// Returns whether those tensors that both have are equal.
bool same_tensors(const std::vector<capture::TensorInfo>& a, const std::vector<capture::TensorInfo>& b) {
  return std::ranges::all_of(a, [&](const capture::TensorInfo& tensor) {
    const capture::TensorInfo* twin = find(b, tensor.name);
    return twin == nullptr || twin->digest == tensor.digest;
  });
}

void take_reference(const std::string& path, capture::Invocation& invocation, const capture::Invocation& source) {
  const auto fail = [&](const std::string& why) {
    throw BadInput(
        fmt::format("{}: invocation {} cannot be the reference of {}: {}", path, source.id, invocation.id, why));
  };
  if (source.id == invocation.id) fail("they are the same invocation");
  if (const std::string why = difference(invocation, source); !why.empty()) fail(why);
  std::erase_if(invocation.results, [](const auto& result) { return result.facts.role == "reference"; });
  capture::Invocation::Result reference;
  reference.facts = {fmt::format("invocation {}", source.id), "reference", source.facts.dialect};
  reference.tensors = source.outputs;
  invocation.results.push_back(std::move(reference));
}

}  // namespace

Pairing::Pairing(const Options& options, const capture::IsolatedReader& reader) : options_(options), reader_(reader) {
  const std::vector<int64_t> chosen = chosen_invocations(options, reader);
  if (options.reference) {
    pair_as_asked(chosen, options.invocation == "all");
  } else {
    pair_by_dialect(chosen);
  }
  std::set<int64_t> explained;
  for (const int64_t id : chosen) {
    const auto tested = compared_with_.find(id);
    explained.insert(tested == compared_with_.end() ? id : tested->second);
  }
  chosen_.assign(explained.begin(), explained.end());
}

// Pairs the reference with all invocations that have its inputs; an invocation that is named is paired whatever its
// inputs are.
void Pairing::pair_as_asked(const std::vector<int64_t>& chosen, bool all) {
  const int64_t reference = *options_.reference;
  const capture::Invocation named = reader_.invocation(reference);
  for (const int64_t id : chosen) {
    if (all && (id == reference || !difference(reader_.invocation(id), named).empty())) continue;
    reference_of_[id] = reference;
  }
  if (reference_of_.empty()) {
    throw BadInput(fmt::format("{}: --reference {}: no other invocation has its inputs", options_.capture, reference));
  }
  if (all) compared_with_[reference] = reference_of_.begin()->first;
}

size_t Pairing::place_of(int64_t id) const {
  const std::vector<int64_t>& ids = reader_.invocation_ids();
  return static_cast<size_t>(std::ranges::lower_bound(ids, id) - ids.begin());
}

// Returns the calls that have a say in how the chosen ones are paired: their neighbours, and those of these.
std::vector<int64_t> Pairing::around(const std::vector<int64_t>& chosen) const {
  const std::vector<int64_t>& ids = reader_.invocation_ids();
  std::vector<int64_t> around;
  size_t next = 0;
  for (const int64_t id : chosen) {
    const size_t place = place_of(id), end = std::min(ids.size(), place + 2 * kNear + 1);
    for (next = std::max(next, place - std::min(place, 2 * kNear)); next < end; ++next) around.push_back(ids[next]);
  }
  return around;
}

void Pairing::pair_by_dialect(const std::vector<int64_t>& chosen) {
  if (reader_.invocation_ids().size() < 2) return;
  // Outlines, which are read in little time, show the few calls that may be a test and its reference.
  const std::vector<capture::Invocation> outlines = reader_.outlines(around(chosen));
  std::map<std::string, std::vector<const capture::Invocation*>> alike;
  for (const capture::Invocation& outline : outlines) {
    if (!operator_of(outline).empty()) alike[inputs_key(outline)].push_back(&outline);
  }
  for (const auto& [shapes, members] : alike) {
    const bool concerns = std::ranges::any_of(
        members, [&](const capture::Invocation* member) { return std::ranges::binary_search(chosen, member->id); });
    if (!concerns || !are_of_several_kinds(members)) continue;
    std::map<std::string, std::vector<capture::Invocation>> equals;
    for (const capture::Invocation* member : members) {
      capture::Invocation whole = reader_.invocation(member->id);
      if (have_digests(whole)) equals[inputs_key(whole)].push_back(std::move(whole));
    }
    for (const auto& [inputs, calls] : equals) pair_equals(calls);
  }
}

void Pairing::pair_equals(const std::vector<capture::Invocation>& equals) {
  const auto is_reference = [](const capture::Invocation& invocation) {
    return invocation.facts.dialect == dialect_of_tests();
  };
  for (const capture::Invocation& invocation : equals) {
    const size_t place = place_of(invocation.id);
    const auto begin = std::ranges::partition_point(
        equals, [&](const capture::Invocation& equal) { return place_of(equal.id) + kNear < place; });
    const auto end = std::ranges::partition_point(
        equals, [&](const capture::Invocation& equal) { return place_of(equal.id) <= place + kNear; });
    const std::ranges::subrange near(begin, end);
    if (const auto* kept = invocation.reference(); kept != nullptr) {
      // The capture says what it was compared with, which may be the outputs of another call.
      for (const capture::Invocation& neighbour : near) {
        if (neighbour.reference() == nullptr && same_tensors(kept->tensors, neighbour.outputs))
          compared_with_.emplace(neighbour.id, invocation.id);
      }
      continue;
    }
    const auto reference = std::ranges::find_if(near, is_reference);
    const bool decided = reference != near.end() && !std::ranges::all_of(near, is_reference);
    if (decided && !is_reference(invocation)) {
      reference_of_[invocation.id] = reference->id;
      for (const capture::Invocation& neighbour : near) {
        if (is_reference(neighbour)) compared_with_.emplace(neighbour.id, invocation.id);
      }
    }
    if (decided) continue;
    for (const capture::Invocation& neighbour : near) {
      if (neighbour.id != invocation.id && !same_tensors(invocation.outputs, neighbour.outputs))
        undecided_[invocation.id].push_back(neighbour.id);
    }
  }
}

capture::Invocation Pairing::paired(int64_t id) const {
  capture::Invocation invocation = reader_.invocation(id);
  if (const auto reference = reference_of_.find(id); reference != reference_of_.end()) {
    take_reference(options_.capture, invocation, reader_.invocation(reference->second));
  }
  return invocation;
}

capture::Invocation Pairing::invocation(int64_t id) const {
  capture::Invocation invocation = paired(id);
  auto settled = settled_.find(id);
  if (settled == settled_.end()) settled = settled_.emplace(id, settle(options_, reader_, invocation)).first;
  take(settled->second, invocation.facts);
  return invocation;
}

std::vector<std::string> Pairing::altered_beside(int64_t id) const {
  std::set<int64_t> others;
  if (const auto reference = reference_of_.find(id); reference != reference_of_.end()) others.insert(reference->second);
  for (const auto& [reference, tested] : compared_with_) {
    if (tested == id) others.insert(reference);
  }
  std::vector<std::string> altered;
  for (const int64_t beside : others) add_altered(altered, altered_tensors(reader_, reader_.invocation(beside)));
  return altered;
}

std::vector<std::string> Pairing::notes(int64_t id) const {
  std::vector<std::string> notes;
  if (const auto reference = reference_of_.find(id); reference != reference_of_.end() && !options_.reference) {
    notes.push_back(
        fmt::format("invocation {} has the same inputs, in dialect {}: it is taken as the test's reference "
                    "(--reference N takes another)",
                    reference->second, dialect_of_tests()));
  }
  if (const auto others = undecided_.find(id); others != undecided_.end()) {
    const int64_t partner = others->second.front();
    notes.push_back(fmt::format(
        "{} {} {} the same inputs and other outputs. Nothing shows which one a test compared with, so each "
        "is compared with float64 alone. If {} is the reference: --invocation {} --reference {}; if this one is: "
        "--invocation {} --reference {}",
        text::plural(std::ssize(others->second), "invocation"), fmt::join(others->second, ", "),
        others->second.size() == 1 ? "has" : "have", partner, id, partner, partner, id));
  }
  const auto settled = settled_.find(id);
  if (settled != settled_.end() && !settled->second.note.empty()) notes.push_back(settled->second.note);
  return notes;
}

}  // namespace msda::replay
