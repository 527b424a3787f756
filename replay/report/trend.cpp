#include "replay/report/trend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>

#include "analysis/stress/proportion.h"
#include "recorder/text/words.h"
#include "recorder/writer/version.h"
#include "replay/base/errors.h"
#include "replay/base/lines.h"
#include "replay/base/state_file.h"
#include "replay/report/findings.h"
#include "replay/report/html/frame.h"

namespace msda::replay {
namespace {

namespace fs = std::filesystem;
using text::counted;

std::vector<std::string> files_in(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code failed;
    if (!fs::is_directory(path, failed)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(path, failed)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path().string());
    }
    if (failed) throw BadInput(fmt::format("{}: cannot read it: {}", path, failed.message()));
  }
  std::ranges::sort(files);
  if (files.empty()) throw BadInput(fmt::format("{}: has no tallies (*.json)", fmt::join(paths, ", ")));
  return files;
}

// Returns the members that are needed, and no others. Throws Json::exception or std::invalid_argument.
Json checked_tally(const Json& kept, const std::string& path) {
  constexpr int64_t kMost = int64_t{1} << 53;
  if (kept.at("schema") != "tally.schema.json") throw std::invalid_argument("schema");
  Json tally = {{"file", fs::path(path).filename().string()}, {"gpus", Json::array()}};
  tally["tests"] = tally["failures"] = Json::object();
  for (const char* name : {"command", "recorded", "version"}) tally[name] = kept.at(name).get<std::string>();
  tally["unread"] = whole_number(kept.at("unread"), 0, kMost);
  for (const Json& gpu : kept.at("gpus")) tally["gpus"].push_back(gpu.get<std::string>());
  for (const auto& [test, trials] : kept.at("tests").items()) tally["tests"][test] = whole_number(trials, 0, kMost);
  for (const Json& finding : kept.at("findings")) {
    const Json identity = identity_of(finding);
    const int64_t trials = tally["tests"].at(text_at(identity, "test"));
    tally["failures"][line_of(identity)] = whole_number(finding.at("failures"), 0, trials);
  }
  return tally;
}

Json read_tally(const std::string& path) {
  const auto fail = [&](const char* why) {
    return BadInput(fmt::format("{}: {}; write one: msda-replay run ... --tally FILE", path, why));
  };
  try {
    const auto kept = read_kept_json(path);
    if (!kept) throw fail("no such file");
    return checked_tally(*kept, path);
  } catch (const Json::exception&) {
    throw fail("is damaged, or no tally");
  } catch (const std::invalid_argument&) {
    throw fail("is damaged, or no tally");
  }
}

Json rate_json(int64_t failures, int64_t trials) {
  const auto rate = analysis::stress::proportion(failures, trials, 0.95);
  return {
      {"failures", failures}, {"trials", trials}, {"estimate", rate.estimate}, {"low", rate.low}, {"high", rate.high}};
}

// Returns a finding with its rates, one for each night; null for a night that did not run its test by its command.
Json row_of(const std::string& command, const std::string& identity, const std::vector<Json>& tallies) {
  Json row = {{"command", command}, {"finding", Json::parse(identity)}, {"rates", Json::array()}};
  const std::string test = text_at(row["finding"], "test");
  int64_t failures = 0, trials = 0;
  for (const Json& tally : tallies) {
    Json& rate = row["rates"].emplace_back();
    if (tally["command"] != command || !tally["tests"].contains(test)) continue;
    const int64_t tried = tally["tests"][test];
    const int64_t failed = tally["failures"].value(identity, int64_t{0});
    rate = rate_json(failed, tried);
    failures += failed;
    trials += tried;
  }
  row["title"] = title_of(row["finding"]);
  row["all"] = rate_json(failures, trials);
  return row;
}

// By command, test and finding.
Json rows_of(const std::vector<Json>& tallies) {
  std::set<std::pair<std::string, std::string>> found;
  for (const Json& tally : tallies) {
    for (const auto& [identity, failures] : tally["failures"].items())
      found.emplace(text_at(tally, "command"), identity);
  }
  Json rows = Json::array();
  for (const auto& [command, identity] : found) rows.push_back(row_of(command, identity, tallies));
  return rows;
}

std::string rate_text(const Json& rate) {
  if (rate.is_null()) return "not run";
  return fmt::format("{} of {}", count_at(rate, "failures"), count_at(rate, "trials"));
}

std::string trend_text(const std::vector<Json>& tallies, const Json& rows) {
  Lines lines;
  for (const Json& row : rows) {
    const Json& all = row["all"];
    lines.add("{}: {}", text_at(row["finding"], "test"), text_at(row, "title"));
    lines.add("  {}: {}, {:.2f} % ({:.2f} to {:.2f})", text_at(row, "command"), rate_text(all),
              100 * all["estimate"].get<double>(), 100 * all["low"].get<double>(), 100 * all["high"].get<double>());
    for (size_t i = 0; i < tallies.size(); ++i)
      lines.add("    {:<20}  {}", text_at(tallies[i], "recorded"), rate_text(row["rates"][i]));
  }
  return lines.text();
}

}  // namespace

std::vector<Json> read_tallies(const std::vector<std::string>& paths) {
  std::vector<Json> tallies;
  for (const std::string& file : files_in(paths)) tallies.push_back(read_tally(file));
  std::ranges::stable_sort(tallies, {}, [](const Json& tally) { return text_at(tally, "recorded"); });
  return tallies;
}

std::string trend_summary(const std::vector<Json>& tallies) {
  std::set<std::string> tests, failing;
  for (const Json& tally : tallies) {
    for (const auto& [test, trials] : tally["tests"].items()) tests.insert(test);
  }
  const Json rows = rows_of(tallies);
  for (const Json& row : rows) failing.insert(text_at(row["finding"], "test"));
  return fmt::format("{} in {} of {}, in {}.", counted(std::ssize(rows), "finding"), failing.size(),
                     counted(std::ssize(tests), "test"), counted(std::ssize(tallies), "night"));
}

std::string html_of_trend(const std::vector<Json>& tallies) {
  const Json rows = rows_of(tallies);
  Json nights = Json::array();
  for (const Json& tally : tallies) {
    nights.push_back({{"tests", tally["tests"].size()}});
    for (const char* name : {"file", "recorded", "command", "version", "gpus", "unread"})
      nights.back()[name] = tally[name];
  }
  const std::string summary = trend_summary(tallies);
  return page_of_html(summary, trend_text(tallies, rows),
                      {{"kind", "trend"},
                       {"headline", summary},
                       {"nights", std::move(nights)},
                       {"rows", rows},
                       {"version", record::version()}});
}

}  // namespace msda::replay
