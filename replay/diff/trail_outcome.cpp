#include "replay/diff/trail_outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "analysis/causes/finding.h"
#include "replay/base/captures.h"
#include "replay/base/errors.h"
#include "replay/diff/trail_differences.h"
#include "replay/diff/trail_json.h"
#include "replay/diff/trail_ranks.h"
#include "replay/diff/trail_text.h"
#include "replay/survey/kernel_name.h"

namespace msda::replay {
namespace {

using analysis::thousands;

// The comparison of two files.
struct Compared {
  Json json;
  std::string place;  // where the runs part, if they do
  Lines text;
  int64_t collectives = 0;     // before their results differ
  bool at_collective = false;  // they part at what a collective wrote
  size_t row = 0;              // at which they part: A's row if there is one
  bool is_equal() const { return json["equal"].get<bool>(); }
};

Compared compare_files(const TrailRun& a, const std::string& file_b) {
  const TrailRun b = read_trail_run(file_b);
  const TrailDifferences differences = find_differences(a, b);
  const auto rows = a.trail.rows.size() + b.trail.rows.size();
  if (!differences.first && differences.compared.results() == 0) {
    throw BadInput(fmt::format(
        "{} and {}: {}; record again", a.file, b.file,
        rows == 0 ? "hold no launches to compare" : "no result can be compared: none has a digest in both"));
  }
  Compared compared{trail_json(a, b, differences), "", trail_text(a, b, differences)};
  if (!differences.first) return compared;
  const TrailPart& part = *differences.first;
  const TrailRun& run = part.a.empty() ? b : a;
  compared.row = part.a.empty() ? part.b.front() : part.a.front();
  // Counts A's rows up to the certain one, not to one before it that may be the cause: else ranks were ordered by a
  // guess.
  for (size_t i = 0; i < part.shown_at && i < a.trail.rows.size(); ++i) compared.collectives += is_collective(a, i);
  compared.at_collective = is_collective(run, compared.row);
  compared.place = place_text(a, b, part);
  return compared;
}

std::string number_of(const Json& count, const char* singular, const char* many) {
  const auto number = count.get<int64_t>();
  return fmt::format("{} {}", thousands(number), number == 1 ? singular : many);
}

// Returns "Equal: 5,312 launches, 214 copies".
std::string equal_text(const Json& compared, const std::string& what) {
  std::string text = fmt::format("Equal: {}{}, {}", what, number_of(compared["launches"], "launch", "launches"),
                                 number_of(compared["copies"], "copy", "copies"));
  if (compared["sets"] > 0) text += ", " + number_of(compared["sets"], "memset", "memsets");
  if (compared["unknown"] > 0)
    text += fmt::format("; {} not comparable", thousands(compared["unknown"].get<int64_t>()));
  if (compared.contains("ended_early"))
    text += fmt::format("; {} ended early", number_of(compared["ended_early"], "recording", "recordings"));
  return text;
}

TrailOutcome outcome_of_files(const TrailRun& a, const std::string& file_b) {
  Compared compared = compare_files(a, file_b);
  const std::string headline =
      compared.is_equal() ? equal_text(compared.json["compared"], "") : "The runs part " + compared.place;
  return {std::move(compared.json), headline, std::move(compared.place), std::move(compared.text)};
}

void add_counts(Json& sum, const Json& more) {
  for (const auto& [name, count] : more.items()) sum[name] = sum.value(name, int64_t{0}) + count.get<int64_t>();
}

// Returns the rank at which the runs part first: after the fewest collectives, through which it then reaches the
// others. If several have as few, not the rank that sees it in a collective's result.
size_t first_rank(const std::vector<Compared>& ranks) {
  const auto key = [](const Compared& compared) {
    return std::tuple(compared.is_equal(), compared.collectives, compared.at_collective, compared.row);
  };
  return static_cast<size_t>(std::ranges::min_element(ranks, {}, key) - ranks.begin());
}

TrailOutcome outcome_of_folders(const std::string& folder_a, const std::string& folder_b) {
  const std::vector<RankFiles> files = paired_ranks(folder_a, folder_b);
  std::vector<Compared> ranks;
  for (const auto& [rank, a, b] : files) ranks.push_back(compare_files(read_trail_run(a), b));
  const size_t first = first_rank(ranks);
  TrailOutcome outcome{ranks[first].json, "", "", std::move(ranks[first].text)};
  Json sums = Json::object(), all = Json::array();
  Lines list;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Compared& rank = ranks[i];
    add_counts(sums, rank.json["compared"]);
    Json json = {{"rank", files[i].rank}, {"a", files[i].a}, {"b", files[i].b}};
    for (const char* name : {"equal", "first", "after"}) json[name] = rank.json[name];
    if (!json["first"].is_null()) json["first"]["rank"] = files[i].rank;
    json["collectives"] = rank.is_equal() ? Json() : Json(rank.collectives);
    all.push_back(std::move(json));
    const std::string place =
        rank.is_equal() ? "equal" : fmt::format("after {} collectives {}", thousands(rank.collectives), rank.place);
    list.add("  rank {}: {}", files[i].rank, place);
  }
  if (ranks[first].is_equal()) {
    outcome.headline = equal_text(sums, fmt::format("{} ranks, ", ranks.size()));
  } else {
    outcome.headline =
        fmt::format("Rank {} of {} parts first, {}", files[first].rank, ranks.size(), ranks[first].place);
    outcome.place = fmt::format("on rank {} {}", files[first].rank, ranks[first].place);
    outcome.json["first"]["rank"] = files[first].rank;
  }
  outcome.json["compared"] = sums;
  outcome.json["ranks"] = std::move(all);
  outcome.text.append(list);
  return outcome;
}

// A run, read once, or the folder of its ranks.
class TrailOperand {
 public:
  explicit TrailOperand(const std::string& path) : path_(path) {
    if (!is_folder(path)) run_ = read_trail_run(path);
  }

  TrailOutcome compare_with(const std::string& other_path) const {
    return run_ ? outcome_of_files(*run_, other_path) : outcome_of_folders(path_, other_path);
  }

 private:
  std::string path_;
  std::optional<TrailRun> run_;
};

void refuse_a_file_and_a_folder(const std::vector<std::string>& operands) {
  for (const std::string& operand : operands) {
    if (is_folder(operand) == is_folder(operands[0])) continue;
    throw BadInput(
        fmt::format("{} and {}: compare two files, or two folders with a file for each rank", operands[0], operand));
  }
}

// Returns A's side, or B's if A has none.
const Json& side_of(const Json& first) { return first["a"].is_null() ? first["b"] : first["a"]; }

// Returns how often a run parted from A at each launch, the most frequent first.
Json varying_launches(const std::vector<TrailOutcome>& outcomes) {
  std::map<std::tuple<std::string, int64_t, std::string>, int64_t> runs;  // by rank, row and kernel
  for (const TrailOutcome& outcome : outcomes) {
    const Json& first = outcome.json["first"];
    if (first.is_null()) continue;
    const Json& side = side_of(first);
    ++runs[{first["rank"].is_null() ? "" : first["rank"], side["row"].get<int64_t>(), side["kernel"]}];
  }
  std::vector<std::pair<Json, int64_t>> varies;
  for (const auto& [key, count] : runs) {
    const auto& [rank, row, kernel] = key;
    varies.push_back(
        {{{"kernel", kernel}, {"row", row}, {"rank", rank.empty() ? Json() : Json(rank)}, {"runs", count}}, count});
  }
  std::ranges::stable_sort(varies, std::greater(), [](const auto& entry) { return entry.second; });
  Json json = Json::array();
  for (auto& [entry, count] : varies) json.push_back(std::move(entry));
  return json;
}

int64_t row_of_first(const TrailOutcome& outcome) {
  const Json& first = outcome.json["first"];
  if (first.is_null()) return std::numeric_limits<int64_t>::max();
  return side_of(first)["row"].get<int64_t>();
}

TrailOutcome joined_outcome(const std::vector<std::string>& operands, std::vector<TrailOutcome> outcomes) {
  const auto earliest = std::ranges::min_element(outcomes, {}, row_of_first);
  TrailOutcome outcome = *earliest;
  Json runs = Json::array();
  for (size_t i = 0; i < outcomes.size(); ++i) {
    runs.push_back(
        {{"b", operands[i + 1]}, {"equal", outcomes[i].json["equal"]}, {"first", outcomes[i].json["first"]}});
    outcome.text.add("  {}: {}", operands[i + 1], outcomes[i].headline);
  }
  const auto differ = std::ranges::count_if(outcomes, [](const TrailOutcome& item) { return !item.is_equal(); });
  outcome.json["runs"] = std::move(runs);
  outcome.json["varies"] = varying_launches(outcomes);
  for (const Json& item : outcome.json["varies"]) {
    constexpr size_t kName = 40;
    const std::string kernel = short_name(item["kernel"].get<std::string>(), kName);
    outcome.text.add("  {} of {} part first at row {}, {}", item["runs"], outcomes.size(), item["row"],
                     kernel.empty() ? "no launch" : kernel);
  }
  outcome.headline = differ == 0
                         ? equal_text(outcome.json["compared"], fmt::format("{} runs, ", operands.size()))
                         : fmt::format("{} of {} runs part from A, first {}", differ, outcomes.size(), earliest->place);
  return outcome;
}

}  // namespace

TrailOutcome compare_trails(const std::vector<std::string>& operands) {
  refuse_a_file_and_a_folder(operands);
  const TrailOperand first(operands[0]);
  std::vector<TrailOutcome> outcomes;
  for (size_t i = 1; i < operands.size(); ++i) outcomes.push_back(first.compare_with(operands[i]));
  TrailOutcome outcome = outcomes.size() == 1 ? std::move(outcomes[0]) : joined_outcome(operands, std::move(outcomes));
  Json json = {{"a", operands[0]}};  // the first member marks a file that --json may replace
  if (operands.size() == 2) json["b"] = operands[1];
  json["kind"] = "trail";
  json.update(outcome.json);
  outcome.json = std::move(json);
  return outcome;
}

}  // namespace msda::replay
