#include "replay/report/html/document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "recorder/text/shell.h"
#include "replay/report/html/frame.h"
#include "replay/report/joined.h"
#include "replay/report/result_text.h"
#include "replay/report/words.h"

namespace msda::replay {

using analysis::number;

namespace {

// Four digits decide the shade of a bin.
Json rounded(double x) { return std::isfinite(x) ? Json(std::stod(fmt::format("{:.4g}", x))) : number(x); }

Json to_json(const ErrorMap& map) {
  Json json = {{"title", map.title},
               {"row_name", map.row_name},
               {"column_name", map.column_name},
               {"all_rows", map.all_rows},
               {"all_columns", map.all_columns},
               {"of_rows", map.of_rows},
               {"of_columns", map.of_columns},
               {"rows", map.rows},
               {"columns", map.columns}};
  const auto worst = std::ranges::max_element(map.largest, {}, [](double x) { return std::isfinite(x) ? x : -1; });
  if (worst != map.largest.end() && std::isfinite(*worst)) {
    json["worst"] = worst - map.largest.begin();
    json["worst_difference"] = *worst;
  }
  json["largest"] = json["outside"] = Json::array();
  for (size_t i = 0; i < map.largest.size(); ++i) {
    json["largest"].push_back(rounded(map.largest[i]));
    if (map.outside[i]) json["outside"].push_back(i);
  }
  return json;
}

Json to_json(const ErrorMaps& maps) {
  Json json = {{"tensor", name_of(maps.compared.gradient)}, {"against", maps.compared.against}, {"differs", maps.any}};
  if (!maps.any) return json;
  json["images"] = Json::array();
  for (const ErrorMap& map : maps.images) json["images"].push_back(to_json(map));
  json["indices"] = maps.indices ? to_json(*maps.indices) : Json();
  return json;
}

Json to_json(const UlpHistogram& histogram) {
  const auto pair = [](const UlpHistogram::Bin& bin) { return Json{bin.within, bin.outside}; };
  Json json = {{"tensor", name_of(histogram.compared.gradient)}, {"against", histogram.compared.against}};
  json["bins"] = Json::array();
  for (const auto& bin : histogram.bins) json["bins"].push_back(pair(bin));
  json["not_finite"] = pair(histogram.not_finite);
  json["tightest"] = histogram.tightest ? Json(*histogram.tightest) : Json();
  return json;
}

Json to_json(const PixelView& view) {
  Json json = {{"row", view.row},         {"column", view.column},     {"rows", view.rows},
               {"columns", view.columns}, {"left_out", view.left_out}, {"addends", Json::array()}};
  for (const auto& [x, y, value] : view.addends) json["addends"].push_back({number(x), number(y), number(value)});
  return json;
}

// Completes a finding, as `run` prints it, by what stands beside it in the list.
void complete(Json& json, const ListedFinding& listed, const InvocationResult& result) {
  const analysis::Finding& finding = result.report.findings[listed.finding];
  json["group"] = listed.group;
  json["place"] = place_of(finding, result);
  json["values"] = values_text(finding, result);
  json["party"] = party_of(finding.at_fault, result.tolerance.has_value());
  json["axes"] = Json::array();
  for (const auto& [size, observed, expected] : listed.sample.axes)
    json["axes"].push_back({{"size", size}, {"observed", number(observed)}, {"expected", number(expected)}});
  if (listed.pixel) json["pixel"] = to_json(*listed.pixel);
}

void complete(Json& json, const GroupTitle& title) {
  json["title"] = title_of(title);
  json["grade"] = grade_of(title);
  json["party"] = party_of(title.at_fault, title.tolerance_given);
}

void complete(Json& json, const analysis::Group& group, const InvocationResult& result) {
  complete(json, GroupTitle{name_of(group.cause), group.at_fault, group.advisory, group.elements,
                            name_of(group.gradient), result.tolerance.has_value()});
  json["where"] = whereabouts_of(group, result);
  json["how"] = patterns_of(group);
  json["reported"] = group.advisory ? reported_elsewhere(group, result.report.groups) : 0;
}

Json lines_of(const Lines& lines) {
  Json json = Json::array();
  std::istringstream text(lines.text());
  for (std::string line; std::getline(text, line);) json.push_back(line);
  return json;
}

// Returns an invocation as `run` prints it, of its findings only those that are listed, and the rest of the page.
Json to_json(const ReportedInvocation& invocation) {
  const InvocationResult& result = invocation.result;
  Json json = to_json(result);
  if (invocation.is_brief) return {{"id", json["id"]}, {"is_brief", true}, {"verdict", json["verdict"]}};
  json.erase("judged");
  Json findings = Json::array();
  for (const ListedFinding& listed : invocation.pictures.listed) {
    const analysis::Group& group = result.report.groups[listed.group];
    if (listed.finding == group.farthest) json["groups"][listed.group]["worst"] = findings.size();
    findings.push_back(std::move(json["findings"][listed.finding]));
    complete(findings.back(), listed, result);
  }
  json["findings"] = std::move(findings);
  for (size_t i = 0; i < result.report.groups.size(); ++i) complete(json["groups"][i], result.report.groups[i], result);
  json["words"] = {{"conventions", operator_and_conventions(result.invocation)},
                   {"tolerance", tolerance_text(result)},
                   {"sizes", result.call->text_of_sizes()},
                   {"label", result.invocation.facts.label}};
  json["gradients"] = json["lines"] = Json::array();
  for (const analysis::Gradient gradient : result.call->gradients()) json["gradients"].push_back(name_of(gradient));
  if (result.original) json["lines"].push_back(lines_of(to_text(*result.original)));
  if (result.poison) json["lines"].push_back(lines_of(to_text(*result.poison)));
  json["maps"] = json["histograms"] = Json::array();
  for (const ErrorMaps& maps : invocation.pictures.maps) json["maps"].push_back(to_json(maps));
  for (const UlpHistogram& histogram : invocation.pictures.histograms) json["histograms"].push_back(to_json(histogram));
  json["shown"] = invocation.shown;
  for (const auto& [name, part] : {std::pair("stages", &invocation.stages),
                                   {"elements", &invocation.elements},
                                   {"order", &invocation.order},
                                   {"stress", &invocation.stress}}) {
    if (!part->empty()) json[name] = *part;
  }
  return json;
}

std::string command_line(const Json& argv) {
  std::vector<std::string> words;
  for (const Json& word : argv) words.push_back(text::shell_word(word.get<std::string>()));
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

std::string html_of(ReportedCapture report) {
  constexpr int kMostListed = 1000;  // calls in a list
  const analysis::Verdict& verdict = report.conclusion.verdict;
  Json data = {{"kind", "capture"},
               {"party", party_of(report.conclusion.faulty ? analysis::AtFault::kObserved : verdict.at_fault,
                                  verdict.tolerance_given)},
               {"flags", report.flags},
               {"stress_flags", report.stress_flags},
               {"recorded", command_line(report.shown["run"]["argv"])},
               {"shown", report.shown},
               {"version", report.version},
               {"most_listed", kMostListed},
               {"invocation_count", report.invocations.size() + report.relaunched.size() + report.not_replayed.size()}};
  std::vector<InvocationResult> results;
  Json invocations = Json::array();
  for (ReportedInvocation& invocation : report.invocations) {
    invocations.push_back(to_json(invocation));
    if (!invocation.is_brief) results.push_back(std::move(invocation.result));
  }
  data.update(to_json(report.capture, {}, {}, report.not_replayed, report.conclusion));
  data["invocations"] = std::move(invocations);
  data["relaunched"] = lines_of(to_text(report.relaunched));
  data.emplace("not_replayed", Json::array());
  ReportSettings settings;
  settings.capture_flags = report.flags;
  const Page text =
      to_text(report.capture, results, report.relaunched, report.not_replayed, report.conclusion, settings);
  return page_of_html(fmt::format("{}: {}", std::filesystem::path(report.capture).filename().string(), verdict.summary),
                      text.text(), data);
}

std::string html_of_index(Json joined, const Json& surveys, const std::vector<std::string>& pages,
                          const std::string& version) {
  const std::string text = joined_text(joined, {}).text();
  for (Json& group : joined["groups"]) {
    complete(group, GroupTitle{group["cause"], at_fault_of(group["at_fault"]), group.contains("advisory"),
                               group["count"], group["tensor"], group["tolerance_given"]});
  }
  const std::string summary = joined["verdict"]["summary"];
  return page_of_html(
      summary, text,
      {{"kind", "index"}, {"joined", std::move(joined)}, {"surveys", surveys}, {"pages", pages}, {"version", version}});
}

}  // namespace msda::replay
