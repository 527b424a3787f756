#include "analysis/judge/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace msda::analysis {
namespace {

std::string elements(int64_t count) { return fmt::format("{} element{}", thousands(count), count == 1 ? "" : "s"); }

// Returns what a cause means, as a person would say it.
const char* meaning_of(Cause cause, const Call& call) {
  constexpr const char* kMeanings[] = {"a number on the way is NaN or infinite",
                                       "the output buffer was not zeroed or not written",
                                       nullptr,  // the operator says it
                                       "the dialects take different subgradients on the clamp border",
                                       "the sum stopped growing, since its addends are too small to change it",
                                       "the same addends were summed in another order",
                                       "the sides differ by the rounding of their type",
                                       "cancellation, or a coordinate's error, magnifies rounding",
                                       "numbers were rounded to fewer bits than the tensors have",
                                       "no rounding explains the value"};
  return cause == Cause::kCellBoundary ? call.jump_text() : kernels::look_up(kMeanings, cause, "?");
}

// "1 element (cell_boundary: a rounded coordinate ...)" or, of several causes, each with its count.
std::string causes_text(const std::map<Cause, int64_t>& causes, const Call& call) {
  std::vector<std::string> texts;
  for (const auto& [cause, count] : causes) {
    const std::string number = causes.size() > 1 ? thousands(count) + " " : "";
    texts.push_back(fmt::format("{}{}, {}", number, name_of(cause), meaning_of(cause, call)));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

// What one party is to answer for.
struct Charge {
  const Call* call = nullptr;
  std::map<Cause, int64_t> causes;
  std::set<std::string> tensors;
  int64_t elements = 0;
  bool mistakes = false;

  void add(const Group& group, const Call& analyzed) {
    call = &analyzed;
    causes[group.cause] += group.elements;
    tensors.insert(name_of(group.gradient));
    elements += group.elements;
    mistakes = mistakes || is_mistake(group.cause);
  }
  std::string text() const {
    return fmt::format("{} of {} ({})", analysis::elements(elements), fmt::join(tensors, " and "),
                       causes_text(causes, *call));
  }
};
using Charges = std::map<AtFault, Charge>;

// Who made mistakes is wrong, whatever the other side's rounding did; without mistakes, the gravest charge counts.
AtFault party_at_fault(const Charges& charges) {
  for (const AtFault side : {AtFault::kObserved, AtFault::kReference}) {
    const auto charge = charges.find(side);
    if (charge != charges.end() && charge->second.mistakes) return side;
  }
  return charges.empty() ? AtFault::kNone : charges.begin()->first;
}

// Returns a sentence that does not call a kernel right whose errors lean one way.
const char* tolerance_sentence(const Verdict& counts) {
  const bool leans = !counts.biases.empty();
  if (!counts.tolerance_given) {
    return leans ? "The precision of the type explains {}."
                 : "No kernel is wrong: the precision of the type explains {}.";
  }
  return leans ? "The tolerance is at fault in {}." : "The tolerance is at fault, no kernel is wrong, in {}.";
}

// `both`: the other side made mistakes, too.
std::string sentence(AtFault at_fault, const Charge& charge, const Verdict& counts, bool both = false) {
  switch (at_fault) {
    case AtFault::kObserved:
      return fmt::format("The recorded kernel is wrong in {}.", charge.text());
    case AtFault::kReference:
      return both ? fmt::format("The reference is wrong, too, in {}.", charge.text())
                  : fmt::format("The reference is wrong, the recorded kernel right, in {}.", charge.text());
    case AtFault::kConvention:
      return fmt::format("Neither side is wrong, their conventions differ, in {}.", charge.text());
    case AtFault::kTolerance:
      return fmt::format(fmt::runtime(tolerance_sentence(counts)), charge.text());
    case AtFault::kNone:
      break;
  }
  return fmt::format("The inputs, not the kernel, are at fault for {}.", charge.text());
}

// Beside the party that is at fault.
std::string further_sentence(AtFault party, const Charge& charge, const Verdict& counts) {
  const bool a_side = party == AtFault::kObserved || party == AtFault::kReference;
  if (!a_side || charge.mistakes) return sentence(party, charge, counts, /*both=*/charge.mistakes);
  return fmt::format("{} misses {} by rounding alone.",
                     party == AtFault::kObserved ? "The recorded kernel" : "The reference", charge.text());
}

std::string summarize(const Charges& charges, AtFault at_fault, bool has_reference, const Verdict& counts) {
  std::string summary = charges.empty() ? fmt::format("The recorded gradients are within tolerance of float64{}.",
                                                      has_reference ? " and of the reference" : "")
                                        : sentence(at_fault, charges.at(at_fault), counts);
  for (const auto& [party, charge] : charges) {
    if (party != at_fault) summary += " " + further_sentence(party, charge, counts);
  }
  if (counts.within_customary > 0) {
    summary += fmt::format(" {} lie{} beyond what rounding explains, within the customary tolerance.",
                           elements(counts.within_customary), counts.within_customary == 1 ? "s" : "");
  }
  if (counts.explained_by_rounding > 0) {
    summary +=
        fmt::format(" Rounding explains {} beyond the customary tolerance.", elements(counts.explained_by_rounding));
  }
  if (counts.explained_by_16_bits > 0) {
    summary += fmt::format(" Rounding explains {} only as arithmetic in 16 bits, whose wide bounds may hide mistakes.",
                           elements(counts.explained_by_16_bits));
  }
  return summary + counts.biases;
}

// Returns where the first elements of a group lie.
std::string places_of(const Call& call, const Group& group) {
  constexpr size_t kMost = 3;
  std::vector<std::string> places;
  for (const auto& [flat, count] : group.runs) {
    for (int64_t i = flat; i < flat + count && places.size() < kMost; ++i) {
      places.push_back(fmt::format("[{}]", fmt::join(call.element_id(group.gradient, i).index, ",")));
    }
  }
  const bool more = group.elements > static_cast<int64_t>(places.size());
  return fmt::format("{}{}", more ? "first at " : "at ", fmt::join(places, ", "));
}

// Returns what a test that compares with other conventions meets, though the recorded kernel is right.
std::string advice_text(const Call& call, const std::vector<Group>& groups) {
  std::vector<std::string> texts;
  std::string side;
  for (const Group& group : groups) {
    if (!group.advisory) continue;
    side = group.against.front();
    const std::string says = group.at_fault == AtFault::kReference    ? side + " is wrong, the recorded kernel right,"
                             : group.at_fault == AtFault::kConvention ? "their conventions differ"
                                                                      : "they differ by rounding";
    texts.push_back(fmt::format("{} in {} of {}, {} ({}, {})", says, elements(group.elements), name_of(group.gradient),
                                places_of(call, group), name_of(group.cause), meaning_of(group.cause, call)));
  }
  return texts.empty() ? "" : fmt::format("A test against {} in float32 fails: {}. ", side, fmt::join(texts, "; "));
}

}  // namespace

Verdict judge(const Call& call, const std::vector<Group>& groups, bool has_reference, const Verdict& counts) {
  Charges charges;
  for (const Group& group : groups) {
    if (!group.advisory) charges[group.at_fault].add(group, call);
  }
  Verdict verdict;
  verdict.explained_by_rounding = counts.explained_by_rounding;
  verdict.explained_by_16_bits = counts.explained_by_16_bits;
  verdict.within_customary = counts.within_customary;
  verdict.biases = counts.biases;
  verdict.tolerance_given = counts.tolerance_given;
  verdict.at_fault = party_at_fault(charges);
  for (const Group& group : groups) {
    if (!group.advisory) verdict.causes[group.cause] += group.elements;
  }
  if (charges.empty()) verdict.summary = advice_text(call, groups);
  verdict.advice = !verdict.summary.empty();
  verdict.summary += summarize(charges, verdict.at_fault, has_reference, counts);
  return verdict;
}

void doubt(Verdict& verdict, const std::vector<std::string>& fits, bool sides_agree, bool of_samples) {
  const auto fitting = fmt::format("{}", fmt::join(fits, ", or "));
  if (sides_agree && !fits.empty()) {
    verdict.summary = fmt::format(
        "The recorded kernel and the reference agree, and float64 agrees with them under other conventions than the "
        "capture's: {}. {}",
        fitting, verdict.summary);
  } else if (sides_agree) {
    verdict.summary += fmt::format(
        " The reference agrees with the recorded kernel there: check the capture's shapes and conventions before the "
        "kernel, though no other {}.",
        of_samples ? "padding, align_corners or order of height and width fits" : "conventions fit");
  } else if (!fits.empty()) {
    verdict.summary += fmt::format(" Its gradients are those of {}: check which conventions it follows.", fitting);
  }
}

Verdict combine(const std::vector<Verdict>& verdicts) {
  Verdict all;
  int64_t drifting = 0;
  for (const Verdict& verdict : verdicts) {
    const bool has_news = all.causes.empty() && verdict.causes.empty() &&
                          ((verdict.advice && !all.advice) || (!verdict.biases.empty() && all.biases.empty()));
    if (verdict.at_fault < all.at_fault || all.summary.empty() || has_news) {
      all.at_fault = std::min(all.at_fault, verdict.at_fault);
      all.summary = verdict.summary;
      all.biases = verdict.biases;
      all.tolerance_given = verdict.tolerance_given;
    }
    for (const auto& [cause, count] : verdict.causes) all.causes[cause] += count;
    all.advice = all.advice || verdict.advice;
    all.explained_by_rounding += verdict.explained_by_rounding;
    all.explained_by_16_bits += verdict.explained_by_16_bits;
    all.within_customary += verdict.within_customary;
    drifting += !verdict.causes.empty();
  }
  if (verdicts.size() > 1) {
    all.summary = fmt::format("{} of {} invocations out of tolerance. {}", drifting, verdicts.size(), all.summary);
  }
  return all;
}

}  // namespace msda::analysis
