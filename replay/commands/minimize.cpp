// msda-replay minimize: the smallest call that is still out of tolerance for the same cause.
#include "analysis/shrink/minimize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "kernels/names.h"
#include "recorder/capture/digest.h"
#include "recorder/text/shell.h"
#include "replay/base/errors.h"
#include "replay/base/json.h"
#include "replay/base/output.h"
#include "replay/base/same_file.h"
#include "replay/base/stop_signals.h"
#include "replay/calls/damage.h"
#include "replay/calls/element_argument.h"
#include "replay/calls/load_operator.h"
#include "replay/commands/commands.h"
#include "replay/commands/explain.h"
#include "replay/commands/flags.h"
#include "replay/commands/minimize_launch.h"
#include "replay/commands/new_command.h"
#include "replay/minimize/small_capture.h"
#include "replay/minimize/state.h"
#include "replay/original/relaunch.h"

namespace msda::replay {
namespace {

using analysis::MinimizeTarget;

struct MinimizeOptions : Options {
  std::string output, element, cause;
  bool force = false;
  bool from_scratch = false;
  int64_t most_trials = 300;  // of a launch of which only the machine code is known
  MinimizeOptions() { repeat = 20; }
};

// One invocation with all of its sides.
struct Whole {
  capture::Invocation invocation;
  LoadedCall loaded;
  Replays replays;
  analysis::Material material;
  std::optional<analysis::Tolerance> tolerance;

  Whole(const Options& options, const capture::IsolatedReader& reader, const Pairing& pairing, Devices& devices,
        int64_t id, const std::function<void(const std::string&)>& report)
      : invocation(pairing.invocation(id)),
        loaded(options, reader, invocation),
        replays(loaded, settings(options), devices, report),
        material(material_of(invocation, loaded, replays)),
        tolerance(chosen_tolerance(options, invocation, loaded.call().inputs().front().tensor.dtype)) {}

 private:
  // Orders drawn by chance decide no finding.
  static ReplaySettings settings(const Options& options) {
    ReplaySettings settings;
    settings.modes = {MSDA_MODE_DETERMINISTIC, MSDA_MODE_FLOAT64};
    settings.threads = static_cast<int>(options.threads);
    return settings;
  }
};

MinimizeTarget target_of(const analysis::JudgedElements& set, int64_t flat) {
  return {set.gradient, flat, set.cause, set.at_fault, set.against, set.advisory};
}

// Returns the named element's finding; of several the one that counts most.
std::optional<MinimizeTarget> target_of_element(const analysis::Report& report, const analysis::ElementId& id) {
  for (const auto& set : report.judged) {
    if (set.gradient != id.gradient) continue;
    for (const auto& [flat, count] : set.runs) {
      if (id.flat >= flat && id.flat < flat + count) return target_of(set, id.flat);
    }
  }
  return std::nullopt;
}

std::optional<MinimizeTarget> find_target(const MinimizeOptions& options, const analysis::Call& call,
                                          const analysis::Report& report) {
  if (!options.element.empty()) return target_of_element(report, parse_element(options.element, call));
  for (const analysis::Group& group : report.groups) {
    if (!options.cause.empty() && options.cause != name_of(group.cause)) continue;
    const analysis::Finding& worst = report.findings[group.farthest];
    for (const auto& set : report.judged) {
      const bool alike = set.gradient == worst.gradient && set.cause == worst.cause && set.at_fault == worst.at_fault &&
                         set.against == worst.against && set.advisory == worst.advisory;
      if (alike) return target_of(set, worst.flat);
    }
  }
  return std::nullopt;
}

void check_cause(const std::string& cause) {
  if (cause.empty()) return;
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(analysis::Cause::kImplementationError); ++i) {
    names.emplace_back(name_of(static_cast<analysis::Cause>(i)));
  }
  if (std::ranges::find(names, cause) == names.end()) {
    throw BadInput(fmt::format("--cause {}: no such cause; there are {}", cause, fmt::join(names, ", ")));
  }
}

// "grad_value[0,17,3,5]"
std::string minimized_text(const analysis::Call& call, analysis::Gradient gradient, int64_t flat) {
  return fmt::format("{}[{}]", gradient.name(), fmt::join(call.element_id(gradient, flat).index, ","));
}

// Returns what a state file must have been made of.
Json subject_of(const Whole& whole, const MinimizeTarget& target) {
  Json digests = Json::array();
  for (const auto& [name, tensor] : whole.material.call->all_inputs()) {
    digests.push_back(capture::digest({static_cast<const std::byte*>(tensor.data), analysis::bytes_of(tensor)}));
  }
  const auto add = [&](const analysis::Side& side) {
    for (const auto& tensor : side.tensors) {
      if (!tensor) continue;
      digests.push_back(capture::digest({static_cast<const std::byte*>(tensor.data), analysis::bytes_of(tensor)}));
    }
  };
  add(whole.material.recorded);
  if (whole.material.reference) add(*whole.material.reference);
  Json tolerance = Json::array();
  if (whole.tolerance) tolerance = {whole.tolerance->atol, whole.tolerance->rtol};
  return {{"invocation", whole.invocation.id},
          {"tensors", digests},
          {"element", minimized_text(*whole.material.call, target.gradient, target.flat)},
          {"cause", name_of(target.cause)},
          {"at_fault", name_of(target.at_fault)},
          {"against", target.against},
          {"tolerance", tolerance}};
}

Json call_sizes(const analysis::Call& call) {
  Json sizes = Json::object();
  for (const auto& cut : call.cuts()) sizes[cut.symbol] = cut.size;
  return sizes;
}

Json images_of(const analysis::Call& call) {
  Json images = Json::array();
  for (const auto& image : call.images()) images.push_back(image.sides);
  return images;
}

// Numbers of the inputs that are neither 0 nor 1, and all.
std::pair<int64_t, int64_t> numbers_of(const analysis::Inputs& inputs) {
  int64_t others = 0, all = 0;
  for (const auto& tensor : inputs) {
    if (!tensor.is_floating()) continue;
    const analysis::Tensor view = tensor.view();
    all += view.elements();
    for (int64_t at = 0; at < view.elements(); ++at) others += view.at(at) != 0 && view.at(at) != 1;
  }
  return {others, all};
}

Json minimized_json(const MinimizeOptions& options, const Whole& whole, const MinimizeTarget& target,
                    const analysis::Minimized& minimized, bool resumed) {
  const analysis::Call &before = *whole.material.call, &after = *minimized.call->material.call;
  const auto [others, all] = numbers_of(minimized.call->inputs);
  Json json = {{"capture", options.capture},
               {"output", options.output},
               {"invocation", whole.invocation.id},
               {"operator", operator_of(whole.invocation)},
               {"cause", name_of(target.cause)},
               {"at_fault", name_of(target.at_fault)},
               {"against", target.against},
               {"advisory", target.advisory},
               {"element",
                {{"tensor", target.gradient.name()},
                 {"index", after.element_id(target.gradient, minimized.flat).index},
                 {"recorded_index", before.element_id(target.gradient, target.flat).index}}},
               {"headline", minimized.is_headline},
               {"sizes", call_sizes(after)},
               {"recorded_sizes", call_sizes(before)},
               {"images", images_of(after)},
               {"recorded_images", images_of(before)},
               {"numbers", {{"total", all}, {"neither_0_nor_1", others}}},
               {"replayed", Json::array()},
               {"trials", minimized.reached.trials},
               {"seconds", minimized.reached.seconds},
               {"resumed", resumed},
               {"finished", minimized.finished},
               {"altered", whole.loaded.altered()}};
  for (const auto& replayed : minimized.call->replayed) {
    json["replayed"].push_back({{"tensor", path_in_capture(replayed)},
                                {"elements", replayed.elements},
                                {"total", replayed.total},
                                {"arithmetic", arithmetic_of(minimized, replayed)}});
  }
  return json;
}

// "B 1 of 1, Q 1 of 1000, ..."
std::string sizes_text(const Json& now, const Json& then) {
  std::string text;
  for (const auto& [symbol, size] : now.items()) {
    const bool same = then[symbol] == size;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", symbol, size.dump());
    if (!same) text += fmt::format(" (of {})", then[symbol]);
  }
  return text;
}

std::string images_text(const Json& images) {
  std::vector<std::string> texts;
  for (const Json& sides : images) {
    texts.push_back(fmt::format("{}", fmt::join(sides.get<std::vector<int64_t>>(), " x ")));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

Lines minimized_text(const Json& json, const MinimizeOptions& options) {
  Lines lines;
  const Json& element = json["element"];
  const auto index = [&](const char* which) {
    return fmt::format("{}[{}]", element["tensor"], fmt::join(element[which].get<std::vector<int64_t>>(), ","));
  };
  lines.add("{}: {} in {}, at fault: {}{}", options.output, json["cause"], index("index"), json["at_fault"],
            json["finished"].get<bool>() ? "" : "; not finished: the same command continues");
  if (options.quiet) return lines;
  lines.add_hanging(11, "  from:    {} of invocation {}, against {}", index("recorded_index"), json["invocation"],
                    json["against"]);
  lines.add_hanging(11, "  sizes:   {}", sizes_text(json["sizes"], json["recorded_sizes"]));
  if (!json["images"].empty()) lines.add_hanging(11, "  images:  {}", images_text(json["images"]));
  lines.add("  numbers: {} of {} are neither 0 nor 1", json["numbers"]["neither_0_nor_1"], json["numbers"]["total"]);
  for (const Json& replayed : json["replayed"]) {
    lines.add("  computed again, not recorded: {} of {} elements of {} ({})", replayed["elements"], replayed["total"],
              replayed["tensor"], replayed["arithmetic"]);
  }
  lines.add("  {} trials, {:.1f} s{}", json["trials"], json["seconds"].get<double>(),
            json["resumed"].get<bool>() ? ", continued from an earlier run" : "");
  if (!json["headline"].get<bool>()) lines.add("  run reports another finding of it first");
  lines.add_whole("  msda-replay run " + text::shell_word(options.output));
  return lines;
}

// Searches, and keeps the state file beside the output up to date.
std::optional<analysis::Minimized> search(const MinimizeOptions& options, const Whole& whole,
                                          const MinimizeTarget& target, const StateFile& state,
                                          const std::optional<analysis::Reached>& from, const Progress& progress) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kBetweenWrites = std::chrono::milliseconds(200);
  Clock::time_point written = Clock::now(), shown{};
  bool unwritten = false;
  analysis::MinimizeSettings settings;
  settings.tolerance = whole.tolerance;
  settings.customary = options.customary;
  settings.threads = static_cast<int>(options.threads);
  settings.stop = &StopSignals::received;
  settings.report = [&](const std::string& step, const analysis::Reached& reached, bool smaller) {
    const auto now = Clock::now();
    unwritten = unwritten || smaller;
    if (unwritten && now - written >= kBetweenWrites) {
      state.write(reached);
      written = now;
      unwritten = false;
    }
    if (now - shown >= std::chrono::milliseconds(50)) {
      progress.show(fmt::format("minimize: {}, trial {}, {:.0f} s", step, reached.trials, reached.seconds));
      shown = now;
    }
  };
  const StopSignals stop;
  auto found = minimize(whole.material, target, from, settings);
  progress.show("");
  return found;
}

[[noreturn]] void refuse_no_target(const MinimizeOptions& options) {
  const std::string what = !options.element.empty() ? fmt::format("{} is not out of tolerance", options.element)
                           : !options.cause.empty()
                               ? fmt::format("no element is out of tolerance for {}", options.cause)
                               : "nothing is out of tolerance";
  throw BadInput(
      fmt::format("{}: {}: there is nothing to minimize; msda-replay run lists the findings, --atol and "
                  "--rtol set a tolerance",
                  options.capture, what));
}

[[noreturn]] void refuse_existing(const std::string& output) {
  throw BadInput(fmt::format("{}: exists; give --force to replace it", output));
}

int finish(const MinimizeOptions& options, const capture::IsolatedReader& reader, const Whole& whole,
           const MinimizeTarget& target, const Progress& progress) {
  StateFile state(options.output, subject_of(whole, target));
  const auto from = state.read(*whole.material.call, options.from_scratch);
  const bool replaces = options.force || (from && state.left(options.output));
  if (std::filesystem::exists(options.output) && !replaces) refuse_existing(options.output);
  // Before a signal may end the reading process.
  const capture::Run recorded_run = reader.run();
  const auto minimized = search(options, whole, target, state, from, progress);
  if (!minimized) {
    throw BadInput(
        fmt::format("{}: the finding depends on other invocations of the capture, or on the order of atomic "
                    "additions: it is not there when the call is analyzed alone",
                    options.capture));
  }
  if (minimized->call == nullptr) return 128 + StopSignals::last();
  const std::string element = minimized_text(*whole.material.call, target.gradient, target.flat);
  write_small_capture(options.output, replaces, options.capture, recorded_run, whole.invocation, whole.tolerance,
                      element, *minimized);
  if (minimized->finished) {
    state.remove();
  } else {
    state.note_output(options.output);
    state.write(minimized->reached);
  }
  const Json json = minimized_json(options, whole, target, *minimized, from.has_value());
  print_result(minimized_text(json, options), options.json, "minimize", json);
  return minimized->finished ? 0 : 128 + StopSignals::last();
}

int run_minimize(const MinimizeOptions& options) {
  check_numbers(options);
  check_range("--trials", options.most_trials, 1, 1'000'000);
  check_cause(options.cause);
  refuse_to_replace(options.capture, options.output);
  refuse_same_outputs(options.output, options.json);
  const bool continues = std::filesystem::exists(options.output + ".state") && !options.from_scratch;
  if (std::filesystem::exists(options.output) && !options.force && !continues) {
    refuse_existing(options.output);
  }
  const capture::IsolatedReader reader(options.capture);
  const Pairing pairing(options, reader);
  const Progress progress(!options.quiet);
  Options on_cpu = options;
  on_cpu.device = "cpu";
  Devices devices(on_cpu);
  std::string not_replayed;
  std::vector<int64_t> launches;  // of those that are not replayed
  for (const int64_t id : pairing.chosen()) {
    const capture::Invocation invocation = pairing.invocation(id);
    if (const std::string why = why_not_replayed(reader, invocation); !why.empty()) {
      not_replayed = fmt::format("invocation {} is not replayed: {}", id, why);
      if (is_launch(invocation)) launches.push_back(id);
      continue;
    }
    refuse_altered(options, pairing.altered_beside(id));
    const auto report = [&](const std::string& step) { progress.show(fmt::format("invocation {}: {}", id, step)); };
    const Whole whole(options, reader, pairing, devices, id, report);
    report("looking for what to minimize");
    const auto found = analyze(whole.material, {whole.tolerance, static_cast<int>(options.threads), options.customary});
    const auto target = find_target(options, whole.loaded.call(), found);
    if (target) return finish(options, reader, whole, *target, progress);
  }
  if (!launches.empty() && options.element.empty() && options.cause.empty()) {
    const bool replaces = options.force;
    const MinimizeLaunch what{options, reader, options.output, replaces, options.most_trials};
    try {
      return minimize_launch(what, launches, progress);
    } catch (const Unavailable& error) {
      if (launches.size() == pairing.chosen().size())
        throw Unavailable(fmt::format("{}; {}", error.what(), not_replayed));
    }
  }
  if (pairing.chosen().size() == 1 && !not_replayed.empty()) {
    throw Unavailable(fmt::format("{}: {}", options.capture, not_replayed));
  }
  refuse_no_target(options);
}

}  // namespace

void add_minimize_command(CLI::App& app, int& status) {
  const auto [command, options] = new_command<MinimizeOptions>(
      app, status, "minimize", "Find the smallest call that is out of tolerance for the same cause", run_minimize);
  add_capture(command, options);
  command.add_option("-o,--output", options.output, "Capture file to write")->type_name("SMALL")->required();
  command.add_flag("--force", options.force, "Replace the file if it exists");
  command
      .add_option("--element", options.element,
                  "Keep this element out of tolerance, as grad_value[0,17,3,5]; default: that of the first finding")
      ->type_name("TENSOR[INDEX]");
  command.add_option("--cause", options.cause, "Keep the first finding of this cause")->type_name("CAUSE");
  add_count(command, "--repeat", options.repeat,
            "Launches of each trial, for launches of which only the machine code is known; default 20");
  add_count(command, "--trials", options.most_trials, "At most N such trials; default 300");
  command.add_option("--device", options.device, "Device for these trials: auto, or cuda:N")->type_name("DEVICE");
  command.add_flag("--from-scratch", options.from_scratch, "Do not continue an earlier search for the same output");
  add_comparison(command, options);
  add_operator(command);
  command.footer(
      "Exit status: 0 the search ended, 2 nothing is out of tolerance, bad usage or bad input, 3 no GPU can launch "
      "it.");
}

}  // namespace msda::replay
