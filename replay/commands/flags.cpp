#include "replay/commands/flags.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "recorder/text/numbers.h"
#include "recorder/text/shell.h"
#include "replay/base/captures.h"
#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/own/own_operator.h"

namespace msda::replay {
namespace {

// Adds a flag whose whole value must be a number that fits the type.
template <class Number, class Target>
CLI::Option* add_number(CLI::App& command, const char* flag, Target& target, const char* help) {
  return command.add_option_function<std::string>(
      flag,
      [flag, &target](const std::string& text) {
        const auto number = text::parse_number<Number>(text);
        if (!number) throw BadInput(fmt::format("{} {}: not a number, or one that is too large", flag, text));
        target = *number;
      },
      help);
}

}  // namespace

void add_capture(CLI::App& command, Options& options) {
  command.add_option("CAPTURE", options.capture, "Capture file (HDF5)")
      ->required()
      ->type_name("")
      ->each([&command](const std::string& path) {
        if (!is_folder(path)) return;
        throw BadInput(fmt::format("{}: is a folder, and {} takes one capture; msda-replay list {} lists those in it",
                                   path, command.get_name(), text::shell_word(path)));
      });
}

void add_captures(CLI::App& command, Options& options) {
  command.add_option("CAPTURE", options.captures, "Capture files (HDF5), or folders of them")
      ->required()
      ->type_name("");
}

void add_invocation(CLI::App& command, Options& options) {
  command.add_option("--invocation", options.invocation, "Which recorded call: a number, or all")->type_name("N|all");
}

void add_json(CLI::App& command, Options& options) {
  command.add_option("--json", options.json, "Write the result as JSON to this file; - is standard output")
      ->type_name("FILE|-")
      ->each([](const std::string& path) {
        if (path != "-") OutputFile{"--json", path}.check();
      });
}

void add_count(CLI::App& command, const char* flag, int64_t& target, const char* help) {
  add_number<int64_t>(command, flag, target, help)->type_name("N");
}

void add_count(CLI::App& command, const char* flag, std::optional<int64_t>& target, const char* help) {
  add_number<int64_t>(command, flag, target, help)->type_name("N");
}

void add_seed(CLI::App& command, uint64_t& target, const char* help) {
  add_number<uint64_t>(command, "--seed", target, help)->type_name("N");
}

void add_tolerance(CLI::App& command, Options& options) {
  add_number<double>(command, "--atol", options.atol, "Absolute tolerance, instead of the recorded one")
      ->type_name("X");
  add_number<double>(command, "--rtol", options.rtol, "Relative tolerance, instead of the recorded one")
      ->type_name("X");
}

void add_operator(CLI::App& command) {
  command
      .add_option_function<std::vector<std::string>>(
          "--operator",
          [](const std::vector<std::string>& files) {
            for (const std::string& file : files) read_operators(file);
          },
          "Also replay the operators that this adapter file describes, and run its libraries; repeatable")
      ->allow_extra_args(false)
      ->type_name("FILE");
}

void add_findings(CLI::App& command, Options& options) {
  command.add_option("--baseline", options.baseline, "Fail only for findings that this file of --write-baseline lacks")
      ->type_name("FILE");
  command.add_option("--write-baseline", options.write_baseline, "Write the findings to this file, for --baseline")
      ->type_name("FILE");
  command
      .add_option("--tally", options.tally,
                  "Write how many captures of each test have each finding, for report --trend")
      ->type_name("FILE");
  command.add_option("--junit", options.junit, "Write the findings as JUnit's XML")->type_name("FILE");
  command.add_option("--sarif", options.sarif, "Write the findings as SARIF 2.1.0")->type_name("FILE");
  command.add_flag("--github", options.github, "Also print the new findings as annotations of a GitHub job");
}

void add_threads(CLI::App& command, Options& options) {
  add_count(command, "--threads", options.threads, "CPU threads; 0: one per core");
}

void add_damaged(CLI::App& command, Options& options) {
  command.add_flag("--damaged", options.damaged, "Continue with data that do not match their digests");
}

void add_comparison(CLI::App& command, Options& options) {
  add_invocation(command, options);
  add_count(command, "--reference", options.reference,
            "Compare with the outputs of this invocation, which must have equal inputs");
  add_threads(command, options);
  add_tolerance(command, options);
  command.add_flag(
      "--customary", options.customary,
      "If no tolerance was recorded or given, accept what is within the customary one of the type (float32: atol 1e-3, "
      "rtol 1e-2)");
  command.add_flag("--damaged", options.damaged, "Continue if data do not match their digests");
  add_json(command, options);
  command.add_flag("--quiet", options.quiet, "Print the verdict only");
}

void add_replay(CLI::App& command, Options& options) {
  add_comparison(command, options);
  command
      .add_option("--mode", options.modes,
                  "Replays, separated by commas: deterministic, atomic, float64, mixed, original, recorded_order; "
                  "default: those that this machine can run, without mixed and recorded_order")
      ->type_name("LIST")
      ->each([](const std::string& modes) {
        if (modes.empty()) throw BadInput("--mode: names no mode; leave it out for all that this machine can run");
      });
  command
      .add_option("--float64-stages", options.float64_stages,
                  "Stages that mode mixed computes in float64, separated by commas")
      ->type_name("LIST");
  command
      .add_option("--device", options.device,
                  "Where to replay: auto uses the first GPU, and the CPU for what a GPU cannot run; cuda uses all GPUs")
      ->type_name("auto|cpu|cuda[:N]");
  command
      .add_option_function<std::string>(
          "--device-memory",
          [&options](const std::string& text) {
            const auto bytes = text::parse_size(text);
            if (!bytes) throw BadInput(fmt::format("--device-memory {}: give bytes, as 500000, 64MiB or 2G", text));
            options.device_memory = *bytes;
          },
          "Use at most this much of a GPU's memory (500000, 2GiB); larger calls run in parts")
      ->type_name("BYTES");
  command.add_option("--block", options.block, "Block size for mode original, if the kernel allows another one")
      ->type_name("X[,Y[,Z]]");
  command
      .add_option("--kernel-digest", options.kernel_digest,
                  "Run another recorded variant of the kernel in mode original, named by the digest of its code")
      ->type_name("DIGEST");
  command.add_flag(
      "--poison", options.poison,
      "Find races and reads of unwritten memory: relaunch the recorded code with other contents of outputs, "
      "scratch and shared memory");
  command
      .add_option("--poison-folder", options.poison_folder,
                  "Keep the results of --poison in a file in this folder instead of in memory")
      ->type_name("FOLDER");
  add_number<int64_t>(command, "--repeat", options.repeat,
                      "Run every replay N times, mode atomic with another seed each time")
      ->type_name("N");
  add_seed(command, options.seed, "Seed that orders the additions of the first atomic replay");
}

}  // namespace msda::replay
