#include "replay/report/html/sections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "replay/base/json.h"
#include "replay/report/html/charts.h"
#include "replay/report/html/findings.h"
#include "replay/report/words.h"

namespace msda::replay {

using analysis::Gradient;
using analysis::thousands;

namespace {

// A table that scrolls within itself where there is no room for it.
class Table {
 public:
  Table(Html& html, std::initializer_list<const char*> names, size_t texts = 1)
      : html_(html),
        texts_(texts),
        scroll_(html.in("div", {{"class", "scroll"}, {"tabindex", "0"}})),
        table_(html.in("table")) {
    const auto head = html_.in("thead");
    const auto row = html_.in("tr");
    size_t column = 0;
    for (const char* name : names) html_.add("th", {{"scope", "col"}, {"class", style(column++)}}, name);
  }
  void row(std::initializer_list<std::string> cells, const char* kind = "") {
    const auto line = html_.in("tr", {{"class", kind}});
    size_t column = 0;
    for (const std::string& cell : cells) html_.add("td", {{"class", style(column++)}}, cell);
  }
  void row(const std::vector<std::string>& cells, const char* kind = "") {
    const auto line = html_.in("tr", {{"class", kind}});
    size_t column = 0;
    for (const std::string& cell : cells) html_.add("td", {{"class", style(column++)}}, cell);
  }

 private:
  // The first columns are texts, the others numbers.
  const char* style(size_t column) const { return column < texts_ ? "" : "number"; }

  Html& html_;
  size_t texts_;
  Html::Element scroll_, table_;
};

std::string statistic_text(const Json& number, const char* none = "–") {
  if (number.is_null()) return none;
  if (number.is_string()) return number.get<std::string>();
  if (number.is_number_integer()) return thousands(number.get<int64_t>());
  return fmt::format("{:.7g}", number.get<double>());
}

std::string percent(const Json& p) {
  return fmt::format("{:.2f} % ({:.2f} to {:.2f})", 100 * p.at("estimate").get<double>(),
                     100 * p.at("low").get<double>(), 100 * p.at("high").get<double>());
}

void add_facts(Html& html, const Json& facts) {
  if (facts.empty()) return;
  const auto list = html.in("dl", {{"class", "facts"}});
  for (const auto& [name, value] : facts.items()) {
    html.add("dt", name);
    html.add("dd", {{"class", "mono"}}, plain_text(value));
  }
}

}  // namespace

std::string plain_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::vector<std::string> parts;
    for (const Json& part : value) parts.push_back(plain_text(part));
    return fmt::format("{}", fmt::join(parts, " "));
  }
  if (value.is_object()) {
    std::vector<std::string> parts;
    for (const auto& [name, part] : value.items()) parts.push_back(name + " " + plain_text(part));
    return fmt::format("{}", fmt::join(parts, ", "));
  }
  return line_of(value);
}

void add_comparisons(Html& html, const InvocationResult& result) {
  html.add("p", {{"class", "quiet"}},
           "ULP: how many numbers of the tensor's type lie between the two; a dash stands for more than 100,000.");
  for (const Gradient gradient : result.call->gradients()) {
    const auto is_of = [&](const auto& c) { return c.gradient == gradient; };
    if (std::ranges::none_of(result.report.comparisons, is_of)) continue;
    html.add("h4", name_of(gradient));
    Table table(
        html, {"observed", "expected", "out of tolerance", "of", "max abs", "max rel", "max ULP", "worst element"}, 2);
    for (const auto& c : result.report.comparisons) {
      if (!is_of(c)) continue;
      const auto& [mismatched, total, non_finite, max_abs, max_rel, max_ulp, worst, mismatches] = c.comparison;
      table.row({c.observed, c.expected, thousands(mismatched), thousands(total), fmt::format("{:.3g}", max_abs),
                 fmt::format("{:.3g}", max_rel), ulp_text(max_ulp), fmt::format("[{}]", fmt::join(c.worst_index, ","))},
                mismatched > 0 ? "bad" : "");
    }
  }
}

void add_maps(Html& html, const Pictures& pictures) {
  html.add("p", {{"class", "quiet"}},
           "The largest difference in each bin, in the logarithmic scale below each map. A dot marks elements out of "
           "tolerance, which the scale leaves out. Gradients of samples are shown where the sample landed, at the edge "
           "if that "
           "is outside the image.");
  for (const ErrorMaps& maps : pictures.maps) {
    const std::string subject = fmt::format("{} from {}", name_of(maps.compared.gradient), maps.compared.against);
    if (!maps.any) {
      html.add("p", {{"class", "quiet"}}, subject + ": no difference.");
      continue;
    }
    const bool bad = std::ranges::any_of(maps.images,
                                         [](const ErrorMap& map) {
                                           return std::ranges::find(map.outside, true) != map.outside.end();
                                         }) ||
                     (maps.indices && std::ranges::find(maps.indices->outside, true) != maps.indices->outside.end());
    const auto details =
        bad ? html.in("details", {{"class", "maps"}, {"open", ""}}) : html.in("details", {{"class", "maps"}});
    {
      const auto summary = html.in("summary");
      html.text(subject);
      if (bad) add_chip(html, "error", "out of tolerance");
    }
    {
      const auto row = html.in("div", {{"class", "map-row"}});
      for (const ErrorMap& map : maps.images) draw_map(html, map, false);
    }
    if (maps.indices) draw_map(html, *maps.indices, true);
  }
}

void add_histograms(Html& html, const Pictures& pictures, const InvocationResult& result) {
  html.add(
      "p", {{"class", "quiet"}},
      fmt::format("How many representable numbers lie between the recorded value and the expected one; counts on a "
                  "logarithmic scale. "
                  "Hatched: out of tolerance. The line is what the tolerance allows where it allows least ({}).",
                  result.tolerance ? tolerance_text(result) : "no tolerance is set: the customary one of the type"));
  const auto row = html.in("div", {{"class", "chart-row"}});
  for (const UlpHistogram& histogram : pictures.histograms) draw_histogram(html, histogram);
}

namespace {

void add_stage_row(Table& table, const std::string& name, const Json& s, const Json& max_abs, const Json& max_ulp,
                   const char* kind) {
  const bool bad = s["nan"] != 0 || s["infinite"] != 0;
  table.row({name, statistic_text(s["count"]), statistic_text(s["lowest"]), statistic_text(s["highest"]),
             statistic_text(s["zero"]), statistic_text(s["nan"]), statistic_text(s["infinite"]),
             statistic_text(max_abs), statistic_text(max_ulp)},
            bad ? "bad" : kind);
}

void add_element_stages(Html& html, const Json& element) {
  const Json& drift = element["first_drift"];
  const auto details = html.in("details", {{"class", "maps"}, {"open", ""}});
  {
    const auto summary = html.in("summary");
    html.add("code", fmt::format("{}[{}]", element["tensor"].get<std::string>(),
                                 fmt::join(element["index"].get<std::vector<int64_t>>(), ",")));
    html.text(drift.is_null() ? ": no stage drifts" : ": drifts from " + drift.get<std::string>() + " on");
  }
  constexpr size_t kMost = 60;
  if (element["stages"].empty()) return;
  const auto scroll = html.in("div", {{"class", "scroll"}, {"tabindex", "0"}});
  const auto table = html.in("table");
  {
    const auto head = html.in("thead");
    const auto row = html.in("tr");
    html.add("th", "stage");
    html.add("th", "of");
    for (const auto& [name, value] : element["stages"].front()["values"].items())
      html.add("th", {{"class", "number"}}, name);
    html.add("th", "");
  }
  size_t rows = 0;
  for (const Json& stage : element["stages"]) {
    if (++rows > kMost && &stage != &element["stages"].back()) continue;
    const bool drifts = stage["drifts"];
    const auto row = html.in("tr", {{"class", drifts ? "bad" : ""}});
    html.add("td", stage["stage"].get<std::string>());
    html.add("td", stage["component"].get<std::string>());
    for (const auto& [name, value] : stage["values"].items()) {
      html.add("td", {{"class", "number"}},
               name == "float64" && value.is_number() ? fmt::format("{:.15g}", value.get<double>())
               : value.is_number()                    ? fmt::format("{:.9g}", value.get<double>())
                                                      : statistic_text(value));
    }
    html.add("td", drifts ? "drifts" : "");
  }
}

}  // namespace

void add_stages(Html& html, const Json& summary, const Json& elements) {
  {
    Table table(html, {"stage, in float32", "numbers", "lowest", "highest", "zeros", "NaN", "inf", "max from float64",
                       "max ULP"});
    for (const Json& stage : summary) {
      add_stage_row(table, stage["stage"], stage["deterministic"], stage["max_abs"], stage["max_ulp"], "");
      if (!stage.contains("recorded")) continue;
      const Json& kept = stage["recorded"];
      add_stage_row(table, "  recorded", kept, kept["max_abs"], kept.value("max_ulp", Json()), "sub");
    }
  }
  if (!elements.empty()) html.add("h4", "The worst of each group, stage by stage");
  for (const Json& element : elements) add_element_stages(html, element);
}

void add_order(Html& html, const Json& order) {
  const Json& counts = order["summary"];
  const auto count = [&](const char* name) { return thousands(counts[name].get<int64_t>()); };
  const Json& arithmetic = order["arithmetic"];
  html.add(
      "p",
      fmt::format("{}. {}", order["kernel_adds"].get<std::string>(),
                  arithmetic["found"].get<bool>()
                      ? fmt::format("Arithmetic: {}, {}, sums in {}; it explains {} of {} pixels with few additions.",
                                    arithmetic["product"].get<std::string>(), arithmetic["factors"].get<std::string>(),
                                    arithmetic["sum_type"].get<std::string>(), thousands(arithmetic["fits"]),
                                    thousands(arithmetic["tried"]))
                      : "No arithmetic that is known explains the recorded bits, so no order is sought."));
  if (!arithmetic["found"].get<bool>()) return;
  {
    Table table(html, {fmt::format("pixels of {}", order["tensor"].get<std::string>()).c_str(), "count"});
    table.row({"with additions", count("elements")});
    table.row({"one order gives every recorded bit", count("explained")});
    table.row({"it is the only one", count("unique")}, "sub");
    table.row({"no single order does, by proof", count("impossible")},
              counts["impossible"].get<int64_t>() > counts["in_parts"].get<int64_t>() ? "bad" : "");
    table.row({"an order for each part of the channels does", count("in_parts")}, "sub");
    table.row({"as if an addend was lost", count("lost")}, "sub");
    table.row({"as if one was added twice", count("doubled")}, "sub");
    table.row({"not found, which proves nothing", count("not_found")});
  }
  const Json& inversions = order["inversions"];
  if (inversions["pixels"].get<int64_t>() > 0) draw_schedule(html, inversions["bins"], inversions["index"]);
}

void add_probability(Html& html, const Json& stress) {
  const Json& probability = stress.at("failure_probability");
  {
    const auto line = html.in("p", {{"class", "figure-line"}});
    html.add("strong", {{"class", "big"}}, fmt::format("{:.2f} %", 100 * probability.at("estimate").get<double>()));
    html.text(fmt::format(" of runs fail ({:.2f} to {:.2f}, {:g} % interval): {} of {} simulated, {} against {}.",
                          100 * probability.at("low").get<double>(), 100 * probability.at("high").get<double>(),
                          100 * stress.at("confidence").get<double>(), thousands(probability.at("failures")),
                          thousands(probability.at("runs")), stress.at("observed").get<std::string>(),
                          stress.at("against").get<std::string>()));
  }
  if (stress.at("interrupted").get<bool>())
    html.add("p", {{"class", "quiet"}}, "The simulation was interrupted: this is the result so far.");
  const auto table_of = [&](const char* title, const Json& parts) {
    if (parts.empty()) return;
    Table table(html, {title, "of runs"});
    for (const auto& [name, part] : parts.items()) table.row({name, percent(part)});
  };
  table_of("runs with such an element, by cause", stress.at("by_cause"));
  table_of("by tensor", stress.at("by_tensor"));
  if (!stress.contains("curve")) return;
  const Json& criterion = stress.at("criterion");
  const auto row = html.in("div", {{"class", "chart-row"}});
  draw_curve(html, stress["curve"].at("atol"), "atol", criterion.at("atol"));
  draw_curve(html, stress["curve"].at("rtol"), "rtol", criterion.at("rtol"));
}

namespace {

void add_tensors(Html& html, const Json& invocation) {
  Table table(html, {"tensor", "type", "shape", "lowest", "highest", "zeros", "NaN", "inf"}, 3);
  const auto add = [&](const Json& tensor, const std::string& name) {
    const std::string shape = fmt::format("[{}]", fmt::join(tensor["shape"].get<std::vector<int64_t>>(), ","));
    if (!tensor.contains("statistics")) {
      table.row({name, plain_text(tensor["type"]), shape, "", "", "", "", ""});
      return;
    }
    const Json& s = tensor["statistics"];
    table.row({name, plain_text(tensor["type"]), shape, statistic_text(s["lowest"]), statistic_text(s["highest"]),
               statistic_text(s["zero"]), statistic_text(s["nan"]), statistic_text(s["infinite"])},
              s["nan"] != 0 || s["infinite"] != 0 ? "bad" : "");
  };
  for (const Json& tensor : invocation["tensors"]) {
    const std::string path = tensor["path"];
    const size_t place = path.find('/', std::string_view("/invocations/").size());
    add(tensor, place == std::string::npos ? path : path.substr(place + 1));
  }
  for (const Json& result : invocation["results"]) {
    for (const Json& tensor : result["tensors"])
      add(tensor, fmt::format("results/{}/{}", plain_text(result["name"]), plain_text(tensor["name"])));
  }
}

}  // namespace

namespace {

// Returns the launched function's code, as capture::code_of() finds it: of another function of the same image only what
// they share.
Json code_of(const Json& invocation, const Json& kernels) {
  Json same_image;
  for (const Json& kernel : kernels) {
    if (!invocation.contains("kernel_digest") || kernel["digest"] != invocation["kernel_digest"]) continue;
    Json code = {
        {"digest", kernel["digest"]}, {"architecture", kernel["architecture"]}, {"image_bytes", kernel["image_bytes"]}};
    if (kernel["name"] == invocation.value("kernel", "")) {
      code.update(kernel["facts"]);
      return code;
    }
    same_image = std::move(code);
  }
  return same_image;
}

}  // namespace

void add_launch(Html& html, const Json& invocation, const Json& kernels) {
  Json facts = Json::object();
  for (const auto& [name, value] : invocation.items()) {
    const bool elsewhere = name == "id" || name == "tensors" || name == "results" || name == "stages" ||
                           name == "digests" || value.is_null() ||
                           (value.is_string() && value.get_ref<const std::string&>().empty());
    if (!elsewhere) facts[name] = value;
  }
  add_facts(html, facts);
  if (const Json code = code_of(invocation, kernels); !code.is_null()) {
    html.add("h4", "Code");
    add_facts(html, code);
  }
  html.add("h4", "Tensors");
  add_tensors(html, invocation);
}

void add_program(Html& html, const Json& run) {
  const auto add = [&](const char* title, const Json& facts) {
    if (facts.empty()) return;
    html.add("h3", title);
    add_facts(html, facts);
  };
  add("Machine", run["facts"]);
  add("Libraries", run["libraries"]);
  add("Environment", run["environment"]);
  const Json& seeds = run["seeds"];
  if (run["facts"].empty() && run["libraries"].empty() && run["environment"].empty() && seeds.empty()) {
    html.add("p", {{"class", "quiet"}}, "The capture records nothing of them.");
  }
  if (seeds.empty()) return;
  html.add("h3", "Seeds");
  constexpr size_t kMost = 50;
  {
    Table table(html, {"time", "source", "value", "before invocation"}, 2);
    for (size_t i = 0; i < seeds.size() && i < kMost; ++i) {
      const Json& seed = seeds[i];
      table.row({plain_text(seed["time"]), plain_text(seed["source"]), plain_text(seed["value"]),
                 seed.contains("invocation") ? plain_text(seed["invocation"]) : ""});
    }
  }
  if (seeds.size() > kMost)
    html.add("p", {{"class", "quiet"}},
             fmt::format("And {} more: msda-replay show --json has them all.",
                         thousands(static_cast<int64_t>(seeds.size() - kMost))));
}

}  // namespace msda::replay
