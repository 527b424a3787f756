#include "replay/diff/advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "recorder/capture/schema.h"
#include "recorder/text/demangle.h"
#include "recorder/text/shell.h"
#include "replay/survey/remedy.h"

namespace msda::replay {
namespace {

// A seed shows in the inputs, if it matters.
bool may_explain(const Difference& note, const Difference& call) {
  const bool is_before = !note.invocations || note.invocations <= call.invocations;
  return is_before && note.may_decide && note.section != "seeds" && note.section != "arguments";
}

Advice advice_on_inputs(bool is_probe) {
  const char* const why = is_probe ? "it differs, and no call or probe before it does: what it is made of is why"
                                   : "its inputs differ, and no recorded call before it does: data, random numbers, or "
                                     "operators that are not recorded, such as convolutions, are why";
  return {why, "", "", "",
          "look closer with msda_replay.probe(NAME, VALUE); set the seeds of torch, numpy, random and each "
          "torch.Generator; run with PYTHONHASHSEED=0 in the environment"};
}

bool may_be_explained(const Differences& differences, const Difference& call) {
  return std::ranges::any_of(differences.notes, [&](const Difference& note) { return may_explain(note, call); });
}

}  // namespace

std::vector<const Difference*> calls_that_vary(const Differences& differences) {
  std::vector<const Difference*> calls;
  const auto end_of_all = differences.found.end();
  for (auto call = differences.found.begin(); call != end_of_all;) {
    const auto is_of_call = [&](const Difference& entry) { return entry.invocations == call->invocations; };
    const auto end = std::find_if_not(call, end_of_all, is_of_call);
    const bool are_outputs = std::all_of(call, end, [](const Difference& entry) { return entry.section == "outputs"; });
    if (call->invocations && are_outputs && !may_be_explained(differences, *call)) calls.push_back(&*call);
    call = end;
  }
  return calls;
}

std::optional<Advice> advice_on(const Differences& differences, const std::string& a) {
  if (differences.found.empty()) return std::nullopt;
  const Difference& first = differences.found.front();
  if (!first.invocations) return std::nullopt;
  if (first.section == "inputs") {
    Advice advice = advice_on_inputs(first.kernel == capture::kProbe);
    if (!differences.left_out.empty()) advice.why += "; not recorded, and maybe why: " + differences.left_out;
    return advice;
  }
  if (first.section != "outputs") return std::nullopt;
  if (may_be_explained(differences, first)) return std::nullopt;
  Advice advice;
  advice.why = "its inputs are equal, so this call varies from run to run: often by the order in which it adds";
  if (const Remedy* const remedy = remedy_for(text::demangled(first.kernel))) {
    advice.type = remedy->type;
    advice.note = remedy->note;
  }
  const std::string suffix = fmt::format(":{}", first.invocations->first);  // A may name a single invocation
  const std::string file = a.ends_with(suffix) ? a.substr(0, a.size() - suffix.size()) : a;
  advice.command =
      fmt::format("msda-replay order {} --invocation {}", text::shell_word(file), first.invocations->first);
  return advice;
}

}  // namespace msda::replay
