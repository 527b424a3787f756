#include "replay/commands/simulation.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "analysis/judge/analyze.h"
#include "recorder/capture/digest.h"
#include "recorder/text/numbers.h"
#include "recorder/text/words.h"
#include "replay/base/errors.h"
#include "replay/base/words.h"
#include "replay/calls/load_operator.h"
#include "replay/calls/operator_row.h"
#include "replay/calls/pairing.h"
#include "replay/commands/flags.h"
#include "replay/report/words.h"

namespace msda::replay {
namespace {

namespace stress = analysis::stress;

// Returns the first chosen call that can be replayed.
capture::Invocation choose(const SimulationOptions& options, const capture::IsolatedReader& reader, int64_t& others) {
  const Pairing pairing(options, reader);
  std::string why;
  std::optional<capture::Invocation> first;
  for (const int64_t id : pairing.chosen()) {
    capture::Invocation invocation = pairing.invocation(id);
    const std::string left_out = why_not_replayed(reader, invocation);
    if (!left_out.empty()) {
      if (why.empty()) why = fmt::format("invocation {}: {}", id, left_out);
    } else if (first) {
      ++others;
    } else {
      first = std::move(invocation);
    }
  }
  if (!first) throw Unavailable(fmt::format("{}: no call can be simulated; {}", options.capture, why));
  return *first;
}

stress::Criterion chosen_criterion(const SimulationOptions& options, const capture::Invocation& invocation,
                                   msda_dtype stored) {
  const auto tolerance = chosen_tolerance(options, invocation, stored);
  stress::Criterion criterion{tolerance.value_or(analysis::customary_tolerance(stored)), std::nullopt};
  const std::string_view text = options.criterion, anchored = "anchored:";
  if (text == "allclose") return criterion;
  const auto factor = text::parse_number<double>(text.starts_with(anchored) ? text.substr(anchored.size()) : "");
  if (!factor || !(*factor > 0 && std::isfinite(*factor))) {
    throw BadInput(fmt::format("--criterion {}: there are allclose and anchored:K, with K above 0", options.criterion));
  }
  criterion.factor = *factor;
  return criterion;
}

analysis::Arithmetic chosen_reference(const SimulationOptions& options, const analysis::Call& call,
                                      const std::string& observed) {
  const auto known = call.arithmetics();
  const auto find = [&](const std::string& name) {
    return std::ranges::find(known, name, &analysis::Arithmetic::name);
  };
  if (options.against.empty()) {
    // Calls in that dialect itself are compared with the truth.
    const auto usual = find(dialect_of_tests());
    return usual != known.end() && observed != dialect_of_tests() ? *usual : *find("float64");
  }
  const auto found = find(options.against);
  if (found != known.end()) return *found;
  std::vector<std::string> names;
  for (const auto& arithmetic : known) names.push_back(arithmetic.name);
  throw BadInput(fmt::format("--against {}: no such arithmetic for this call; there are {}", options.against,
                             fmt::join(names, ", ")));
}

void choose_generators(const SimulationOptions& options, const analysis::Call& recorded, Simulated& simulated) {
  std::map<std::string, std::string> draws;
  const auto inputs = recorded.inputs(), drawn = simulated.plan.slices.outline->inputs();
  for (const std::string& draw : options.draws) {
    const size_t equals = draw.find('=');
    const std::string name = draw.substr(0, equals);
    const bool known = std::ranges::any_of(inputs, [&](const auto& input) { return name == input.name; });
    if (equals == std::string::npos || !known) {
      std::vector<std::string> names;
      for (const auto& input : inputs) names.emplace_back(input.name);
      throw BadInput(fmt::format("--draw {}: give TENSOR=GENERATOR, TENSOR one of {}", draw, fmt::join(names, ", ")));
    }
    draws[name] = draw.substr(equals + 1);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto given = draws.find(inputs[i].name);
    if (given == draws.end()) {
      simulated.plan.inputs.push_back(stress::fit_generator(inputs[i].tensor, recorded.normalized_together(i)));
      simulated.fitted.emplace_back(inputs[i].name);
    } else {
      try {
        simulated.plan.inputs.push_back(stress::parse_generator(given->second, inputs[i].tensor));
      } catch (const std::invalid_argument& e) {
        throw BadInput(fmt::format("--draw {}={}", inputs[i].name, e.what()));
      }
    }
    const auto& generator = simulated.plan.inputs.back();
    if (generator.kind == stress::Generator::Kind::kSoftmax && drawn[i].tensor.elements() % generator.group != 0) {
      throw BadInput(fmt::format("--draw {}={}: the simulated tensor has no multiple of {} numbers", inputs[i].name,
                                 generator.text(), generator.group));
    }
    const bool empty = generator.kind == stress::Generator::Kind::kResample && generator.numbers->empty();
    const bool odd = generator.kind == stress::Generator::Kind::kResample &&
                     !std::ranges::all_of(*generator.numbers, [](float x) { return std::isfinite(x); });
    if (empty || odd) {
      throw BadInput(fmt::format("{}: {} is {}: say with --draw {}=GENERATOR how it is drawn", options.capture,
                                 inputs[i].name, empty ? "empty" : "not finite throughout", inputs[i].name));
    }
  }
}

// Takes kernels to be contracted, as compilers for GPUs do it, unless the recorded gradients show otherwise.
void choose_evaluations(const SimulationOptions& options, Simulated& simulated) {
  stress::Plan& plan = simulated.plan;
  const analysis::Call& call = simulated.loaded->call();
  const bool as_written = options.evaluation == "written";
  for (analysis::Arithmetic* by : {&plan.observed, &plan.expected}) {
    by->contracted = true;
    by->contracted = !as_written && call.contracts(*by);
  }
  if (options.evaluation != "auto") return;
  const auto detect = [&](const analysis::Side& side, analysis::Arithmetic& by) {
    const auto found = stress::looks_contracted(call, side, by);
    if (found) by.contracted = *found;
    return found.has_value();
  };
  simulated.evaluation_seen = detect(simulated.loaded->recorded(), plan.observed);
  const analysis::Side* reference = simulated.loaded->reference();
  if (reference != nullptr &&
      reference->version_of(call).arithmetic_name() == plan.expected.version_of(call).arithmetic_name())
    detect(*reference, plan.expected);
}

void check_sizes(const SimulationOptions& options) {
  for (const auto& [flag, size] :
       {std::pair{"--batch", options.batch}, {"--heads", options.heads}, {"--queries", options.queries}}) {
    if (size) check_range(flag, *size, 1, 1'000'000);
  }
}

}  // namespace

void add_simulation(CLI::App& command, SimulationOptions& options) {
  add_invocation(command, options);
  command.add_option("--against", options.against, "Arithmetic of the reference that the test compares with")
      ->type_name(dialect_of_tests() + "|float64|DIALECT");
  command
      .add_option("--criterion", options.criterion,
                  "When the test passes: allclose if all elements are within the tolerance; anchored:K if each "
                  "gradient's largest error against float64 is at most K times the reference's")
      ->type_name("allclose|anchored:K");
  command
      .add_option("--evaluation", options.evaluation,
                  "Whether kernels compute coordinates by fused multiply-adds (contracted) or not (written); auto: as "
                  "the recorded gradients show")
      ->option_text("auto|contracted|written")
      ->check(CLI::IsMember({"auto", "contracted", "written"}));
  add_count(command, "--batch", options.batch, "Batches of a simulated call, instead of the recorded number");
  add_count(command, "--heads", options.heads, "Heads of a simulated call");
  add_count(command, "--queries", options.queries, "Queries of a simulated call");
  command
      .add_option("--draw", options.draws,
                  "How an input is drawn: uniform(LOW,HIGH), uniform24(LOW,HIGH), "
                  "normal(MEAN,DEVIATION), softmax(DEVIATION,COUNT), resample; default: the generator that the "
                  "recorded numbers fit")
      ->type_name("TENSOR=GENERATOR");
  add_tolerance(command, options);
  add_seed(command, options.seed, "Seed of the inputs: the same seed gives the same result");
  add_threads(command, options);
  command.add_flag("--every-element", options.every_element,
                   "Compare every element of every run, not only those that can be out of tolerance");
  add_damaged(command, options);
  add_json(command, options);
}

namespace {

bool has_elements(const analysis::Call& call) {
  return std::ranges::any_of(call.gradients(), [&](analysis::Gradient gradient) {
    return std::ranges::all_of(call.shape_of(gradient), [](int64_t size) { return size > 0; });
  });
}

}  // namespace

Simulated plan_simulation(const SimulationOptions& options, const capture::IsolatedReader& reader) {
  int64_t others = 0;
  Simulated result = plan_simulation(options, reader, choose(options, reader, others));
  result.others = others;
  return result;
}

Simulated plan_simulation(const SimulationOptions& options, const capture::IsolatedReader& reader,
                          capture::Invocation invocation) {
  check_numbers(options);
  check_sizes(options);
  Simulated result;
  result.invocation = std::move(invocation);
  result.loaded = std::make_unique<LoadedCall>(options, reader, result.invocation);
  const analysis::Call& call = result.loaded->call();
  stress::Plan& plan = result.plan;
  try {
    plan.slices = call.slices({options.batch, options.heads, options.queries});
  } catch (const std::invalid_argument& e) {
    throw BadInput(fmt::format("{}: {}", options.capture, e.what()));
  }
  if (plan.slices.count == 0 || !has_elements(*plan.slices.outline)) {
    throw BadInput(fmt::format("{}: {} has no samples to simulate", options.capture, result.invocation.path));
  }
  choose_generators(options, call, result);
  plan.observed = {call.arithmetic_name(), MSDA_MODE_ATOMIC, true};
  plan.expected = chosen_reference(options, call, plan.observed.name);
  choose_evaluations(options, result);
  plan.criterion = chosen_criterion(options, result.invocation, call.inputs().front().tensor.dtype);
  plan.seed = options.seed;
  plan.every_element = options.every_element;
  return result;
}

Json on_recorded_inputs(const Simulated& simulated, int threads) {
  const stress::Plan& plan = simulated.plan;
  const analysis::Call& call = simulated.loaded->call();
  const auto outcome = [](int64_t elements) -> Json { return {{"fails", elements > 0}, {"elements", elements}}; };
  analysis::Arithmetic fixed = plan.observed;
  fixed.mode = MSDA_MODE_DETERMINISTIC;
  Json both;
  if (!plan.criterion.factor) {
    both["recorded"] = outcome(stress::count_recorded_misses(call, simulated.loaded->recorded(), plan.expected,
                                                             plan.criterion.tolerance, threads));
  }
  both["same_inputs"] = outcome(stress::count_misses(call, fixed, plan.expected, plan.criterion, {}, 0, threads));
  return both;
}

Lines another_kernel_text(const Json& on_recorded_inputs) {
  Lines lines;
  if (!on_recorded_inputs.contains("recorded")) return lines;
  const auto recorded = on_recorded_inputs["recorded"]["elements"].get<int64_t>();
  if (recorded == 0 || on_recorded_inputs["same_inputs"]["fails"].get<bool>()) return lines;
  lines.add(
      "  the simulated kernel is not the recorded one: the recorded results are out of tolerance in {}, those of a "
      "kernel that adds in float32 or wider, with the recorded inputs, in none (see run)",
      count_text(recorded, "element"));
  return lines;
}

std::string content_of(const capture::Invocation& invocation) {
  std::string digests;
  for (const auto* tensors : {&invocation.inputs, &invocation.outputs}) {
    for (const capture::TensorInfo& tensor : *tensors) {
      if (tensor.digest.empty()) return "";
      digests += tensor.name + " " + tensor.digest + "\n";
    }
  }
  return capture::digest(std::as_bytes(std::span(digests)));
}

Json describe(const Simulated& simulated, const SimulationOptions& options) {
  const stress::Plan& plan = simulated.plan;
  Json json = {{"capture", options.capture}, {"invocation", simulated.invocation.id}};
  json["operator"] = operator_of(simulated.invocation);
  json["observed"] = plan.observed.name;
  json["against"] = plan.expected.name;
  json["evaluation"] = {{"observed", plan.observed.contracted ? "contracted" : "written"},
                        {"against", plan.expected.contracted ? "contracted" : "written"},
                        {"seen", simulated.evaluation_seen}};
  json["criterion"] = {{"kind", plan.criterion.factor ? "anchored" : "allclose"}};
  if (plan.criterion.factor) {
    json["criterion"]["factor"] = *plan.criterion.factor;
  } else {
    json["criterion"]["atol"] = plan.criterion.tolerance.atol;
    json["criterion"]["rtol"] = plan.criterion.tolerance.rtol;
  }
  json["slices"] = plan.slices.count;
  json["slice"] = plan.slices.outline->text_of_sizes();
  json["seed"] = plan.seed;
  json["inputs"] = Json::object();
  const auto inputs = plan.slices.outline->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool fitted = std::ranges::find(simulated.fitted, inputs[i].name) != simulated.fitted.end();
    json["inputs"][inputs[i].name] = {{"generator", plan.inputs[i].text()}, {"fitted", fitted}};
  }
  return json;
}

Lines describe_text(const Json& d) {
  Lines lines;
  const Json& criterion = d["criterion"];
  const std::string rule =
      criterion["kind"] == "anchored"
          ? fmt::format("error at most {} times that of {}", criterion["factor"].get<double>(), d["against"])
          : fmt::format("atol {}, rtol {}", criterion["atol"].get<double>(), criterion["rtol"].get<double>());
  lines.add_hanging(5, " {}, invocation {}: {} against {}, {}", text::unbroken("--> " + text_at(d, "capture")),
                    d["invocation"], d["observed"], d["against"], rule);
  lines.add("  a run is {}: {}", text::counted(count_at(d, "slices"), "time"), d["slice"]);
  std::vector<std::string> drawn;
  for (const auto& [name, input] : d["inputs"].items()) {
    drawn.push_back(fmt::format("{} {}{}", name, input["generator"], input["fitted"].get<bool>() ? "" : " (given)"));
  }
  const Json& evaluation = d["evaluation"];
  if (evaluation["observed"] == "contracted") {
    lines.add("  coordinates contracted (fused multiply-adds){}",
              evaluation["seen"].get<bool>() ? ", as the recorded gradients show" : ", as compilers for GPUs do");
  }
  lines.add("  inputs: {}", fmt::join(drawn, ", "));
  return lines;
}

Json to_json(const stress::Proportion& p) {
  return {{"estimate", p.estimate}, {"low", p.low}, {"high", p.high}, {"failures", p.hits}, {"runs", p.runs}};
}

std::string percent(const Json& p) {
  return fmt::format("{:.2f} % ({:.2f} to {:.2f})", 100 * p["estimate"].get<double>(), 100 * p["low"].get<double>(),
                     100 * p["high"].get<double>());
}

}  // namespace msda::replay
