#include "replay/survey/evidence.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "recorder/text/words.h"

namespace msda::replay {
namespace {

using text::counted;

// Returns a count from 1 on, written in digits alone; nothing if it is none.
std::optional<int64_t> positive(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? std::optional(value) : std::nullopt;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<SurveyPlace> place_in(std::string_view row) {
  const auto parts = split(row, '\t');
  if (parts.size() < 3 || parts[0].empty()) return std::nullopt;
  const auto count = positive(parts[1]);
  if (!count) return std::nullopt;
  SurveyPlace place{std::string(parts[0]), *count, {}};
  for (size_t i = 2; i < parts.size(); ++i) {
    const size_t colon = parts[i].rfind(':');
    if (colon == 0 || colon == std::string_view::npos) return std::nullopt;
    const auto line = positive(parts[i].substr(colon + 1));
    if (!line) return std::nullopt;
    place.lines.emplace_back(parts[i].substr(0, colon), *line);
  }
  return place;
}

std::string type_text(const std::string& type) {
  static const std::map<std::string, std::string> kNames{
      {"f32", "float32"}, {"f64", "float64"}, {"f16", "float16"}, {"bf16", "bfloat16"}};
  const auto found = kNames.find(type);
  return found != kNames.end() ? found->second : type;
}

std::string missing_text(const std::string& reason) {
  static const std::map<std::string, std::string> kTexts{
      {"results_used", "it uses what its atomic additions return"},
      {"communicates", "its blocks may wait for sums that these twins do not make"},
      {"no_twin", "one of them can be no other instruction"},
      {"vectors", "it adds vectors, of whose elements the first can be counted"},
      {"types", "they are of several types"},
      {"no_room", "there is no room for it (--memory allows more)"},
      {"none_counted", "no word was added to that its parameters reach"},
      {"refused", "the driver refused"}};
  const auto found = kTexts.find(reason);
  return found != kTexts.end() ? found->second : reason;
}

std::string fact_text(const Surveyed& kernel, const char* name, std::string_view noun) {
  return counted(kernel.fact(name), noun);
}

// Returns what no order of the additions explains, if anything is left.
std::string unexplained_text(const Surveyed& kernel) {
  std::string text;
  if (kernel.fact("evidence_exceeding") > 0) {
    text += fmt::format(" {} differed by more than any order of these additions can change: there is another cause.",
                        fact_text(kernel, "evidence_exceeding", "number"));
  }
  if (kernel.fact("evidence_unbounded") > 0) {
    text += fmt::format(" No bound is known of {} that differed: sums may overflow, or the addends were not measured.",
                        fact_text(kernel, "evidence_unbounded", "number"));
  }
  if (kernel.fact("evidence_elsewhere") > 0) {
    text += fmt::format(" {} differed where no addition was counted.", fact_text(kernel, "evidence_elsewhere", "word"));
  }
  if (kernel.fact("evidence_other_words") > 0) {
    text += fmt::format(" {} depend on sums otherwise than by additions, and were not counted.",
                        fact_text(kernel, "evidence_other_words", "word"));
  }
  return text;
}

std::string differences_text(const Surveyed& kernel) {
  const std::string launches = fmt::format("{} more launches", kernel.fact("evidence_launches"));
  const auto difference = kernel.number("evidence_difference"), bound = kernel.number("evidence_bound");
  if (!difference || *difference == 0) return fmt::format(" In {} no number differed.", launches);
  if (!bound) return fmt::format(" In {} numbers differed by at most {:.3g}.", launches, *difference);
  return fmt::format(" In {} numbers differed by at most {:.3g}, where order can change {:.3g}.", launches, *difference,
                     *bound);
}

// Returns the places of "additions" or of "communication".
std::vector<SurveyPlace> places_of(const Surveyed& kernel, const char* kind) {
  const auto found = kernel.places.find(kind);
  return found != kernel.places.end() ? found->second : std::vector<SurveyPlace>();
}

Json places_of_kind(const std::vector<SurveyPlace>& places) {
  Json rows = Json::array();
  for (const SurveyPlace& place : places) {
    Json lines = Json::array();
    for (const auto& [file, line] : place.lines) lines.push_back({{"file", file}, {"line", line}});
    rows.push_back({{"instruction", place.instruction}, {"count", place.count}, {"lines", std::move(lines)}});
  }
  return rows;
}

}  // namespace

std::optional<std::vector<SurveyPlace>> survey_places(const std::string& text) {
  std::vector<SurveyPlace> places;
  auto rows = split(text, '\n');
  if (!rows.back().empty()) return std::nullopt;  // it was cut off
  rows.pop_back();
  for (const std::string_view row : rows) {
    auto place = place_in(row);
    if (!place) return std::nullopt;
    places.push_back(*std::move(place));
  }
  return places;
}

std::string evidence_text(const Surveyed& kernel) {
  if (!kernel.evidence_missing.empty()) {
    return fmt::format("What its additions can change is not known: {}.", missing_text(kernel.evidence_missing));
  }
  if (kernel.fact("evidence_addresses") == 0) return "";
  std::string text =
      fmt::format("It added {} {} in {} to {}, at most {} to one", kernel.fact("evidence_additions"),
                  kernel.added_type.ends_with("f16") ? "pairs of numbers" : "numbers", type_text(kernel.added_type),
                  fact_text(kernel, "evidence_addresses", "address"), kernel.fact("evidence_most_additions"));
  if (const auto greatest = kernel.number("evidence_greatest_addend")) {
    text += fmt::format(", none greater in size than {:.3g}", *greatest);
  }
  return text + "." + differences_text(kernel) + unexplained_text(kernel);
}

std::string places_text(const Surveyed& kernel) {
  constexpr size_t kMostListed = 3;
  auto places = places_of(kernel, "communication");
  const bool communicates = kernel.verdict == SurveyVerdict::kArrivalOrder && !places.empty();
  if (!communicates) places = places_of(kernel, "additions");
  std::vector<std::string> lines;  // each but once: many instructions have one line
  for (const SurveyPlace& place : places) {
    const auto& [file, line] = place.lines.back();
    const std::string text = fmt::format("{}:{}", file.substr(file.rfind('/') + 1), line);
    if (std::ranges::find(lines, text) == lines.end()) lines.push_back(text);
  }
  if (lines.empty()) return "";
  std::string text = communicates ? "Its blocks hand results on at " : "Its additions stand at ";
  for (size_t i = 0; i < std::min(lines.size(), kMostListed); ++i) text += (i == 0 ? "" : ", ") + lines[i];
  if (lines.size() > kMostListed) text += fmt::format(", and {} more lines (--json)", lines.size() - kMostListed);
  return text + ".";
}

Json evidence_json(const Surveyed& kernel) {
  if (!kernel.evidence_missing.empty() || kernel.fact("evidence_addresses") == 0) return {};
  Json json = {{"type", type_text(kernel.added_type)}};
  for (const char* name : {"addresses", "additions", "most_additions", "launches", "differing", "exceeding",
                           "unbounded", "elsewhere", "other_words"}) {
    json[name] = kernel.fact((std::string("evidence_") + name).c_str());
  }
  const auto number = [&](const char* name) {
    const auto value = kernel.number((std::string("evidence_") + name).c_str());
    return value ? Json(*value) : Json();
  };
  json["greatest_addend"] = number("greatest_addend");
  json["difference"] = number("difference");
  const bool differs = kernel.number("evidence_difference").value_or(0) > 0;
  json["bound"] = differs ? number("bound") : Json();
  json["share"] = differs ? number("share") : Json();
  return json;
}

Json places_json(const Surveyed& kernel) {
  return {{"additions", places_of_kind(places_of(kernel, "additions"))},
          {"communication", places_of_kind(places_of(kernel, "communication"))},
          {"left_out", kernel.fact("lines_left_out_of_additions") + kernel.fact("lines_left_out_of_communication")}};
}

}  // namespace msda::replay
