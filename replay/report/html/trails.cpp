#include "replay/report/html/trails.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string_view>

#include "replay/report/html/findings.h"
#include "replay/report/html/frame.h"
#include "replay/report/words.h"

namespace msda::replay {
namespace {

using analysis::thousands;

bool is_equal(const Json& comparison) { return comparison.at("equal").get<bool>(); }

std::string other_runs(const Json& comparison) {
  if (comparison.contains("b")) return text_at(comparison, "b");
  return fmt::format("{} other runs", comparison.at("runs").size());
}

void add_trail_head(Html& html, const Json& comparison, const std::string& headline) {
  const auto header = html.in("header", {{"class", is_equal(comparison) ? "top good" : "top error"}});
  {
    const auto line = html.in("p", {{"class", "brand"}});
    html.add("span", "msda-replay diff");
    html.add("span", {{"class", "mono"}}, fmt::format("{} | {}", text_at(comparison, "a"), other_runs(comparison)));
  }
  html.add("h1", {{"class", "wrap"}}, headline);
  const auto figures = html.in("dl", {{"class", "figures"}});
  for (const char* name : {"launches", "copies", "sets", "unknown"}) {
    add_figure(html, name == std::string_view("unknown") ? "not comparable" : name,
               thousands(count_at(comparison.at("compared"), name)));
  }
}

// "launch 12", or what else it is.
std::string place_of_side(const Json& side) {
  return side.at("launch").is_null() ? text_at(side, "what") : "launch " + thousands(count_at(side, "launch"));
}

std::string caller_of_side(const Json& side) {
  std::string text;
  for (const auto& [name, value] : side.at("caller").items())
    text += (text.empty() ? "" : ", ") + value.get<std::string>();
  return text;
}

std::string configuration_text(const Json& configuration) {
  if (configuration.is_null()) return "";
  return fmt::format("grid {}, block {}, {} bytes shared", configuration.at("grid").dump(),
                     configuration.at("block").dump(), count_at(configuration, "shared_bytes"));
}

std::string text_or_nothing(const Json& json) { return json.is_null() ? "" : json.get<std::string>(); }

void add_row_of_sides(Html& html, const char* name, const std::string& a, const std::string& b) {
  if (a.empty() && b.empty()) return;
  const auto row = html.in("tr", {{"class", a == b ? "" : "bad"}});
  html.add("th", {{"scope", "row"}}, name);
  for (const std::string& text : {a, b}) html.add("td", {{"class", "wrap mono"}}, text);
}

void add_both_sides(Html& html, const Json& first) {
  const Json &a = first.at("a"), &b = first.at("b");
  const auto text_of_sides = [&](const Json& side, const auto& text) {
    return side.is_null() ? std::string("(none)") : text(side);
  };
  const auto add = [&](const char* name, const auto& text) {
    add_row_of_sides(html, name, text_of_sides(a, text), text_of_sides(b, text));
  };
  const auto scroll = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
  const auto table = html.in("table");
  {
    const auto head = html.in("thead");
    const auto row = html.in("tr");
    for (const char* name : {"", "A", "B"}) html.add("th", {{"scope", "col"}}, name);
  }
  add("where", place_of_side);
  add("kernel", [](const Json& side) { return text_at(side, "kernel"); });
  add("called by", caller_of_side);
  add("launched", [](const Json& side) { return configuration_text(side.at("configuration")); });
  add("code", [](const Json& side) { return text_at(side, "code"); });
  add("digest", [](const Json& side) { return text_or_nothing(side.at("digest")); });
  for (const Json& word : first.at("parameters")) {
    const std::string name = fmt::format("parameters, byte {}", count_at(word, "offset"));
    add_row_of_sides(html, name.c_str(), text_or_nothing(word.at("a")), text_or_nothing(word.at("b")));
  }
}

void add_first_part(Html& html, const Json& comparison) {
  const auto section = html.in("section", {{"id", "first"}});
  html.add("h2", "Where they part");
  const Json& first = comparison.at("first");
  if (first.is_null()) {
    html.add("p", {{"class", "note good"}}, "Nowhere: all results that were compared are equal.");
    return;
  }
  {
    const auto chips = html.in("p", {{"class", "chips"}});
    add_chip(html, "error", text_at(first, "kind"));
    if (!first.at("cause").is_null()) add_chip(html, "plain", text_at(first, "cause"));
  }
  for (const Json& evidence : first.at("evidence")) html.add("p", evidence.get<std::string>());
  add_both_sides(html, first);
  html.add("p", "What to type next:");
  add_command(html, text_at(first, "next"));
}

void add_cells(Html& html, const Json& side) {
  if (side.is_null()) {
    for (int i = 0; i < 3; ++i) html.add("td", "");
    return;
  }
  const std::string kernel = text_at(side, "kernel");
  html.add("td", place_of_side(side));
  html.add("td", {{"class", "wrap mono"}},
           kernel.empty() ? fmt::format("{} bytes", thousands(count_at(side, "bytes"))) : kernel);
  html.add("td", {{"class", "mono"}}, text_or_nothing(side.at("digest")));
}

void add_rows_around(Html& html, const Json& rows) {
  const auto section = html.in("section", {{"id", "around"}});
  html.add("h2", "Before and behind");
  if (rows.empty()) html.add("p", "Nothing differs.");
  const auto scroll = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
  const auto table = html.in("table");
  {
    const auto head = html.in("thead");
    const auto row = html.in("tr");
    for (const char* name : {"A", "kernel", "digest", "", "B", "kernel", "digest"})
      html.add("th", {{"scope", "col"}}, name);
  }
  for (const Json& compared : rows) {
    const std::string result = text_at(compared, "result");
    const auto row = html.in("tr", {{"class", result == "equal" || result == "unknown" ? "" : "bad"}});
    add_cells(html, compared.at("a"));
    html.add("td", result);
    add_cells(html, compared.at("b"));
  }
}

void add_list(Html& html, const char* id, const char* title, const std::vector<std::string>& texts) {
  if (texts.empty()) return;
  const auto section = html.in("section", {{"id", id}});
  html.add("h2", title);
  const auto list = html.in("ul");
  for (const std::string& text : texts) html.add("li", text);
}

std::string outcome_text(const std::string& name, const Json& outcome) {
  if (is_equal(outcome)) return name + ": equal";
  const Json& first = outcome.at("first");
  const Json& side = first.at("a").is_null() ? first.at("b") : first.at("a");
  return fmt::format("{}: {}, {}, {}", name, place_of_side(side), text_at(side, "kernel"), text_at(first, "kind"));
}

}  // namespace

std::string html_of_trails(const Json& comparison, const std::string& headline, const std::string& version) {
  Html body;
  add_trail_head(body, comparison, headline);
  {
    const auto frame = body.in("div", {{"class", "frame"}});
    add_navigation(body, {{"first", "Where they part"}, {"around", "Before and behind"}});
    const auto main = body.in("main");
    add_first_part(body, comparison);
    add_rows_around(body, comparison.at("around"));
    std::vector<std::string> others;
    for (const Json& rank : comparison.value("ranks", Json::array()))
      others.push_back(outcome_text("rank " + text_at(rank, "rank"), rank));
    for (const Json& run : comparison.value("runs", Json::array()))
      others.push_back(outcome_text(text_at(run, "b"), run));
    add_list(body, "others", "Ranks and runs", others);
    add_list(body, "notes", "Notes", comparison.at("notes").get<std::vector<std::string>>());
    body.add("p", {{"class", "quiet"}}, "Reported with msda-replay " + version + ".");
  }
  return page_of_html(headline, body);
}

}  // namespace msda::replay
