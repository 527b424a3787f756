#include "replay/survey/print.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>

#include "recorder/text/shell.h"
#include "recorder/text/words.h"
#include "replay/survey/evidence.h"
#include "replay/survey/kernel_name.h"
#include "replay/survey/remedy.h"

namespace msda::replay {
namespace {

using text::counted;

constexpr size_t kIndent = 4;

int64_t sum_of(const std::vector<Surveyed>& kernels, const char* fact) {
  int64_t sum = 0;
  for (const Surveyed& kernel : kernels) sum += kernel.fact(fact);
  return sum;
}

bool reads_unwritten(const Surveyed& kernel) { return kernel.verdict == SurveyVerdict::kReadsUnwritten; }

std::string launches_text(int64_t count) { return counted(count, "launch"); }

// Returns whether it may vary, and did so, but only beside other work.
bool varies_beside(const Surveyed& kernel) { return kernel.fact("varied_beside") > 0; }

std::string caller_text(const Surveyed& kernel) {
  std::string text;
  for (const std::string& caller : {kernel.node, kernel.operation, kernel.python}) {
    if (!caller.empty()) text += (text.empty() ? " Launched by " : ", ") + caller;
  }
  return text.empty() ? "" : text + ".";
}

std::string remedy_text(const Surveyed& kernel) {
  const Remedy* const remedy = remedy_for(kernel.kernel);
  if (remedy == nullptr) return " No remedy is known.";
  return fmt::format(" Type: {} ({}).", text::unbroken(remedy->type), remedy->note);
}

std::string story_of(const Surveyed& kernel) {
  const int64_t launches = kernel.fact("launches"), surveyed = kernel.fact("surveyed"), varied = kernel.fact("varied");
  if (surveyed == 0) return fmt::format("{}. {}.", launches_text(launches), kernel.why);
  const std::string words = counted(kernel.fact("most_words"), "32-bit word");
  std::string text = varied > 0 ? fmt::format("{} of {} varied, first the program's launch {}; at most {} differed",
                                              varied, launches_text(surveyed), kernel.fact("first_varied"), words)
                                : fmt::format("None of {} varied", launches_text(surveyed));
  if (varied > 0 && kernel.fact("extra_that_differ") == kernel.fact("beside_that_differ")) {
    text += ", and only while other work occupied a part of the device";
  }
  const bool differs = varied > 0 || varies_beside(kernel);
  text += ". " + kernel.why + ".";
  const auto add = [&](const std::string& sentence) {
    if (!sentence.empty()) text += " " + sentence;
  };
  if (differs && kernel.fact("twin_trials") > 0 && kernel.fact("twin_equal") == kernel.fact("twin_trials")) {
    add(evidence_text(kernel));
  }
  if (differs) add(places_text(kernel));
  text += caller_text(kernel);
  if (differs) text += remedy_text(kernel);
  if (reads_unwritten(kernel)) text += " Write this memory first, as torch.zeros does and torch.empty does not.";
  if (const int64_t missed = kernel.fact("poison_no_room"); missed > 0) {
    text += fmt::format(" No room to poison the memory of {} (--memory allows more).", launches_text(missed));
  }
  for (const auto& [reason, count] : kernel.not_surveyed) {
    text += fmt::format(" {} not surveyed: {}.", launches_text(count), reason_text(reason));
  }
  return text;
}

void add_story(Lines& lines, const Surveyed& kernel) {
  const std::string_view verdict = name_of(kernel.verdict);
  lines.add("{}  {}", verdict, short_name(kernel.kernel, text::kColumns - verdict.size() - 2));
  lines.add_hanging(kIndent, "{:{}}{}", "", kIndent, story_of(kernel));
}

// Returns a line for the kernels with a verdict that needs no action, which are not shown one by one.
std::string rest_of(const std::vector<Surveyed>& kernels, SurveyVerdict verdict, std::string_view words) {
  const auto count = std::ranges::count_if(
      kernels, [&](const Surveyed& kernel) { return kernel.verdict == verdict && !varies_beside(kernel); });
  return count > 0 ? fmt::format("{} {}", counted(count, "kernel"), words) : "";
}

Json twin_json(const Surveyed& kernel) {
  if (!kernel.facts.contains("twin_replaced")) return {};
  return {{"replaced", kernel.fact("twin_replaced")},
          {"left", kernel.fact("twin_left")},
          {"refused", kernel.fact("twin_refused") > 0},
          {"trials", kernel.fact("twin_trials")},
          {"equal", kernel.fact("twin_equal")}};
}

Json poison_json(const Surveyed& kernel) {
  if (!kernel.facts.contains("poisoned")) return {};
  return {{"launches", kernel.fact("poisoned")},
          {"depend", kernel.fact("unwritten_launches")},
          {"first", kernel.fact("first_unwritten")},
          {"most_words", kernel.fact("unwritten_results")},
          {"unwritten_words", kernel.fact("unwritten_words")},
          {"unwritten_bytes", kernel.fact("unwritten_bytes")},
          {"no_room", kernel.fact("poison_no_room")}};
}

Json remedy_json(const Surveyed& kernel) {
  const Remedy* const remedy = remedy_for(kernel.kernel);
  if (remedy == nullptr) return {};
  return {{"type", remedy->type}, {"note", remedy->note}, {"source", remedy->source}};
}

// Returns what the recorder found in the code; what it counted of launches stands beside it.
Json code_json(const Surveyed& kernel) {
  constexpr const char* kOfCode[] = {"instructions",
                                     "fused_multiply_adds",
                                     "reductions",
                                     "global_atomics",
                                     "shared_atomics",
                                     "float_atomics",
                                     "atomics",
                                     "compare_and_swaps",
                                     "exchanges",
                                     "used_float_atomics",
                                     "strong_loads",
                                     "strong_stores",
                                     "used_integer_atomics",
                                     "fences",
                                     "may_communicate"};
  Json code = Json::object();
  for (const char* name : kOfCode) {
    if (kernel.facts.contains(name)) code[name] = kernel.fact(name);
  }
  return code;
}

Json kernel_json(const Surveyed& kernel) {
  Json json = {{"kernel", kernel.kernel},
               {"mangled", kernel.mangled},
               {"verdict", name_of(kernel.verdict)},
               {"why", kernel.why},
               {"node", kernel.node},
               {"operation", kernel.operation},
               {"python", kernel.python},
               {"kernel_digest", kernel.kernel_digest}};
  for (const char* name :
       {"launches", "surveyed", "varied", "varied_beside", "first_varied", "extra_launches", "extra_that_differ",
        "extra_beside", "beside_that_differ", "most_words", "most_bytes", "microseconds", "kept"}) {
    json[name] = kernel.fact(name);
  }
  json["twin"] = twin_json(kernel);
  json["evidence"] = evidence_json(kernel);
  json["evidence_missing"] = kernel.evidence_missing;
  json["source_lines"] = places_json(kernel);
  json["poison"] = poison_json(kernel);
  json["remedy"] = kernel.fact("varied") > 0 || varies_beside(kernel) ? remedy_json(kernel) : Json();
  json["code"] = code_json(kernel);
  json["not_surveyed"] = kernel.not_surveyed;
  return json;
}

}  // namespace

Lines survey_text(const std::string& capture, const std::vector<Surveyed>& kernels, bool all) {
  Lines lines;
  const auto unwritten = std::ranges::count_if(kernels, reads_unwritten);
  const auto varying = std::ranges::count_if(kernels, varies, &Surveyed::verdict) - unwritten;
  const int64_t launches = sum_of(kernels, "launches"), surveyed = sum_of(kernels, "surveyed");
  if (varying == 0) {
    const std::string none = fmt::format("none of {} varied", counted(std::ssize(kernels), "kernel"));
    lines.add("{}: {}, in {}", capture, text::unbroken(none), launches_text(surveyed));
  } else {
    const std::string some =
        fmt::format("{} of {} var{}", varying, counted(std::ssize(kernels), "kernel"), varying == 1 ? "ies" : "y");
    lines.add("{}: {}, in {} of {}", capture, text::unbroken(some), sum_of(kernels, "varied"), launches_text(surveyed));
  }
  if (unwritten > 0) {
    lines.add("  {} on memory that nobody wrote, in {}",
              counted(unwritten, "kernel") + (unwritten == 1 ? " depends" : " depend"),
              launches_text(sum_of(kernels, "unwritten_launches")));
  }
  if (const auto beside = std::ranges::count_if(kernels, varies_beside); beside > 0) {
    lines.add("  {} only beside other work, in {}", counted(beside, "kernel") + (beside == 1 ? " varies" : " vary"),
              launches_text(sum_of(kernels, "varied_beside")));
  }
  if (launches > surveyed) lines.add("  {} of {} not surveyed", launches - surveyed, launches_text(launches));
  for (const Surveyed& kernel : kernels) {
    const bool is_of_interest =
        varies(kernel.verdict) || varies_beside(kernel) || kernel.verdict == SurveyVerdict::kNotSurveyed;
    if (all || is_of_interest) add_story(lines, kernel);
  }
  if (const int64_t kept = sum_of(kernels, "kept"); kept > 0) {
    lines.add("{}{} {} kept; to run {} again:", launches_text(kept), unwritten > 0 ? "" : " that varied",
              kept == 1 ? "is" : "are", kept == 1 ? "it" : "them");
    lines.add_whole(fmt::format("{:{}}msda-replay run {} --mode original", "", kIndent, text::shell_word(capture)));
  }
  if (all) return lines;
  for (const std::string& rest : {rest_of(kernels, SurveyVerdict::kMayVary, "did not vary, but may (--all)"),
                                  rest_of(kernels, SurveyVerdict::kDeterministic, "cannot vary (--all)")}) {
    if (!rest.empty()) lines.add("{}", rest);
  }
  return lines;
}

Json survey_json(const std::string& capture, const std::vector<Surveyed>& kernels) {
  Json json = {{"capture", capture},
               {"launches", sum_of(kernels, "launches")},
               {"surveyed", sum_of(kernels, "surveyed")},
               {"varied", sum_of(kernels, "varied")},
               {"kernels", Json::array()}};
  for (const Surveyed& kernel : kernels) json["kernels"].push_back(kernel_json(kernel));
  return json;
}

}  // namespace msda::replay
