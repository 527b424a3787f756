#include "replay/survey/joined.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "recorder/text/words.h"
#include "replay/survey/kernel_name.h"
#include "replay/survey/verdict.h"

namespace msda::replay {
namespace {

using text::counted;

constexpr const char* kSums[] = {"launches", "surveyed", "varied", "depend"};

// Ranks verdicts from the gravest on.
int rank_of(std::string_view verdict) {
  int rank = 0;
  while (rank < static_cast<int>(SurveyVerdict::kDeterministic) &&
         verdict != name_of(static_cast<SurveyVerdict>(rank))) {
    ++rank;
  }
  return rank;
}

bool part_varies(const Json& part) { return varies(static_cast<SurveyVerdict>(rank_of(text_at(part, "verdict")))); }

int64_t varying_captures(const Json& kernel) { return std::ranges::count_if(kernel.at("captures"), part_varies); }

// Returns what one capture has of a kernel.
Json part_of(const Json& capture, const Json& kernel) {
  const Json& poison = kernel.at("poison");
  return {{"capture", capture},
          {"verdict", kernel.at("verdict")},
          {"launches", kernel.at("launches")},
          {"surveyed", kernel.at("surveyed")},
          {"varied", kernel.at("varied")},
          {"depend", poison.is_null() ? Json(0) : poison.at("depend")}};
}

void add_part(Json& joined, Json part) {
  if (rank_of(text_at(part, "verdict")) < rank_of(text_at(joined, "verdict"))) joined["verdict"] = part["verdict"];
  for (const char* name : kSums) joined[name] = count_at(joined, name) + count_at(part, name);
  joined["captures"].push_back(std::move(part));
}

// Sorts kernels that vary first, then by how many captures they vary in, then by the share of launches.
void sort_kernels(Json& kernels) {
  const auto key = [](const Json& kernel) {
    const int rank = rank_of(text_at(kernel, "verdict"));
    const double share = static_cast<double>(count_at(kernel, "varied") + count_at(kernel, "depend")) /
                         static_cast<double>(std::max<int64_t>(1, count_at(kernel, "surveyed")));
    return std::tuple(part_varies(kernel) ? -1 : rank, -varying_captures(kernel), -share,
                      -count_at(kernel, "launches"));
  };
  std::stable_sort(kernels.begin(), kernels.end(), [&](const Json& a, const Json& b) { return key(a) < key(b); });
}

std::string part_text(const Json& part) {
  const std::string verdict = text_at(part, "verdict");
  if (count_at(part, "surveyed") == 0)
    return fmt::format("{}, {}", verdict, counted(count_at(part, "launches"), "launch"));
  const int64_t varied = count_at(part, "varied"), depend = count_at(part, "depend");
  return fmt::format("{}, {} of {}", verdict, varied > 0 ? varied : depend,
                     counted(count_at(part, "surveyed"), "launch"));
}

void add_kernel_text(Lines& lines, const Json& kernel, int64_t surveys, bool shows_code, bool all) {
  constexpr int64_t kMostListed = 8;
  const std::string verdict = text_at(kernel, "verdict");
  const std::string code =
      shows_code ? fmt::format("  (code {})", text_at(kernel, "kernel_digest").substr(0, 17)) : std::string();
  const size_t columns = text::kColumns - verdict.size() - 2 - code.size();
  lines.add("{}  {}{}", verdict, short_name(text_at(kernel, "kernel"), columns), code);
  const Json& parts = kernel.at("captures");
  int64_t listed = 0, unlisted = 0, steady = 0;
  for (const Json& part : parts) {
    if (!part_varies(part) && !all) {
      ++steady;
    } else if (listed == kMostListed && !all) {
      ++unlisted;
    } else {
      ++listed;
      lines.add("    {}: {}", text_at(part, "capture"), part_text(part));
    }
  }
  if (unlisted > 0) lines.add("    and in {} (--all, --json)", counted(unlisted, "more capture"));
  if (steady > 0) lines.add("    in {} it did not vary", counted(steady, "capture"));
  if (const int64_t without = surveys - std::ssize(parts); without > 0)
    lines.add("    in {} it was not launched", counted(without, "capture"));
}

std::string headline_of(const Json& joined) {
  const Json &kernels = joined.at("kernels"), &captures = joined.at("captures");
  const auto surveys =
      std::ranges::count_if(captures, [](const Json& capture) { return capture.contains("surveyed"); });
  const auto varying = std::ranges::count_if(
      captures, [](const Json& capture) { return capture.contains("surveyed") && count_at(capture, "status") == 1; });
  const auto of_kernels = std::ranges::count_if(kernels, part_varies);
  if (of_kernels == 0)
    return fmt::format("none of {} varied, in {}", counted(std::ssize(kernels), "kernel"), counted(surveys, "survey"));
  return fmt::format("{} of {} var{}, in {} of {}", of_kernels, counted(std::ssize(kernels), "kernel"),
                     of_kernels == 1 ? "ies" : "y", varying, counted(surveys, "survey"));
}

}  // namespace

Json join_surveys(const std::vector<Json>& outcomes) {
  Json joined = {{"captures", Json::array()}, {"kernels", Json::array()}};
  Json& kernels = joined["kernels"];
  std::map<std::pair<std::string, std::string>, size_t> known;  // by name and code
  for (const Json& outcome : outcomes) {
    Json& capture =
        joined["captures"].emplace_back(Json{{"capture", outcome.at("capture")}, {"status", outcome.at("status")}});
    if (!outcome.contains("survey")) {
      capture["error"] = outcome.at("error");
      continue;
    }
    const Json& survey = outcome.at("survey");
    for (const char* name : {"launches", "surveyed", "varied"}) capture[name] = survey.at(name);
    for (const Json& kernel : survey.at("kernels")) {
      const std::pair key(text_at(kernel, "mangled"), text_at(kernel, "kernel_digest"));
      const auto [place, is_new] = known.emplace(key, kernels.size());
      if (is_new) {
        kernels.push_back({{"kernel", kernel.at("kernel")},
                           {"mangled", key.first},
                           {"kernel_digest", key.second},
                           {"verdict", kernel.at("verdict")}});
        for (const char* name : kSums) kernels.back()[name] = 0;
        kernels.back()["captures"] = Json::array();
      }
      add_part(kernels[place->second], part_of(outcome.at("capture"), kernel));
    }
  }
  sort_kernels(kernels);
  return joined;
}

Lines joined_surveys_text(const Json& joined, bool all) {
  Lines lines;
  lines.add("{}", headline_of(joined));
  const auto surveys =
      std::ranges::count_if(joined.at("captures"), [](const Json& capture) { return capture.contains("surveyed"); });
  std::map<std::string, int> codes;  // by the kernel's name
  for (const Json& kernel : joined.at("kernels")) ++codes[text_at(kernel, "mangled")];
  bool is_any_shown = false;
  for (const Json& kernel : joined.at("kernels")) {
    if (!all && !part_varies(kernel)) continue;
    add_kernel_text(lines, kernel, surveys, codes[text_at(kernel, "mangled")] > 1, all);
    is_any_shown = true;
  }
  if (is_any_shown) lines.add("msda-replay survey CAPTURE explains why, who launched it, and what to type.");
  return lines;
}

}  // namespace msda::replay
