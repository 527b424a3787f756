// msda-replay gradcheck: analytic gradients against finite differences of the forward pass, kinks recognised.
#include "analysis/judge/gradcheck.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/causes/finding.h"
#include "analysis/model/owned_side.h"
#include "replay/base/errors.h"
#include "replay/base/json.h"
#include "replay/base/output.h"
#include "replay/base/progress.h"
#include "replay/calls/damage.h"
#include "replay/calls/load_operator.h"
#include "replay/calls/loaded_call.h"
#include "replay/commands/commands.h"
#include "replay/commands/flags.h"
#include "replay/commands/new_command.h"

namespace msda::replay {
namespace {

using analysis::number;

struct GradcheckOptions : Options {
  analysis::GradcheckSettings settings;
};

Json gradcheck_json(const analysis::FailedElement& failed) {
  return {{"index", failed.id.index},
          {"value", number(failed.checked.value)},
          {"below", number(failed.derivatives.below)},
          {"above", number(failed.derivatives.above)},
          {"distance", number(failed.checked.distance)},
          {"bound", number(failed.checked.bound)},
          {"at_kink", failed.derivatives.kink}};
}

Json gradcheck_json(const analysis::GradientCheck& check) {
  Json json = {{"tensor", check.gradient.name()},
               {"total", check.total},
               {"sampled", check.sampled},
               {"at_kinks", check.at_kinks},
               {"naive", {{"failed", check.naive_failed}, {"failed_at_kinks", check.naive_failed_at_kinks}}},
               {"sides", Json::array()}};
  for (const auto& side : check.sides) {
    Json worst = Json::array();
    for (const auto& failed : side.worst) worst.push_back(gradcheck_json(failed));
    json["sides"].push_back({{"side", side.side},
                             {"checked", side.checked},
                             {"failed", side.failed},
                             {"not_checked", side.not_checked},
                             {"worst", worst}});
  }
  return json;
}

Json check_invocation(const GradcheckOptions& options, const LoadedCall& loaded,
                      const capture::Invocation& invocation) {
  const analysis::Call& call = loaded.call();
  msda_options float64{};
  float64.mode = MSDA_MODE_FLOAT64;
  float64.threads = static_cast<int>(options.threads);
  analysis::OwnedSide analytic = analysis::uncomputed_side(call, "float64", float64.mode, loaded.recorded());
  compute_on_cpu(call, float64, analytic);
  std::vector<analysis::Side> sides{analytic.side, loaded.recorded()};
  analysis::GradcheckSettings settings = options.settings;
  settings.seed = options.seed;
  settings.threads = static_cast<int>(options.threads);
  Json json = {{"id", invocation.id},
               {"operator", operator_of(invocation)},
               {"altered", loaded.altered()},
               {"passed", true},
               {"gradients", Json::array()}};
  for (const auto& check : gradcheck(call, sides, settings)) {
    json["gradients"].push_back(gradcheck_json(check));
    for (const auto& side : check.sides) {
      if (side.failed > 0) json["passed"] = false;
    }
  }
  return json;
}

void add_side(Lines& lines, const std::string& tensor, const Json& side) {
  const std::string name = side["side"];
  const int64_t checked = side["checked"], failed = side["failed"], not_checked = side["not_checked"];
  lines.add(
      "    {:<9} {} of {} fail{}", name, failed, checked,
      not_checked == 0 ? "" : fmt::format("; {} cannot be checked: not finite, or too coarse a type", not_checked));
  if (failed == 0) return;
  const Json& worst = side["worst"].front();
  lines.add("      worst: {}[{}] is {}; differences give {}, {} off, {} allowed", tensor,
            fmt::join(worst["index"].get<std::vector<int64_t>>(), ","), worst["value"],
            worst["below"] == worst["above"] ? plain_text(worst["below"])
                                             : fmt::format("{} below and {} above", worst["below"], worst["above"]),
            worst["distance"], worst["bound"]);
}

void add_gradcheck(Lines& lines, const Json& invocation, bool quiet) {
  lines.add("Invocation {}, {}: {}", invocation["id"], invocation["operator"],
            invocation["passed"].get<bool>() ? "the gradients are the derivatives of the forward pass"
                                             : "gradients are not the derivatives of the forward pass");
  if (quiet) return;
  for (const Json& gradient : invocation["gradients"]) {
    const std::string tensor = gradient["tensor"];
    lines.add("  {}: {} of {} elements, {} at kinks", tensor, gradient["sampled"], gradient["total"],
              gradient["at_kinks"]);
    for (const Json& side : gradient["sides"]) add_side(lines, tensor, side);
    lines.add("    a naive check (one central difference of step {:g}) fails float64 in {}, {} of them at kinks",
              analysis::kNaiveStep, gradient["naive"]["failed"], gradient["naive"]["failed_at_kinks"]);
  }
}

int run_gradcheck(const GradcheckOptions& options) {
  check_numbers(options);
  check_range("--samples", options.settings.samples, 1, 100'000'000);
  const capture::IsolatedReader reader(options.capture);
  const Progress progress(!options.quiet);
  Json json = {
      {"capture", options.capture},
      {"passed", true},
      {"seed", options.seed},
      {"naive", {{"step", analysis::kNaiveStep}, {"atol", analysis::kNaiveAtol}, {"rtol", analysis::kNaiveRtol}}},
      {"invocations", Json::array()},
      {"not_checked", Json::array()}};
  Lines lines;
  for (const int64_t id : chosen_invocations(options, reader)) {
    progress.show(fmt::format("gradcheck: invocation {}", id));
    const capture::Invocation invocation = reader.invocation(id);
    const auto leave_out = [&](const std::string& why) {
      json["not_checked"].push_back({{"id", id}, {"why", why}});
      lines.add("Invocation {}: not checked: {}", id, why);
    };
    if (const std::string why = why_not_replayed(reader, invocation); !why.empty()) {
      leave_out(why);
      continue;
    }
    const LoadedCall loaded(options, reader, invocation);
    if (loaded.call().forward() == nullptr) {
      leave_out(fmt::format("the operator {} has no forward pass to compare with", operator_of(invocation)));
      continue;
    }
    json["invocations"].push_back(check_invocation(options, loaded, invocation));
    const Json& checked = json["invocations"].back();
    if (!checked["passed"].get<bool>()) json["passed"] = false;
    add_gradcheck(lines, checked, options.quiet);
    lines.append(warnings(checked["altered"].get<std::vector<std::string>>()));
  }
  progress.show("");
  if (json["invocations"].empty()) {
    throw Unavailable(
        fmt::format("{}: no invocation is checked: {}", options.capture, json["not_checked"].front()["why"]));
  }
  print_result(lines, options.json, "gradcheck", json);
  return json["passed"].get<bool>() ? 0 : kDrift;
}

}  // namespace

void add_gradcheck_command(CLI::App& app, int& status) {
  const auto [command, options] = new_command<GradcheckOptions>(
      app, status, "gradcheck",
      "Compare gradients with finite differences of the forward pass, also where it has kinks", run_gradcheck);
  add_capture(command, options);
  add_invocation(command, options);
  add_count(command, "--samples", options.settings.samples,
            "Check N random elements of each gradient, and the N elements nearest to kinks; default 1000");
  command.add_flag("--all", options.settings.all, "Check every element");
  add_seed(command, options.seed, "Seed that draws the elements");
  add_threads(command, options);
  add_damaged(command, options);
  add_json(command, options);
  command.add_flag("--quiet", options.quiet, "Print the verdict only");
  add_operator(command);
  command.footer(
      "Exit status: 0 all elements pass, 1 one fails, 2 bad usage or bad input, 3 the calls are not replayed.");
}

}  // namespace msda::replay
