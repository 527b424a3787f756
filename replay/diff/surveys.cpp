#include "replay/diff/surveys.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include "recorder/text/words.h"
#include "replay/diff/print.h"
#include "replay/survey/kernel_name.h"

namespace msda::replay {
namespace {

using text::counted;

constexpr size_t kMostKernels = 20, kColumns = 76;

class SurveyComparer {
 public:
  SurveyDifferences run(const std::vector<Surveyed>& a, const std::vector<Surveyed>& b) {
    std::vector<const Surveyed*> left_a, left_b;
    for (const Surveyed& item : a) left_a.push_back(&item);
    for (const Surveyed& item : b) left_b.push_back(&item);
    // Two builds of a kernel, or two shapes for which Triton compiled it, have a row for each code.
    pair_those(left_a, left_b, [](const Surveyed& of_a, const Surveyed& of_b) {
      return of_a.mangled == of_b.mangled && of_a.kernel_digest == of_b.kernel_digest;
    });
    pair_those(left_a, left_b, [](const Surveyed& of_a, const Surveyed& of_b) { return of_a.mangled == of_b.mangled; });
    for (const Surveyed* item : left_a) add(*item, "kernel", launches_text(*item), "");
    for (const Surveyed* item : left_b) add(*item, "kernel", "", launches_text(*item));
    return std::move(result_);
  }

 private:
  static std::string launches_text(const Surveyed& kernel) {
    return fmt::format("{}, {}", name_of(kernel.verdict), counted(kernel.fact("launches"), "launch"));
  }

  template <class Matches>
  void pair_those(std::vector<const Surveyed*>& a, std::vector<const Surveyed*>& b, const Matches& matches) {
    std::erase_if(a, [&](const Surveyed* of_a) {
      const auto found = std::ranges::find_if(b, [&](const Surveyed* of_b) { return matches(*of_a, *of_b); });
      if (found == b.end()) return false;
      compare(*of_a, **found);
      b.erase(found);
      return true;
    });
  }

  void add(const Surveyed& kernel, const char* what, std::string a, std::string b) {
    result_.found.push_back({what, kernel.kernel, kernel.mangled, std::move(a), std::move(b)});
  }

  void compare(const Surveyed& a, const Surveyed& b) {
    ++result_.kernels;
    const auto differ = [&](const char* what, std::string of_a, std::string of_b) {
      if (of_a != of_b) add(a, what, std::move(of_a), std::move(of_b));
    };
    const bool are_codes_known = !a.kernel_digest.empty() && !b.kernel_digest.empty();
    if (are_codes_known) differ("code", a.kernel_digest, b.kernel_digest);
    differ("verdict", name_of(a.verdict), name_of(b.verdict));
    differ("launches", fmt::format("{}", a.fact("launches")), fmt::format("{}", b.fact("launches")));
    if (!are_codes_known) note(a, "code", a.kernel_digest, b.kernel_digest);
    note_counts(a, b);
    note(a, "node", a.node, b.node);
    note(a, "operation", a.operation, b.operation);
    note(a, "python", a.python, b.python);
  }

  void note(const Surveyed& kernel, std::string what, std::string a, std::string b) {
    if (a != b) result_.notes.push_back({std::move(what), kernel.kernel, kernel.mangled, std::move(a), std::move(b)});
  }

  void note_counts(const Surveyed& a, const Surveyed& b) {
    constexpr const char* kCounts[] = {
        "surveyed",          "varied",     "varied_beside",     "first_varied", "extra_launches",
        "extra_that_differ", "most_words", "unwritten_launches"};
    const auto text = [](int64_t count) { return fmt::format("{}", count); };
    for (const char* name : kCounts) note(a, name, text(a.fact(name)), text(b.fact(name)));
    std::set<std::string> reasons;
    for (const Surveyed* item : {&a, &b}) {
      for (const auto& [reason, count] : item->not_surveyed) reasons.insert(reason);
    }
    const auto count_of = [](const Surveyed& kernel, const std::string& reason) {
      const auto found = kernel.not_surveyed.find(reason);
      return found != kernel.not_surveyed.end() ? found->second : 0;
    };
    for (const std::string& reason : reasons) {
      note(a, "not_surveyed, " + reason, text(count_of(a, reason)), text(count_of(b, reason)));
    }
  }

  SurveyDifferences result_;
};

Json survey_difference_json(const SurveyDifference& difference) {
  return {{"what", difference.what},
          {"kernel", difference.kernel},
          {"mangled", difference.mangled},
          {"a", difference.a},
          {"b", difference.b}};
}

std::string text_of_side(const std::string& text) { return text.empty() ? "(not there)" : text; }

void add_kernels(Lines& lines, const std::vector<SurveyDifference>& all) {
  const std::string* last = nullptr;
  size_t kernels = 0;
  for (const SurveyDifference& difference : all) {
    if (last == nullptr || *last != difference.mangled) {
      if (++kernels > kMostKernels) return lines.add("    ... and more; --json has all");
      lines.add("    {}", short_name(difference.kernel, kColumns));
    }
    last = &difference.mangled;
    lines.add("      {}: {} | {}", difference.what, text_of_side(difference.a), text_of_side(difference.b));
  }
}

std::string headline_of_surveys(const SurveyDifferences& differences) {
  if (differences.found.empty()) {
    return fmt::format("Equal: {}, with the same code, verdicts and numbers of launches",
                       counted(differences.kernels, "kernel"));
  }
  std::set<std::string> kernels;
  for (const SurveyDifference& difference : differences.found) kernels.insert(difference.mangled);
  const SurveyDifference& first = differences.found.front();
  return fmt::format("Different in {}; the first is {}: {}", counted(std::ssize(kernels), "kernel"),
                     short_name(first.kernel, kColumns), first.what);
}

}  // namespace

SurveyDifferences find_survey_differences(const std::vector<Surveyed>& a, const std::vector<Surveyed>& b) {
  return SurveyComparer().run(a, b);
}

Json survey_differences_json(const std::string& a, const std::string& b, const SurveyDifferences& differences) {
  Json json = {{"a", a},
               {"b", b},
               {"kind", "survey"},
               {"equal", differences.found.empty()},
               {"first", Json()},
               {"differences", Json::array()},
               {"notes", Json::array()},
               {"runs", Json::array()},
               {"compared", {{"kernels", differences.kernels}, {"facts", differences.facts}}}};
  for (const SurveyDifference& difference : differences.found)
    json["differences"].push_back(survey_difference_json(difference));
  for (const SurveyDifference& difference : differences.notes)
    json["notes"].push_back(survey_difference_json(difference));
  for (const Difference& difference : differences.runs) json["runs"].push_back(note_json(difference));
  if (!differences.found.empty()) json["first"] = json["differences"].front();
  return json;
}

Lines survey_differences_text(const SurveyDifferences& differences, bool quiet) {
  Lines lines;
  lines.add("{}", headline_of_surveys(differences));
  if (quiet) return lines;
  if (!differences.found.empty()) lines.add("  differences");
  add_kernels(lines, differences.found);
  if (!differences.notes.empty()) lines.add("  notes: how often a kernel varied, and who launched it");
  add_kernels(lines, differences.notes);
  add_run_notes(lines, differences.runs);
  return lines;
}

}  // namespace msda::replay
