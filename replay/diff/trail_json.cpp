#include "replay/diff/trail_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "recorder/text/demangle.h"
#include "replay/diff/trail_next.h"

namespace msda::replay {
namespace {

using capture::TrailKind;
using capture::TrailRow;

const char* trail_kind_name(TrailKind kind) {
  constexpr const char* kNames[] = {"launch", "graph",       "copy_in",      "copy_within", "copy_out",
                                    "set",    "host_memory", "fresh_memory", "call"};
  static_assert(std::size(kNames) == static_cast<size_t>(TrailKind::kCount));
  return kNames[static_cast<size_t>(kind)];
}

Json caller_json(const capture::TrailCaller& caller) {
  Json json = Json::object();
  const std::pair<const char*, const std::string*> fields[] = {
      {"python", &caller.python}, {"node", &caller.node}, {"operation", &caller.operation}, {"label", &caller.label}};
  for (const auto& [name, text] : fields) {
    if (!text->empty()) json[name] = *text;
  }
  return json;
}

Json configuration_json(const capture::TrailConfiguration* configuration) {
  if (configuration == nullptr) return {};
  return {
      {"grid", configuration->grid}, {"block", configuration->block}, {"shared_bytes", configuration->shared_bytes}};
}

// Returns a word of parameters: "0x000000003f800000", "an address", or null if there is none.
Json word_json(uint64_t word, bool is_there) {
  if (!is_there) return {};
  return word == capture::Trail::kAddress ? "an address" : fmt::format("{:#018x}", word);
}

Json digest_json(const TrailRow& row) {
  if ((row.flags & TrailRow::kIsDigested) == 0) return {};
  return fmt::format("{:016x}", row.digest);
}

// Describes the first of the rows.
Json side_json(const TrailRun& run, const std::vector<size_t>& rows) {
  if (rows.empty()) return {};
  const size_t at = rows.front();
  const TrailRow& row = run.row(at);
  const capture::TrailKernel& kernel = run.kernel(at);
  return {{"row", at},
          {"what", trail_kind_name(row.kind)},
          {"launch", row.kind == TrailKind::kLaunch ? Json(run.launches[at]) : Json()},
          {"kernel", text::demangled(kernel.name)},
          {"code", kernel.digest},
          {"architecture", kernel.architecture},
          {"digest", digest_json(row)},
          {"bytes", row.bytes},
          {"configuration", configuration_json(run.configuration(at))},
          {"caller", caller_json(run.caller(at))},
          {"rows", rows.size()}};
}

Json brief_json(const TrailRun& run, std::optional<size_t> at) {
  if (!at) return {};
  const TrailRow& row = run.row(*at);
  return {{"row", *at},
          {"what", trail_kind_name(row.kind)},
          {"launch", row.kind == TrailKind::kLaunch ? Json(run.launches[*at]) : Json()},
          {"kernel", text::demangled(run.kernel(*at).name)},
          {"digest", digest_json(row)},
          {"bytes", row.bytes}};
}

const char* pair_result_name(PairResult result) {
  return result == PairResult::kEqual ? "equal" : result == PairResult::kDiffers ? "differs" : "unknown";
}

Json first_json(const TrailRun& a, const TrailRun& b, const TrailPart& part) {
  Json json = {{"kind", name_of(part.kind)},  {"cause", part.cause.empty() ? Json() : Json(part.cause)},
               {"evidence", part.evidence},   {"rank", Json()},
               {"a", side_json(a, part.a)},   {"b", side_json(b, part.b)},
               {"parameters", Json::array()}, {"next", next_command(a, b, part)}};
  for (const auto& [offset, word_a, word_b, in_a, in_b] : part.parameters) {
    json["parameters"].push_back({{"offset", offset}, {"a", word_json(word_a, in_a)}, {"b", word_json(word_b, in_b)}});
  }
  return json;
}

}  // namespace

Json trail_json(const TrailRun& a, const TrailRun& b, const TrailDifferences& differences) {
  const auto& [rows, differ, unpaired, unknown] = differences.after;
  const auto& compared = differences.compared;
  Json around = Json::array();
  for (const auto& [row_a, row_b, result] : differences.around) {
    const char* how = !row_a ? "only_in_b" : !row_b ? "only_in_a" : pair_result_name(result);
    around.push_back({{"a", brief_json(a, row_a)}, {"b", brief_json(b, row_b)}, {"result", how}});
  }
  Json counts{{"launches", compared.launches},
              {"copies", compared.copies},
              {"sets", compared.sets},
              {"unknown", compared.unknown},
              {"measuring", compared.measuring}};
  if (compared.ended_early > 0) counts["ended_early"] = compared.ended_early;
  return {{"equal", !differences.first},
          {"first", differences.first ? first_json(a, b, *differences.first) : Json()},
          {"after", {{"rows", rows}, {"differ", differ}, {"unpaired", unpaired}, {"unknown", unknown}}},
          {"around", around},
          {"notes", differences.notes},
          {"compared", std::move(counts)}};
}

}  // namespace msda::replay
