#include "replay/diff/trail_next.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string_view>

#include "recorder/text/shell.h"

namespace msda::replay {
namespace {

// Returns the program as it was called.
std::string program_of(const TrailRun& run) {
  std::string command;
  for (const std::string& word : run.run.argv) command += (command.empty() ? "" : " ") + text::shell_word(word);
  return command.empty() ? "COMMAND" : command;
}

// Returns a pattern that matches this name only.
std::string pattern_of(const std::string& name) {
  constexpr std::string_view kSpecial = ".[]{}()*+?^$|\\";
  std::string pattern = "^";
  for (const char c : name) {
    if (kSpecial.find(c) != kSpecial.npos) pattern += '\\';
    pattern += c;
  }
  return pattern + "$";
}

struct Place {
  const TrailRun& run;  // the run of the launch
  size_t row;
  std::string launch() const { return std::to_string(run.launches[row]); }
};

std::string survey(const Place& at, const char* flags) {
  return fmt::format("msda-replay survey {}--from {} --to {} -- {}", flags, at.launch(), at.launch(),
                     program_of(at.run));
}

// Returns how to record the call itself, with its tensors, for msda-replay show and run.
std::string record_kernel(const Place& at) {
  return fmt::format("msda-record --kernel {} -o launch.h5 -- {}",
                     text::shell_word(pattern_of(at.run.kernel(at.row).name)), program_of(at.run));
}

// Returns how to compare the folders of all ranks' trails, or how to record them.
std::string compare_ranks(const TrailRun& a, const TrailRun& b) {
  const auto folder = [](const TrailRun& run) { return std::filesystem::path(run.file).parent_path().string(); };
  if (folder(a) == folder(b)) return fmt::format("msda-record --trail -o run/%r.h5 -- {}", program_of(a));
  return fmt::format("msda-replay diff {} {}", text::shell_word(folder(a)), text::shell_word(folder(b)));
}

}  // namespace

std::string next_command(const TrailRun& a, const TrailRun& b, const TrailPart& part) {
  const Place at = part.a.empty() ? Place{b, part.b.front()} : Place{a, part.a.front()};
  const std::string command = program_of(at.run);
  const bool is_kernel = at.run.row(at.row).kind == capture::TrailKind::kLaunch && !at.run.kernel(at.row).name.empty();
  // If a switch removes the cause, shows whether the runs are then equal.
  const std::map<std::string_view, std::string> settings{{"tf32", "NVIDIA_TF32_OVERRIDE=0"},
                                                         {"unordered_streams", "CUDA_LAUNCH_BLOCKING=1"}};
  if (const auto setting = settings.find(part.cause); setting != settings.end()) {
    return fmt::format("{} msda-record --trail -o again.h5 -- {}", setting->second, command);
  }
  const bool is_result = part.kind == TrailDivergence::kOtherOutput && is_kernel;
  if (part.cause == "other_rank") return compare_ranks(a, b);
  if (is_result && part.cause == "unwritten_memory") return survey(at, "--poison ");
  if (is_result) return survey(at, "");
  const bool is_launch_itself = part.kind == TrailDivergence::kAnotherKernel ||
                                (part.kind == TrailDivergence::kOtherParameters && part.cause != "generator");
  if (is_launch_itself && is_kernel) return record_kernel(at);
  // Shows the run's seeds, environment, libraries and arguments.
  if (part.kind == TrailDivergence::kOtherInput || part.cause == "generator") {
    return fmt::format("msda-replay show {}", text::shell_word(at.run.file));
  }
  return is_kernel ? record_kernel(at) : fmt::format("msda-replay show {}", text::shell_word(at.run.file));
}

}  // namespace msda::replay
