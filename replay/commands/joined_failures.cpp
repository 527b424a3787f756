#include "replay/commands/joined_failures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "analysis/causes/finding.h"
#include "analysis/stress/suite.h"
#include "replay/base/words.h"

namespace msda::replay {

namespace stress = analysis::stress;
using stress::TestRuns;

namespace {

// Distinct calls, each with the places where it was recorded, and their runs.
class Calls {
 public:
  explicit Calls(double confidence) : confidence_(confidence) {}

  // Returns the call's number.
  size_t add(const Outcome& outcome, const Json& call) {
    const auto [known, is_new] = numbers_.emplace(call["key"].get<std::string>(), list_.size());
    if (is_new) {
      Json first = {{"recorded", Json::array()}};
      if (call.contains("label")) first["label"] = call["label"];
      first.update(call["result"]);
      list_.push_back(std::move(first));
      const auto runs = call["result"]["failure_probability"]["runs"].get<int64_t>();
      const Json& failing = call["failing"];
      runs_.push_back({{runs, failing["runs"]}, {}});
      for (const auto& [cause, numbers] : failing["by_cause"].items()) runs_.back().by_cause[cause] = {runs, numbers};
    }
    Json place = {{"capture", outcome["capture"]}, {"invocation", call["invocation"]}};
    if (outcome.contains("rank")) place["rank"] = outcome["rank"];
    list_[known->second]["recorded"].push_back(std::move(place));
    return known->second;
  }

  const Json& operator[](size_t number) const { return list_[number]; }
  const Json& all() const { return list_; }
  bool has_cause(size_t number, const std::string& cause) const { return runs_[number].by_cause.contains(cause); }

  // Returns the probability that at least one of these calls fails, and for which causes.
  Json failure_probability(const std::set<size_t>& numbers) const {
    return any(numbers, [](const Runs& call) { return call.all; });
  }
  Json by_cause(const std::set<size_t>& numbers) const {
    std::set<std::string> causes;
    for (const size_t number : numbers) {
      for (const auto& [cause, runs] : runs_[number].by_cause) causes.insert(cause);
    }
    Json parts = Json::object();
    for (const std::string& cause : causes) {
      parts[cause] = any(numbers, [&](const Runs& call) {
        const auto found = call.by_cause.find(cause);
        return found == call.by_cause.end() ? TestRuns{call.all.runs, {}} : found->second;
      });
    }
    return parts;
  }

 private:
  struct Runs {
    TestRuns all;
    std::map<std::string, TestRuns> by_cause;
  };

  template <class Choose>
  Json any(const std::set<size_t>& numbers, Choose&& choose) const {
    std::vector<TestRuns> tests;
    for (const size_t number : numbers) tests.push_back(choose(runs_[number]));
    return to_json(stress::any_fails(tests, confidence_));
  }

  double confidence_;
  Json list_ = Json::array();
  std::vector<Runs> runs_;
  std::map<std::string, size_t> numbers_;  // by key
};

// Returns the calls by label, or by the capture that held them first; those that fail most often come first.
std::vector<Json> tests_of(const Calls& calls) {
  std::vector<Json> tests;
  std::map<std::pair<std::string, std::string>, std::set<size_t>> members;
  std::vector<std::pair<std::string, std::string>> order;
  for (size_t i = 0; i < calls.all().size(); ++i) {
    const bool labelled = calls[i].contains("label");
    const std::pair<std::string, std::string> name = {
        labelled ? "label" : "capture", labelled ? calls[i]["label"] : calls[i]["recorded"][0]["capture"]};
    if (!members.contains(name)) order.push_back(name);
    members[name].insert(i);
  }
  for (const auto& name : order) {
    const std::set<size_t>& numbers = members[name];
    Json test = {{name.first, name.second}, {"calls", numbers}};
    test["failure_probability"] = calls.failure_probability(numbers);
    test["by_cause"] = calls.by_cause(numbers);
    tests.push_back(std::move(test));
  }
  std::ranges::stable_sort(tests, std::greater<>(),
                           [](const Json& test) { return test["failure_probability"]["estimate"].get<double>(); });
  return tests;
}

Json capture_of(const Outcome& outcome, Calls& calls) {
  Json capture = {{"capture", outcome["capture"]}, {"status", outcome["status"]}};
  for (const char* name : {"error", "rank", "labels", "not_simulated"}) {
    if (outcome.contains(name)) capture[name] = outcome[name];
  }
  std::set<size_t> numbers;
  for (const Json& call : outcome.value("calls", Json::array())) numbers.insert(calls.add(outcome, call));
  if (numbers.empty()) return capture;
  capture["calls"] = numbers;
  capture["failure_probability"] = calls.failure_probability(numbers);
  return capture;
}

std::string place_text(const Json& place) {
  return fmt::format("{}, invocation {}{}", place["capture"], place["invocation"],
                     place.contains("rank") ? fmt::format(" (rank {})", place["rank"]) : "");
}

size_t tests_with(const Json& joined, const std::string& cause) {
  return static_cast<size_t>(
      std::ranges::count_if(joined["tests"], [&](const Json& test) { return test["by_cause"].contains(cause); }));
}

void add_test(const Json& joined, const Json& test, bool verbose, Lines& lines) {
  constexpr size_t kMostListed = 4;
  const bool labelled = test.contains("label");
  const size_t count = test["calls"].size();
  lines.add("  {}  {}{}", percent(test["failure_probability"]), test[labelled ? "label" : "capture"],
            count == 1 ? "" : fmt::format(", {}", count_text(std::ssize(test["calls"]), "call")));
  for (const auto& [cause, part] : test["by_cause"].items()) lines.add("      {:<22} {}", cause, percent(part));
  std::vector<std::string> places;
  for (const Json& number : test["calls"]) {
    for (const Json& place : joined["calls"][number.get<size_t>()]["recorded"]) places.push_back(place_text(place));
  }
  const size_t listed = verbose ? places.size() : std::min(places.size(), kMostListed);
  for (size_t i = 0; i < listed; ++i) lines.add("      in {}", places[i]);
  if (listed < places.size()) lines.add("      and {} more (--verbose lists them, --json too)", places.size() - listed);
}

void add_tests(const Json& joined, bool verbose, Lines& lines) {
  size_t passing = 0;
  double most = 0;
  lines.add("Tests, by how often they fail");
  for (const Json& test : joined["tests"]) {
    const Json& probability = test["failure_probability"];
    if (probability["failures"] == 0 && !verbose) {
      ++passing;
      most = std::max(most, probability["high"].get<double>());
    } else {
      add_test(joined, test, verbose, lines);
    }
  }
  if (passing == 0) return;
  lines.add("  0 of the simulated runs: {}{} in at most {:.2f} % (--verbose lists)",
            count_text(static_cast<int64_t>(passing), "test"), passing == 1 ? "" : ", each", 100 * most);
}

void add_left_out(const Json& joined, Lines& lines) {
  Lines left_out;
  for (const Json& capture : joined["captures"]) {
    if (!capture.contains("not_simulated")) continue;
    for (const Json& call : capture["not_simulated"]) {
      left_out.add("  {}, invocation {}: {}", capture["capture"], call["id"], call["why"]);
    }
  }
  if (left_out.empty()) return;
  lines.add("Not simulated");
  lines.append(left_out);
}

}  // namespace

Json join_failures(const std::vector<Outcome>& outcomes, double confidence) {
  Calls calls(confidence);
  Json joined = {{"captures", Json::array()}};
  bool interrupted = false;
  for (const Outcome& outcome : outcomes) {
    joined["captures"].push_back(capture_of(outcome, calls));
    interrupted = interrupted || outcome.value("interrupted", false);
  }
  joined["calls"] = calls.all();
  joined["tests"] = tests_of(calls);
  std::set<size_t> every;
  for (size_t i = 0; i < calls.all().size(); ++i) every.insert(i);
  joined["failure_probability"] = calls.failure_probability(every);
  joined["confidence"] = confidence;
  joined["by_cause"] = calls.by_cause(every);
  for (auto& [cause, part] : joined["by_cause"].items()) {
    part["calls"] = Json::array();
    for (const size_t number : every) {
      if (calls.has_cause(number, cause)) part["calls"].push_back(number);
    }
  }
  joined["interrupted"] = interrupted;
  return joined;
}

Lines joined_failures_text(const Json& joined, bool quiet, bool verbose) {
  Lines lines;
  const size_t tests = joined["tests"].size();
  if (tests == 0) {
    lines.add("No call was simulated.");
  } else {
    const Json& probability = joined["failure_probability"];
    lines.add("{} in {} of runs: {} of {} simulated, {:g} % interval.",
              tests == 1 ? "1 test fails"
                         : fmt::format("At least one of {} fails", count_text(std::ssize(joined["tests"]), "test")),
              percent(probability), probability["failures"], probability["runs"],
              100 * joined["confidence"].get<double>());
  }
  if (joined["interrupted"].get<bool>()) lines.add("Interrupted: this is the result so far.");
  if (quiet) return lines;
  if (tests > 0) {
    lines.add("  {} of {}, which draw their inputs independently of each other",
              count_text(std::ssize(joined["calls"]), "call"), count_text(std::ssize(joined["captures"]), "capture"));
    lines.blank();
  }
  if (!joined["by_cause"].empty()) {
    lines.add("By cause (runs with such an element)");
    for (const auto& [cause, part] : joined["by_cause"].items()) {
      lines.add("  {:<28} {}, in {} of {}", cause, percent(part), tests_with(joined, cause),
                count_text(std::ssize(joined["tests"]), "test"));
    }
  }
  if (tests > 0) add_tests(joined, verbose, lines);
  add_left_out(joined, lines);
  return lines;
}

}  // namespace msda::replay
