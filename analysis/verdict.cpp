#include "analysis/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace msda::analysis {
namespace {

std::string elements(int64_t count) { return fmt::format("{} element{}", count, count == 1 ? "" : "s"); }

// What a cause means, as a person would say it.
const char* meaning_of(Cause cause) {
  switch (cause) {
    case Cause::kNonFinite:
      return "a number on the way is NaN or infinite";
    case Cause::kUninitializedOutput:
      return "the output buffer was not zeroed or not written";
    case Cause::kCellBoundary:
      return "a rounded coordinate landed in the neighbouring cell";
    case Cause::kBorderClamp:
      return "the dialects take different subgradients on the clamp border";
    case Cause::kAccumulationOrder:
      return "the same addends were summed in another order";
    case Cause::kIllConditioned:
      return "cancellation leaves a result that hangs on rounding";
    case Cause::kImplementationError:
      return "no rounding explains the value";
  }
  return "?";
}

// "1 element (cell_boundary: a rounded coordinate ...)" or, of several causes, each with its count.
std::string causes_text(const std::map<Cause, int64_t>& causes) {
  std::vector<std::string> texts;
  for (const auto& [cause, count] : causes) {
    const std::string number = causes.size() > 1 ? fmt::format("{} ", count) : "";
    texts.push_back(fmt::format("{}{}, {}", number, name_of(cause), meaning_of(cause)));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

// Whether a side that is at fault for it made a mistake, and did not merely round another way than float64.
bool is_mistake(Cause cause) {
  return cause == Cause::kImplementationError || cause == Cause::kUninitializedOutput || cause == Cause::kNonFinite;
}

// Of one gradient, elements that have been counted.
class Counted {
 public:
  // How many of the elements are new.
  int64_t add(const std::vector<JudgedElements::Run>& runs) {
    int64_t added = 0;
    for (const auto& [flat, count] : runs) {
      for (int64_t i = flat; i < flat + count; ++i) added += is_new(i);
    }
    return added;
  }
  // The sets that follow are of another comparison, in which the same elements may come again.
  void next_comparison() {
    std::ranges::sort(recent_);
    const auto middle = static_cast<std::ptrdiff_t>(known_.size());
    known_.insert(known_.end(), recent_.begin(), recent_.end());
    std::ranges::inplace_merge(known_, known_.begin() + middle);
    recent_.clear();
  }

 private:
  bool is_new(int64_t flat) {
    if (std::ranges::binary_search(known_, flat)) return false;
    recent_.push_back(flat);
    return true;
  }
  std::vector<int64_t> known_, recent_;
};

// What one party is to answer for.
struct Charge {
  std::map<Cause, int64_t> causes;
  std::set<std::string> tensors;
  int64_t elements = 0;
  bool mistakes = false;

  void add(const JudgedElements& set, int64_t count) {
    if (count == 0) return;
    causes[set.cause] += count;
    tensors.insert(name_of(set.gradient));
    elements += count;
    mistakes = mistakes || is_mistake(set.cause);
  }
  std::string text() const {
    return fmt::format("{} of {} ({})", analysis::elements(elements), fmt::join(tensors, " and "), causes_text(causes));
  }
};
using Charges = std::map<AtFault, Charge>;

// A side that rounding alone makes miss here and there, no oftener than others, is not wrong: the tolerance asks for
// more than the precision has. Rounding errors are charged to a side only if at least half of them are its own.
AtFault charged_with(const JudgedElements& set, const std::map<AtFault, int64_t>& rounding, int64_t total) {
  const bool a_side = set.at_fault == AtFault::kObserved || set.at_fault == AtFault::kReference;
  if (!is_rounding(set.cause) || !a_side || 2 * rounding.at(set.at_fault) >= total) return set.at_fault;
  return AtFault::kTolerance;
}

// Who made mistakes is wrong, whatever the other side's rounding did; without mistakes, the gravest charge counts.
AtFault party_at_fault(const Charges& charges) {
  for (const AtFault side : {AtFault::kObserved, AtFault::kReference}) {
    const auto charge = charges.find(side);
    if (charge != charges.end() && charge->second.mistakes) return side;
  }
  return charges.empty() ? AtFault::kNone : charges.begin()->first;
}

std::string sentence(AtFault at_fault, const Charge& charge) {
  switch (at_fault) {
    case AtFault::kObserved:
      return fmt::format("The recorded kernel is wrong in {}.", charge.text());
    case AtFault::kReference:
      return fmt::format("The reference is wrong, the recorded kernel right, in {}.", charge.text());
    case AtFault::kConvention:
      return fmt::format("Neither side is wrong, their conventions differ, in {}.", charge.text());
    case AtFault::kTolerance:
      return fmt::format("The tolerance is at fault, no kernel is wrong, in {}.", charge.text());
    case AtFault::kNone:
      break;
  }
  return fmt::format("The inputs, not the kernel, are at fault for {}.", charge.text());
}

// Beside the party that is at fault.
std::string further_sentence(AtFault party, const Charge& charge) {
  const bool a_side = party == AtFault::kObserved || party == AtFault::kReference;
  if (!a_side || charge.mistakes) return sentence(party, charge);
  return fmt::format("By rounding alone {} misses {}.",
                     party == AtFault::kObserved ? "the recorded kernel" : "the reference", charge.text());
}

std::string summarize(const Charges& charges, AtFault at_fault, bool has_reference, int64_t explained_by_rounding) {
  std::string summary = charges.empty() ? fmt::format("The recorded gradients are within tolerance of float64{}.",
                                                      has_reference ? " and of the reference" : "")
                                        : sentence(at_fault, charges.at(at_fault));
  for (const auto& [party, charge] : charges) {
    if (party != at_fault) summary += " " + further_sentence(party, charge);
  }
  if (explained_by_rounding > 0) {
    summary += fmt::format(" Rounding explains {} beyond the customary tolerance.", elements(explained_by_rounding));
  }
  return summary;
}

}  // namespace

Verdict judge(const std::vector<JudgedElements>& judged, bool has_reference, int64_t explained_by_rounding) {
  std::map<AtFault, int64_t> rounding;
  int64_t all_rounding = 0;
  for (const JudgedElements& set : judged) {
    if (set.advisory || !is_rounding(set.cause)) continue;
    rounding[set.at_fault] += set.elements;
    all_rounding += set.elements;
  }
  // An element that misses both the reference and float64 counts once, for its cause against the reference.
  Charges charges;
  std::map<Gradient, Counted> counted;
  const std::string* against = nullptr;
  for (const JudgedElements& set : judged) {
    if (set.advisory) continue;
    if (against != nullptr && *against != set.against) {
      for (auto& [gradient, elements] : counted) elements.next_comparison();
    }
    against = &set.against;
    charges[charged_with(set, rounding, all_rounding)].add(set, counted[set.gradient].add(set.runs));
  }
  std::erase_if(charges, [](const auto& charge) { return charge.second.elements == 0; });
  Verdict verdict;
  verdict.explained_by_rounding = explained_by_rounding;
  verdict.at_fault = party_at_fault(charges);
  for (const auto& [party, charge] : charges) {
    for (const auto& [cause, count] : charge.causes) verdict.causes[cause] += count;
  }
  verdict.summary = summarize(charges, verdict.at_fault, has_reference, explained_by_rounding);
  return verdict;
}

Verdict combine(const std::vector<Verdict>& verdicts) {
  Verdict all;
  int64_t drifting = 0;
  for (const Verdict& verdict : verdicts) {
    if (verdict.at_fault < all.at_fault || all.summary.empty()) {
      all.at_fault = std::min(all.at_fault, verdict.at_fault);
      all.summary = verdict.summary;
    }
    for (const auto& [cause, count] : verdict.causes) all.causes[cause] += count;
    all.explained_by_rounding += verdict.explained_by_rounding;
    drifting += !verdict.causes.empty();
  }
  if (verdicts.size() > 1) {
    all.summary = fmt::format("{} of {} invocations out of tolerance. {}", drifting, verdicts.size(), all.summary);
  }
  return all;
}

}  // namespace msda::analysis
