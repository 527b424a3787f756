// msda-replay advise: the mask and the tolerance with which a test is sound, and which faults it then still finds.
#include "analysis/stress/advise.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <memory>

#include "replay/base/errors.h"
#include "replay/base/stop_signals.h"
#include "replay/commands/commands.h"
#include "replay/commands/flags.h"
#include "replay/commands/simulation.h"

namespace msda::replay {
namespace {

namespace stress = analysis::stress;

struct AdviseOptions : SimulationOptions {
  bool markdown = false, patch = false;
  int64_t check_runs = 0;  // with the advised tolerance; 0: as many as `runs`
};

constexpr double kShare = 1e-6;                  // of runs that may fail
constexpr int64_t kRuns = 500, kSlices = 8'000;  // simulated at least, unless --runs says otherwise
constexpr int64_t kElements = 400;               // in which faults are planted, of each gradient

int64_t chosen_runs(const AdviseOptions& options, const stress::Plan& plan) {
  return options.runs != 0 ? options.runs : std::max(kRuns, kSlices / plan.slices.count);
}

// The atol with which all but kShare of the runs pass; `least`: from which on the tally knows what slices need.
double needed_atol(const stress::Plan& plan, const stress::Tally& tally, double least) {
  const int64_t slices = plan.slices.count;
  return stress::tolerance_of_all_but(kShare / static_cast<double>(slices), tally.needed_atol, tally.runs * slices,
                                      least);
}

// Upwards, to two digits.
double rounded_up(double x) {
  if (!(x > 0)) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(x)) - 1);
  return std::stod(fmt::format("{:.1e}", std::ceil(x / unit - 1e-9) * unit));
}

stress::Tally simulate(const AdviseOptions& options, const stress::Plan& plan, int64_t first, int64_t runs,
                       const Progress& progress, const char* step) {
  stress::Effort effort;
  effort.first = first;
  effort.most_runs = runs;
  effort.width = 0;
  effort.threads = static_cast<int>(options.threads);
  effort.stop = &StopSignals::received;
  effort.progress = [&](const stress::Tally& so_far) { progress.show(fmt::format("{}: {} runs", step, so_far.runs)); };
  stress::Tally tally;
  stress::stress(plan, effort, {}, {}, tally);
  if (StopSignals::received())
    throw BadInput("interrupted: there is no advice without all runs; fewer of them: --runs N");
  return tally;
}

// Which faults the test finds, in words and numbers.
Json mutation_score(const std::vector<stress::Fault>& faults) {
  Json json = {{"kinds", faults.size()}, {"found", 0}, {"score", 1.0}, {"faults", Json::array()}};
  int64_t found = 0;
  for (const stress::Fault& fault : faults) {
    found += fault.found > 0;
    json["faults"].push_back({{"tensor", fault.tensor},
                              {"as_if", fault.text},
                              {"elements", fault.tried},
                              {"out_of_tolerance", fault.found}});
  }
  json["found"] = found;
  if (!faults.empty()) json["score"] = static_cast<double>(found) / static_cast<double>(faults.size());
  return json;
}

// Faults that show in less than a tenth of the elements that they change.
Json blind_spots(const std::vector<stress::Fault>& faults) {
  Json json = Json::array();
  for (const stress::Fault& fault : faults) {
    if (fault.found * 10 < fault.tried) json.push_back({{"tensor", fault.tensor}, {"as_if", fault.text}});
  }
  return json;
}

// The mask and the comparison, for a test in Python.
std::string patch_of(const Json& advice, const LoadedCall& loaded) {
  const double atol = advice["advised"]["atol"].get<double>(), rtol = advice["advised"]["rtol"].get<double>();
  const double units = advice["advised"]["units"].get<double>();
  const bool align = loaded.call().conventions.align_corners;
  const bool msda = loaded.msda() != nullptr;
  std::string code = "import torch\n\n\n";
  if (msda) {
    code += "def away_from_cell_boundaries(sampling_locations, spatial_shapes):\n";
    code +=
        "    \"\"\"Samples whose gradient rounding cannot move into another cell. (x, y) in [0, 1]; (height, "
        "width).\"\"\"\n";
    code +=
        "    size = torch.as_tensor(spatial_shapes, device=sampling_locations.device).flip(-1).double()[:, None, :]\n";
    code += align ? "    pixel = sampling_locations.double() * (size - 1)\n"
                  : "    pixel = sampling_locations.double() * size - 0.5\n";
  } else {
    code += "def away_from_cell_boundaries(grid, size):\n";
    code +=
        "    \"\"\"Samples whose gradient rounding cannot move into another cell. `size`: (width, height) or (width, "
        "height, depth).\"\"\"\n";
    code += "    size = torch.as_tensor(size, device=grid.device).double()\n";
    code += align ? "    pixel = (grid.double() + 1) / 2 * (size - 1)\n"
                  : "    pixel = ((grid.double() + 1) * size - 1) / 2\n";
  }
  const double spacing = loaded.call().boundary_spacing();
  const std::string boundary =
      spacing == 1 ? "pixel.round()" : fmt::format("{:g} * (pixel / {:g}).round()", spacing, spacing);
  code +=
      fmt::format("    near = (pixel - {}).abs() <= {:g} * torch.finfo(torch.float32).eps * size\n", boundary, units);
  code += "    return ~near.any(-1)\n\n\n";
  const std::string located = msda ? "sampling_locations, spatial_shapes" : "grid, size";
  code += fmt::format("def assert_gradients_close(observed, expected, {}):\n", located);
  code += "    \"\"\"`observed`, `expected`: dicts of gradients by name.\"\"\"\n";
  code += fmt::format("    sound = away_from_cell_boundaries({})\n", located);
  code += "    for name, gradient in observed.items():\n";
  code += "        kept = slice(None)\n";
  code += fmt::format("        if name in ({}):\n",
                      msda ? "\"grad_sampling_locations\", \"grad_attention_weights\"" : "\"grad_grid\",");
  code += "            kept = sound\n";
  code += fmt::format(
      "        torch.testing.assert_close(gradient[kept], expected[name][kept], atol={:g}, rtol={:g}, "
      "check_dtype=False)\n",
      atol, rtol);
  return code;
}

Lines advice_text(const Json& a) {
  Lines lines;
  const Json &now = a["as_it_is"], &advised = a["advised"];
  lines.add("Leave out samples within {:g} x 2^-23 x size of a cell boundary, and use atol {:g}, rtol {:g}.",
            advised["units"].get<double>(), advised["atol"].get<double>(), advised["rtol"].get<double>());
  lines.append(describe_text(a));
  lines.blank();
  lines.add("As it is the test fails in {} of runs.", percent(now["failure_probability"]));
  if (now["atol"].is_null()) {
    lines.add("No tolerance makes it pass in 999,999 of 1,000,000 runs: at one that does, gradients of 0 would pass.");
  } else {
    lines.add("It would pass in 999,999 of 1,000,000 runs with atol {:g}.", now["atol"].get<double>());
  }
  lines.add("With the mask, the tail of {} runs says so of atol {:g}; {} other runs with the advised one: {} fail.",
            advised["runs"].get<int64_t>(), advised["needed_atol"].get<double>(),
            advised["failure_probability"]["runs"].get<int64_t>(),
            advised["failure_probability"]["failures"].get<int64_t>());
  const Json& score = advised["mutation"];
  lines.add("Of {} kinds of planted faults it then finds {} ({:.1f} %).", score["kinds"].get<int64_t>(),
            score["found"].get<int64_t>(), 100 * score["score"].get<double>());
  for (const auto& blind : a["blind_spots"]) {
    lines.add("  blind: {} as if {}", blind["tensor"].get<std::string>(), blind["as_if"].get<std::string>());
  }
  return lines;
}

std::string to_markdown(const Json& a, const std::string& patch) {
  const Json &now = a["as_it_is"], &advised = a["advised"], &score = advised["mutation"];
  std::string text = "## Make the backward test sound\n\n";
  text += fmt::format(
      "The test compares with {} in float32 and fails in {} of runs, whatever the kernel does: rounding carries a "
      "sample over a cell boundary in one of the two, and the gradient jumps there.\n\n",
      a["against"].get<std::string>(), percent(now["failure_probability"]));
  text += fmt::format(
      "This change leaves out samples within {:g} x 2^-23 x size of a boundary and compares the rest with atol {:g}, "
      "rtol {:g}.\n\n| | before | after |\n|---|---|---|\n",
      advised["units"].get<double>(), advised["atol"].get<double>(), advised["rtol"].get<double>());
  text += fmt::format(
      "| fails, of simulated runs | {} of {} | {} of {} |\n", now["failure_probability"]["failures"].get<int64_t>(),
      now["failure_probability"]["runs"].get<int64_t>(), advised["failure_probability"]["failures"].get<int64_t>(),
      advised["failure_probability"]["runs"].get<int64_t>());
  text += fmt::format("| kinds of planted faults found | {} of {} | {} of {} |\n\n```python\n{}```\n",
                      now["mutation"]["found"].get<int64_t>(), now["mutation"]["kinds"].get<int64_t>(),
                      score["found"].get<int64_t>(), score["kinds"].get<int64_t>(), patch);
  return text;
}

int run_advise(const AdviseOptions& options) {
  check_range("--runs", options.runs, 0, kMostRuns);
  check_range("--check-runs", options.check_runs, 0, kMostRuns);
  if (options.markdown && options.patch) throw BadInput("--markdown prints the patch, too: give one of both");
  const capture::IsolatedReader reader(options.capture);
  Simulated simulated = plan_simulation(options, reader);
  if (simulated.plan.criterion.factor) throw BadInput("--criterion anchored:K: advise is for tests with a tolerance");
  const Progress progress(true);
  const StopSignals stop;
  const analysis::Call& call = simulated.loaded->call();
  constexpr double kConfidence = 0.95;
  stress::Plan plan = simulated.plan;
  const analysis::Tolerance own = plan.criterion.tolerance;
  const auto faults_of = [&](const analysis::Tolerance& tolerance, const stress::Mask& mask) {
    return stress::plant_faults(call, plan.observed, tolerance, mask, kElements);
  };

  Json advice = describe(simulated, options);
  const int64_t runs = chosen_runs(options, plan);
  const stress::Tally as_it_is = simulate(options, plan, 0, runs, progress, "as it is");
  const double needed_now = needed_atol(plan, as_it_is, own.atol);
  const auto faults_at_that = faults_of({needed_now, own.rtol}, {});
  const bool blind = std::ranges::any_of(faults_at_that, [](const stress::Fault& fault) {
    return fault.text == "it were zero throughout" && fault.found * 10 < fault.tried;
  });
  Json& now = advice["as_it_is"];
  now["failure_probability"] = to_json(stress::proportion(as_it_is.failures, as_it_is.runs, kConfidence));
  now["atol"] = blind ? Json(nullptr) : Json(needed_now);
  now["mutation"] = mutation_score(faults_of(own, {}));

  plan.mask.units = stress::units_needed(call, plan.observed, plan.expected);
  plan.look = {own.atol / 4, own.rtol};
  const stress::Tally masked = simulate(options, plan, 0, runs, progress, "with the mask");
  const double needed = needed_atol(plan, masked, own.atol / 4);
  const double atol = needed > own.atol ? rounded_up(1.25 * needed) : own.atol;
  plan.criterion.tolerance.atol = atol;
  plan.look = {INFINITY, INFINITY};
  const int64_t check_runs = options.check_runs == 0 ? runs : options.check_runs;
  const stress::Tally checked = simulate(options, plan, runs, check_runs, progress, "with the advised tolerance");
  const auto faults = faults_of(plan.criterion.tolerance, plan.mask);
  advice["advised"] = {
      {"units", plan.mask.units}, {"atol", atol}, {"rtol", own.rtol}, {"needed_atol", needed}, {"runs", masked.runs}};
  advice["advised"]["failure_probability"] = to_json(stress::proportion(checked.failures, checked.runs, kConfidence));
  advice["advised"]["mutation"] = mutation_score(faults);
  advice["blind_spots"] = blind_spots(faults);
  const std::string patch = patch_of(advice, *simulated.loaded);
  advice["patch"] = patch;
  progress.show("");
  if (options.json != "-") {
    if (options.patch) {
      print_raw(patch);
    } else if (options.markdown) {
      print_raw(to_markdown(advice, patch));
    } else {
      print(advice_text(advice));
    }
  }
  if (!options.json.empty()) write_json(options.json, advice);
  return kWithinTolerance;
}

}  // namespace

void add_advise_command(CLI::App& app, int& status) {
  auto options = std::make_shared<AdviseOptions>();
  CLI::App* command =
      app.add_subcommand("advise", "A mask and a tolerance that make the test sound, and what it then finds");
  add_capture(*command, *options);
  add_simulation(*command, *options);
  add_count(*command, "--runs", options->runs,
            "Runs of each of the three simulations; 0: as many as the tail of what they need takes, at least 500");
  add_count(*command, "--check-runs", options->check_runs,
            "Other runs to simulate with the advised tolerance; 0: as many as --runs");
  command->add_flag("--markdown", options->markdown, "Print the text of a pull request");
  command->add_flag("--patch", options->patch, "Print the comparison as Python code");
  add_operator(*command);
  command->callback([options, &status] { status = run_advise(*options); });
}

}  // namespace msda::replay
