#include "replay/base/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/judge/analyze.h"
#include "analysis/model/kernels.h"
#include "kernels/names.h"
#include "recorder/text/numbers.h"
#include "recorder/text/shell.h"
#include "replay/base/errors.h"

namespace msda::replay {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

void check_range(const char* flag, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) throw BadInput(fmt::format("{} {}: from {} to {}", flag, value, least, most));
}

std::vector<int64_t> chosen_invocations(const Options& options, const capture::IsolatedReader& reader) {
  const std::vector<int64_t>& ids = reader.invocation_ids();
  if (options.invocation == "all") {
    if (ids.empty() && !reader.survey().empty()) {
      throw BadInput(fmt::format("{}: holds no invocations, but a survey: msda-replay survey {}", options.capture,
                                 text::shell_word(options.capture)));
    }
    const auto launches = ids.empty() ? reader.trail_launches() : std::nullopt;
    if (launches) {
      throw BadInput(fmt::format("{}: holds no invocations, but a trail of {} launches: msda-replay diff {} OTHER.h5",
                                 options.capture, *launches, text::shell_word(options.capture)));
    }
    if (ids.empty()) throw BadInput(options.capture + ": holds no invocations: nothing was recorded");
    return ids;
  }
  const auto id = text::parse_number<int64_t>(options.invocation);
  if (!id) throw BadInput(fmt::format("--invocation {}: give a number or all", options.invocation));
  return {*id};  // the reader checks whether it exists
}

Modes chosen_modes(const Options& options) {
  if (options.modes.empty()) return {.replayed = {MSDA_MODE_DETERMINISTIC, MSDA_MODE_ATOMIC, MSDA_MODE_FLOAT64}};
  Modes modes;
  modes.are_named = true;
  for (const std::string& name : split(options.modes)) {
    if (const auto mode = kernels::find_name<msda_mode>(kernels::kModeNames, name)) {
      modes.replayed.push_back(*mode);
    } else if (name == "original") {
      modes.original = true;
    } else if (name == "recorded_order") {
      modes.recorded_order = true;
    } else {
      throw BadInput(fmt::format(
          "--mode {}: no such mode; there are deterministic, atomic, float64, mixed, original and recorded_order",
          name));
    }
  }
  return modes;
}

namespace {

// Returns the number of the device; nothing unless CUDA is requested.
std::optional<int> chosen_cuda_device(const Options& options) {
  const std::string& device = options.device;
  if (device == "auto" || device == "cpu") return std::nullopt;
  if (device == "cuda") return 0;
  const auto number = text::parse_number<int>(device.starts_with("cuda:") ? std::string_view(device).substr(5) : "");
  if (!number || *number < 0) throw BadInput(fmt::format("--device {}: there are auto, cpu, cuda and cuda:N", device));
  return number;
}

std::optional<uint32_t> chosen_block(const Options& options) {
  if (options.block.empty()) return std::nullopt;
  std::vector<uint32_t> numbers;
  for (const std::string& text : split(options.block)) {
    numbers.push_back(text::parse_number<uint32_t>(text).value_or(0));
  }
  if (numbers.size() > 3 || std::ranges::find(numbers, 0u) != numbers.end() || numbers[0] > 1024) {
    throw BadInput(fmt::format("--block {}: give X, or X,Y,Z, from 1 to 1024 threads in all", options.block));
  }
  if (std::ranges::any_of(numbers.begin() + 1, numbers.end(), [](uint32_t n) { return n > 1; })) {
    throw BadInput(fmt::format("--block {}: the kernels whose block can be changed take one dimension", options.block));
  }
  return numbers[0];
}

}  // namespace

DeviceChoice chosen_device(const Options& options) {
  const auto number = chosen_cuda_device(options);
  DeviceChoice choice;
  if (options.device == "cpu") return choice;
  // Replays that only serve mode original as a comparison may run anywhere.
  const bool only_original = chosen_modes(options).replayed.empty();
  choice.wanted = number && !only_original ? DeviceChoice::kAsked : DeviceChoice::kIfPossible;
  choice.first = number.value_or(0);
  choice.all = options.device == "cuda";
  return choice;
}

OriginalChoice chosen_original(const Options& options) {
  OriginalChoice choice;
  const auto device = chosen_cuda_device(options);
  choice.device = device.value_or(0);
  choice.block = chosen_block(options);
  const Modes modes = chosen_modes(options);
  const bool is_left_out = modes.are_named && !modes.original;
  const bool changed = choice.block || !options.kernel_digest.empty();
  if (is_left_out && changed) {
    throw BadInput("--block and --kernel-digest are for mode original, which --mode leaves out");
  }
  if (is_left_out && options.poison) {
    throw BadInput("--poison is for mode original, which --mode leaves out");
  }
  const bool asked = modes.original || changed || options.poison;
  if (asked && options.device == "cpu") {
    throw Unavailable("--mode original: relaunching the recorded machine code needs a CUDA device, not --device cpu");
  }
  if (asked) {
    choice.wanted = OriginalChoice::kAsked;
  } else if (!modes.are_named && options.device != "cpu") {
    choice.wanted = OriginalChoice::kIfPossible;
  }
  return choice;
}

uint32_t chosen_float64_stages(const Options& options, const analysis::Call& call) {
  uint32_t chosen = 0;
  if (options.float64_stages.empty()) return chosen;
  const analysis::Kernels* kernels = call.kernels();
  const auto known = kernels == nullptr ? std::span<const char* const>() : kernels->float64_stages();
  for (const std::string& name : split(options.float64_stages)) {
    const auto found = std::ranges::find(known, name);
    if (found == known.end()) {
      throw BadInput(fmt::format("--float64-stages {}: no such stage; there are {}", name, fmt::join(known, ", ")));
    }
    chosen |= 1u << (found - known.begin());
  }
  return chosen;
}

void check_numbers(const Options& options) {
  for (const auto& [flag, value] : {std::pair{"--atol", options.atol}, {"--rtol", options.rtol}}) {
    if (value && !(*value >= 0 && std::isfinite(*value))) {
      throw BadInput(fmt::format("{} {}: a tolerance is a number from 0 on", flag, *value));
    }
  }
  check_range("--repeat", options.repeat, 1, 1'000'000);
  if (options.threads < 0 || options.threads > 1024) {
    throw BadInput(fmt::format("--threads {}: from 1 to 1024, or 0 for one per core", options.threads));
  }
  if (!options.poison_folder.empty() && !options.poison) {
    throw BadInput("--poison-folder: is for the results of --poison; add --poison, or leave the folder out");
  }
  chosen_original(options);
  const auto modes = chosen_modes(options).replayed;
  if (std::ranges::count(modes, MSDA_MODE_MIXED) > 0 && options.float64_stages.empty()) {
    throw BadInput("--mode mixed: say which stages to compute in float64, with --float64-stages");
  }
}

std::optional<analysis::Tolerance> chosen_tolerance(const Options& options, const capture::Invocation& invocation,
                                                    msda_dtype stored) {
  const auto& recorded = invocation.facts.tolerance;
  if (recorded &&
      !(recorded->atol >= 0 && recorded->rtol >= 0 && std::isfinite(recorded->atol) && std::isfinite(recorded->rtol))) {
    throw BadInput(fmt::format("{}: {}: its tolerance is atol {}, rtol {}; give --atol and --rtol", options.capture,
                               invocation.path, recorded->atol, recorded->rtol));
  }
  if (!options.atol && !options.rtol && !recorded) return std::nullopt;
  analysis::Tolerance tolerance = analysis::customary_tolerance(stored);
  if (recorded) tolerance = {recorded->atol, recorded->rtol};
  return analysis::Tolerance{options.atol.value_or(tolerance.atol), options.rtol.value_or(tolerance.rtol)};
}

}  // namespace msda::replay
