#include "replay/report/html/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "recorder/text/shell.h"
#include "replay/base/json.h"
#include "replay/report/html/findings.h"
#include "replay/report/html/frame.h"
#include "replay/report/words.h"

namespace msda::replay {
namespace {

using analysis::thousands;

bool does_vary(const Json& kernel) { return count_at(kernel, "varied") > 0; }

bool reads_unwritten(const Json& kernel) { return text_at(kernel, "verdict") == "reads_unwritten"; }

bool may_differ(const Json& kernel) { return does_vary(kernel) || reads_unwritten(kernel); }

bool varies_beside(const Json& kernel) { return count_at(kernel, "varied_beside") > 0; }

bool has_card(const Json& kernel) { return may_differ(kernel) || varies_beside(kernel); }

// Returns the style of a verdict's chip.
const char* verdict_style(std::string_view verdict) {
  if (verdict == "race" || verdict == "reads_unwritten") return "error";
  return verdict == "deterministic" ? "good" : "warning";
}

// Returns the style of the page, which is that of its worst kernel.
const char* style_of_page(const Json& kernels) {
  const char* style = "good";
  for (const Json& kernel : kernels) {
    if (may_differ(kernel) && style != std::string_view("error")) style = verdict_style(text_at(kernel, "verdict"));
  }
  return style;
}

std::string headline_of(const Json& survey) {
  const Json& kernels = survey.at("kernels");
  const auto unwritten = std::ranges::count_if(kernels, reads_unwritten);
  const auto beside = std::ranges::count_if(kernels, varies_beside);
  return fmt::format("{} of {} kernels vary, in {} of {} launches", std::ranges::count_if(kernels, does_vary),
                     kernels.size(), thousands(count_at(survey, "varied")), thousands(count_at(survey, "surveyed"))) +
         (unwritten > 0 ? fmt::format("; {} depend on memory that nobody wrote", unwritten) : "") +
         (beside > 0 ? fmt::format("; {} only beside other work", beside) : "");
}

void add_head(Html& html, const Json& survey) {
  const Json& kernels = survey.at("kernels");
  const auto header = html.in("header", {{"class", std::string("top ") + style_of_page(kernels)}});
  {
    const auto line = html.in("p", {{"class", "brand"}});
    html.add("span", "msda-replay survey");
    html.add("span", {{"class", "mono"}}, std::filesystem::path(text_at(survey, "capture")).filename().string());
  }
  std::map<std::string, int64_t> verdicts;
  int64_t microseconds = 0;
  for (const Json& kernel : kernels) {
    ++verdicts[text_at(kernel, "verdict")];
    microseconds += count_at(kernel, "microseconds");
  }
  {
    const auto chips = html.in("p", {{"class", "chips"}});
    for (const auto& [verdict, count] : verdicts)
      add_chip(html, verdict_style(verdict), fmt::format("{} {}", verdict, thousands(count)));
  }
  html.add("h1", headline_of(survey));
  const auto figures = html.in("dl", {{"class", "figures"}});
  add_figure(html, "launches", thousands(count_at(survey, "launches")));
  add_figure(html, "surveyed", thousands(count_at(survey, "surveyed")));
  add_figure(html, "kernels", thousands(static_cast<int64_t>(kernels.size())));
  add_figure(html, "the survey took", fmt::format("{:.1f} s", 1e-6 * static_cast<double>(microseconds)));
}

std::string callers_of(const Json& kernel) {
  std::string text;
  for (const char* name : {"node", "operation", "python"}) {
    const std::string piece = text_at(kernel, name);
    if (!piece.empty()) text += (text.empty() ? "" : ", ") + piece;
  }
  return text;
}

std::string twin_text(const Json& twin) {
  if (count_at(twin, "replaced") == 0) return "none: no floating-point addition of its code can be replaced";
  if (twin.at("refused").get<bool>()) return "the driver refused it";
  return fmt::format("{} additions as integers, {} left as they were: equal results in {} of {} launches tried",
                     count_at(twin, "replaced"), count_at(twin, "left"), count_at(twin, "equal"),
                     count_at(twin, "trials"));
}

// "a.cu:12, through b.cuh:7"
std::string lines_text(const Json& place) {
  const Json& lines = place.at("lines");
  std::string text;
  for (size_t i = lines.size(); i-- > 0;) {
    text += fmt::format("{}{}:{}",
                        text.empty()            ? ""
                        : i + 2 == lines.size() ? ", through "
                                                : ", ",
                        text_at(lines[i], "file"), count_at(lines[i], "line"));
  }
  return fmt::format("{} at {} ({})", text_at(place, "instruction"), text, count_at(place, "count"));
}

// Returns the places of one kind, of which a page shows the first.
std::string places_text(const Json& places) {
  constexpr size_t kMostPlaces = 12;
  std::string text;
  for (size_t i = 0; i < std::min(places.size(), kMostPlaces); ++i)
    text += (i == 0 ? "" : "; ") + lines_text(places[i]);
  if (places.size() > kMostPlaces) text += fmt::format("; and {} others (--json)", places.size() - kMostPlaces);
  return text;
}

std::string size_text(const Json& number) {
  return number.is_null() ? "not known" : fmt::format("{:.3g}", number.get<double>());
}

// What was measured of its additions.
template <class AddRow>
void add_rows_of_measured(const Json& evidence, AddRow&& add_row) {
  add_row("additions",
          fmt::format("{} of {} to {} addresses, at most {} to one; greatest addend {}",
                      thousands(count_at(evidence, "additions")), text_at(evidence, "type"),
                      thousands(count_at(evidence, "addresses")), thousands(count_at(evidence, "most_additions")),
                      size_text(evidence.at("greatest_addend"))));
  add_row("order can change",
          fmt::format("{} where results differed most, by {} in {} more launches; at most {} of a bound",
                      size_text(evidence.at("bound")), size_text(evidence.at("difference")),
                      count_at(evidence, "launches"), size_text(evidence.at("share"))));
  add_row("not explained",
          fmt::format("{} of {} numbers that differed, by more than their bounds; {} without a bound; {} "
                      "words where no addition was counted; {} that depend on sums otherwise",
                      thousands(count_at(evidence, "exceeding")), thousands(count_at(evidence, "differing")),
                      thousands(count_at(evidence, "unbounded")), thousands(count_at(evidence, "elsewhere")),
                      thousands(count_at(evidence, "other_words"))));
}

template <class AddRow>
void add_rows_of_varying(const Json& kernel, AddRow&& add_row) {
  add_row("first", fmt::format("the program's launch {}", thousands(count_at(kernel, "first_varied"))));
  add_row("differed", fmt::format("at most {} words of 32 bits, in {} of {} extra launches, {} of {} beside other work",
                                  thousands(count_at(kernel, "most_words")), count_at(kernel, "extra_that_differ"),
                                  count_at(kernel, "extra_launches"), count_at(kernel, "beside_that_differ"),
                                  count_at(kernel, "extra_beside")));
  if (!kernel.at("twin").is_null()) add_row("order-free twin", twin_text(kernel.at("twin")));
  if (!kernel.at("evidence").is_null()) add_rows_of_measured(kernel.at("evidence"), add_row);
  add_row("additions not measured", text_at(kernel, "evidence_missing"));
  add_row("additions in the source", places_text(kernel.at("source_lines").at("additions")));
  add_row("communication in the source", places_text(kernel.at("source_lines").at("communication")));
  const Json& remedy = kernel.at("remedy");
  add_row("what to type", remedy.is_null() ? "nothing is known"
                                           : fmt::format("{} ({}; {})", text_at(remedy, "type"),
                                                         text_at(remedy, "note"), text_at(remedy, "source")));
}

// A kernel whose results may differ: who launched it, why, on what evidence, and what to type.
void add_varying(Html& html, const Json& kernel) {
  const int64_t launches = reads_unwritten(kernel) ? count_at(kernel.at("poison"), "depend")
                                                   : count_at(kernel, "varied") + count_at(kernel, "varied_beside");
  const std::string verdict = text_at(kernel, "verdict");
  const auto card = html.in("article", {{"class", fmt::format("group {}", verdict_style(verdict))}});
  {
    const auto chips = html.in("p", {{"class", "chips"}});
    add_chip(html, verdict_style(verdict), verdict);
    add_chip(html, "plain",
             fmt::format("{} of {} launches", thousands(launches), thousands(count_at(kernel, "surveyed"))));
  }
  html.add("h4", {{"class", "wrap mono"}}, text_at(kernel, "kernel"));
  {
    const auto list = html.in("dl", {{"class", "described"}});
    const auto add_row = [&](const char* name, const std::string& text) {
      if (text.empty()) return;
      html.add("dt", name);
      html.add("dd", text);
    };
    add_row("why", text_at(kernel, "why"));
    add_row("launched by", callers_of(kernel));
    if (does_vary(kernel) || varies_beside(kernel)) {
      add_rows_of_varying(kernel, add_row);
    } else {
      add_row("what to do", "write this memory first, as torch.zeros does and torch.empty does not");
    }
  }
}

// A bar from left to right.
void add_share(Html& html, double share) {
  const auto cell = html.in("td");
  const auto bar = html.in("progress", {{"max", "1"}, {"value", fmt::format("{:.3f}", share)}});
}

void add_table(Html& html, std::vector<Json> kernels) {
  std::ranges::stable_sort(kernels, std::ranges::greater(),
                           [](const Json& kernel) { return count_at(kernel, "microseconds"); });
  const auto scroll = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
  const auto table = html.in("table");
  {
    const auto head = html.in("thead");
    const auto row = html.in("tr");
    for (const char* name : {"kernel", "verdict", "varied", "share", "surveyed", "launches", "ms"})
      html.add("th", {{"scope", "col"}}, name);
  }
  for (const Json& kernel : kernels) {
    const auto row = html.in("tr", {{"class", may_differ(kernel) ? "bad" : ""}});
    const int64_t surveyed = count_at(kernel, "surveyed"), varied = count_at(kernel, "varied");
    html.add("td", {{"class", "wrap mono"}}, text_at(kernel, "kernel"));
    html.add("td", text_at(kernel, "verdict"));
    html.add("td", {{"class", "number"}}, thousands(varied));
    add_share(html, surveyed > 0 ? static_cast<double>(varied) / static_cast<double>(surveyed) : 0);
    html.add("td", {{"class", "number"}}, thousands(surveyed));
    html.add("td", {{"class", "number"}}, thousands(count_at(kernel, "launches")));
    html.add("td", {{"class", "number"}},
             fmt::format("{:.1f}", 1e-3 * static_cast<double>(count_at(kernel, "microseconds"))));
  }
}

void add_unsurveyed(Html& html, const Json& kernels) {
  std::map<std::string, int64_t> reasons;
  for (const Json& kernel : kernels) {
    for (const auto& [reason, count] : kernel.at("not_surveyed").items()) reasons[reason] += count.get<int64_t>();
  }
  const auto section = html.in("section", {{"id", "unsurveyed"}});
  html.add("h2", "Not surveyed");
  if (reasons.empty()) html.add("p", {{"class", "note good"}}, "All launches were surveyed.");
  for (const auto& [reason, count] : reasons)
    html.add("p", {{"class", "note"}}, fmt::format("{} launches: {}", thousands(count), reason));
}

Grade grade_of(const Json& kernels) {
  const std::string_view style = style_of_page(kernels);
  return style == "good" ? Grade::kGood : style == "error" ? Grade::kWrong : Grade::kDrift;
}

}  // namespace

Json survey_outcome(const Json& survey) {
  const Json& kernels = survey.at("kernels");
  return {{"summary", headline_of(survey) + "."},
          {"grade", name_of(grade_of(kernels))},
          {"kernels", kernels.size()},
          {"varying", std::ranges::count_if(kernels, may_differ)},
          {"launches", survey.at("launches")},
          {"surveyed", survey.at("surveyed")},
          {"varied", survey.at("varied")}};
}

std::string html_of_survey(const Json& survey, const std::string& version) {
  const Json& kernels = survey.at("kernels");
  Html body;
  add_head(body, survey);
  {
    const auto frame = body.in("div", {{"class", "frame"}});
    add_navigation(body, {{"varying", "What varies"}, {"kernels", "All kernels"}, {"unsurveyed", "Not surveyed"}});
    const auto main = body.in("main");
    {
      const auto section = body.in("section", {{"id", "varying"}});
      body.add("h2", "What varies");
      if (std::ranges::none_of(kernels, has_card)) body.add("p", {{"class", "note good"}}, "Nothing.");
      for (const Json& kernel : kernels) {
        if (has_card(kernel)) add_varying(body, kernel);
      }
    }
    {
      const auto section = body.in("section", {{"id", "kernels"}});
      body.add("h2", "All kernels, by the time that surveying them took");
      add_table(body, kernels.get<std::vector<Json>>());
    }
    add_unsurveyed(body, kernels);
    const std::string capture = text::shell_word(text_at(survey, "capture"));
    body.add("p", "The survey again:");
    add_command(body, "msda-replay survey " + capture);
    if (std::ranges::any_of(kernels, [](const Json& kernel) { return count_at(kernel, "kept") > 0; })) {
      body.add("p", "Launches that were kept:");
      add_command(body, "msda-replay run " + capture + " --mode original");
    }
    body.add("p", {{"class", "quiet"}}, "Reported with msda-replay " + version + ".");
  }
  return page_of_html(headline_of(survey), body);
}

}  // namespace msda::replay
