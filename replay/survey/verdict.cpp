#include "replay/survey/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

#include "recorder/capture/isolated_reader.h"
#include "recorder/text/demangle.h"
#include "recorder/text/words.h"
#include "replay/base/errors.h"
#include "replay/survey/evidence.h"

namespace msda::replay {
namespace {

using text::counted;

constexpr std::string_view kUnsurveyed = "not_surveyed_";

// Returns how its blocks hand results to one another, of the ways that its code has.
std::string communication_text(const Surveyed& kernel) {
  constexpr std::pair<const char*, const char*> kWays[] = {
      {"compare_and_swaps", "compare-and-swap, as of locks and of loops that add"},
      {"exchanges", "atomic exchanges"},
      {"used_integer_atomics", "atomics whose results it uses, as tickets"},
      {"used_float_atomics", "floating-point atomics whose results it uses"},
      {"strong_loads", "loads of what other blocks store meanwhile"}};
  std::string text;
  for (const auto& [name, way] : kWays) {
    if (kernel.fact(name) > 0) text += (text.empty() ? "" : "; ") + std::string(way);
  }
  return text;
}

struct Judgement {
  SurveyVerdict verdict;
  std::string why;
};

// Judges a kernel that did not vary, but gave other results where memory that nobody wrote held something else.
Judgement of_reading_unwritten(const Surveyed& kernel) {
  const int64_t launches = kernel.fact("unwritten_launches"), results = kernel.fact("unwritten_results");
  return {
      SurveyVerdict::kReadsUnwritten,
      fmt::format("Its results depend on memory that nobody wrote since it was allocated, in {} of {} launches tried, "
                  "first the program's launch {}: up to {} of the results. That launch reaches {} that nobody wrote, "
                  "in allocations of {}",
                  launches, kernel.fact("poisoned"), kernel.fact("first_unwritten"), counted(results, "32-bit word"),
                  counted(kernel.fact("unwritten_words"), "word"), counted(kernel.fact("unwritten_bytes"), "byte"))};
}

// Judges a kernel that varied.
Judgement of_varying(const Surveyed& kernel) {
  using enum SurveyVerdict;
  const int64_t trials = kernel.fact("twin_trials"), equal = kernel.fact("twin_equal");
  const bool communicates = kernel.fact("may_communicate") > 0;
  if (trials > 0 && equal == trials) {
    return {kOrderOnly,
            fmt::format("The same numbers were added in another order: a copy of the kernel that adds integers instead "
                        "({} changed) gave equal results in {} of {} launches tried",
                        counted(kernel.fact("twin_replaced"), "instruction"), equal, trials)};
  }
  const std::string ways = communication_text(kernel);
  if (communicates) {
    return {kArrivalOrder, fmt::format("Its blocks can hand results to one another as they arrive: {}", ways)};
  }
  if (trials == 0 && kernel.fact("float_atomics") > 0) {
    return {kArrivalOrder,
            "It adds floating-point numbers as its blocks arrive; whether the order alone makes the "
            "difference is not known: it has no order-free twin, or the driver refuses it"};
  }
  if (trials > 0) {
    return {kRace,
            fmt::format("What it adds differs from launch to launch, in {} of {} launches that varied: it is not the "
                        "order of its additions alone",
                        trials - equal, trials)};
  }
  return {kRace, "It has neither atomics nor communication between blocks that could explain it"};
}

// Judges a kernel that was surveyed and did not vary.
Judgement of_steady(const Surveyed& kernel) {
  using enum SurveyVerdict;
  if (!kernel.facts.contains("float_atomics") || !kernel.facts.contains("may_communicate")) {
    return {kMayVary, "Its instructions are not known"};
  }
  if (kernel.fact("float_atomics") > 0) return {kMayVary, "It adds floating-point numbers by atomics"};
  if (kernel.fact("may_communicate") > 0) {
    return {kMayVary, "Its blocks may hand results to one another: " + communication_text(kernel)};
  }
  return {kDeterministic,
          "It gave equal results in all launches, and has neither floating-point atomics nor communication "
          "between blocks"};
}

// Judges a kernel that varied, but only while the recorder's kernel had a part of the device.
Judgement of_varying_beside(const Surveyed& kernel) {
  const int64_t beside = kernel.fact("extra_beside");
  return {SurveyVerdict::kMayVary,
          fmt::format("With the device for itself it gave equal results in {}; while other work occupied a part of the "
                      "device {} of {} differed. {}",
                      counted(kernel.fact("extra_launches") - beside, "extra launch"),
                      kernel.fact("beside_that_differ"), beside, of_varying(kernel).why)};
}

Judgement judgement_of(const Surveyed& kernel) {
  if (kernel.fact("varied") > 0) return of_varying(kernel);
  if (kernel.fact("varied_beside") > 0) return of_varying_beside(kernel);
  if (kernel.fact("unwritten_launches") > 0) return of_reading_unwritten(kernel);
  if (kernel.fact("surveyed") > 0) return of_steady(kernel);
  std::string why;
  for (const auto& [reason, count] : kernel.not_surveyed) why += (why.empty() ? "" : ". ") + reason_text(reason);
  return {SurveyVerdict::kNotSurveyed, why};
}

}  // namespace

const char* name_of(SurveyVerdict verdict) {
  switch (verdict) {
    case SurveyVerdict::kReadsUnwritten:
      return "reads_unwritten";
    case SurveyVerdict::kRace:
      return "race";
    case SurveyVerdict::kArrivalOrder:
      return "arrival_order";
    case SurveyVerdict::kOrderOnly:
      return "order_only";
    case SurveyVerdict::kMayVary:
      return "may_vary";
    case SurveyVerdict::kNotSurveyed:
      return "not_surveyed";
    case SurveyVerdict::kDeterministic:
      return "deterministic";
  }
  return "";
}

bool varies(SurveyVerdict verdict) { return verdict <= SurveyVerdict::kOrderOnly; }

int64_t Surveyed::fact(const char* name) const {
  const auto found = facts.find(name);
  return found != facts.end() ? found->second : 0;
}

std::optional<double> Surveyed::number(const char* name) const {
  const auto found = numbers.find(name);
  return found != numbers.end() ? std::optional(found->second) : std::nullopt;
}

std::string reason_text(const std::string& reason) {
  static const std::map<std::string, std::string> kTexts{
      {"not_asked", "Not asked for (--from, --to, --seconds, --label)"},
      {"captured", "In a CUDA graph that cannot be done again, kernel by kernel"},
      {"graph_nodes", "In a CUDA graph that also calls the host, allocates, waits or branches"},
      {"collective", "It waits for other processes or devices"},
      {"other_memory", "It changes memory that neither its parameters nor pointers in memory name"},
      {"shared_memory", "It changes memory of the host, or of another device"},
      {"over_limit",
       "No room for two copies of what it reaches, or too often none on the device (--memory allows more)"},
      {"unknown_code", "Its code is not known: CUPTI provides it (msda-replay doctor)"},
      {"calls_out", "It prints, allocates, or launches kernels itself"},
      {"busy", "Other work on the device, or the launch itself, did not end within 10 s"},
      {"parameters_unknown", "The driver does not describe its parameters"},
      {"refused", "The driver refused"}};
  const auto found = kTexts.find(reason);
  return found != kTexts.end() ? found->second : reason;
}

std::vector<Surveyed> survey_of(const std::string& capture) {
  std::vector<Surveyed> all;
  for (const capture::SurveyedKernel& recorded : capture::IsolatedReader(capture).survey()) {
    Surveyed& kernel = all.emplace_back();
    const auto text = [&](const char* name) {
      const auto found = recorded.texts.find(name);
      return found != recorded.texts.end() ? found->second : "";
    };
    kernel.mangled = text("kernel");
    kernel.kernel_digest = text("kernel_digest");
    kernel.node = text("node");
    kernel.operation = text("operation");
    kernel.python = text("python");
    kernel.kernel = text::demangled(kernel.mangled);
    kernel.added_type = text("evidence_type");
    kernel.evidence_missing = text("evidence_missing");
    kernel.facts = recorded.integers;
    kernel.numbers = recorded.numbers;
    const auto damaged = [&](const std::string& what) {
      return BadInput(fmt::format("{}: the survey says of {} that {}: the file is damaged; record again", capture,
                                  kernel.mangled, what));
    };
    for (const auto& [fact, count] : recorded.integers) {
      constexpr int64_t kMost = int64_t{1} << 40;  // sums of these do not overflow
      if (count < 0 || count > kMost) {
        throw damaged(fmt::format("{} is {}", fact, count));
      }
      if (fact.starts_with(kUnsurveyed)) kernel.not_surveyed[fact.substr(kUnsurveyed.size())] = count;
    }
    for (const auto& [fact, number] : recorded.numbers) {
      if (!std::isfinite(number) || number < 0) throw damaged(fmt::format("{} is {}", fact, number));
    }
    for (const char* kind : {"additions", "communication"}) {
      const std::string name = std::string("lines_of_") + kind;
      auto places = survey_places(text(name.c_str()));
      if (!places) throw damaged(name + " is no list of lines");
      kernel.places[kind] = *std::move(places);
    }
    Judgement judgement = judgement_of(kernel);
    kernel.verdict = judgement.verdict;
    kernel.why = std::move(judgement.why);
  }
  const auto share = [](const Surveyed& kernel) {
    return static_cast<double>(kernel.fact("varied") + kernel.fact("unwritten_launches")) /
           static_cast<double>(std::max<int64_t>(1, kernel.fact("surveyed")));
  };
  std::ranges::stable_sort(all, {}, [&](const Surveyed& kernel) {
    return std::tuple(varies(kernel.verdict) ? -1 : static_cast<int>(kernel.verdict), -share(kernel),
                      -kernel.fact("launches"));
  });
  return all;
}

}  // namespace msda::replay
