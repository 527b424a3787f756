// msda-record: runs a program with the recorder loaded into it, and waits for its captures. The same program is the
// writer (--follow), which the recorder starts for each process that records.
#include <CLI/CLI.hpp>

#include <iostream>
#include <sstream>

#include "kernels/operator_rows.h"
#include "recorder/text/mistyped.h"
#include "recorder/text/numbers.h"
#include "recorder/text/words.h"
#include "recorder/text/wrap.h"
#include "recorder/writer/follow.h"
#include "recorder/writer/request.h"
#include "recorder/writer/run.h"
#include "recorder/writer/version.h"

int main(int argc, char** argv) {
  constexpr int kBadUsage = 2;
  msda::record::Options options;
  CLI::App app("Runs a program and records it for msda-replay.\nRecords calls of operators: the backward passes of " +
                   msda::text::listed(msda::kernels::kOperatorTitles) +
                   ", and kernels that --adapter describes. With --survey or --trail: launches of any kernel.",
               "msda-record");
  app.footer(
      "Usage: msda-record [OPTIONS] -- COMMAND [ARGUMENT...]\n"
      "Exit status: the program's own; 128 + N if signal N ended it; 2 for bad usage.\n"
      "LD_PRELOAD=libmsda_record.so COMMAND does the same, configured by MSDA_RECORD_* variables: docs/recording.md.");
  app.set_version_flag("--version", [] { return msda::record::describe_build("msda-record"); });
  app.add_option("-o,--output", options.output, "Capture file; %p becomes the process ID, %r the rank")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--kernel", options.kernel, "Record only kernels whose name this regular expression matches")
      ->type_name("REGEX");
  app.add_option("--hook", options.hook,
                 "How launches are intercepted: by hooks of the CUDA driver, by CUPTI, or by both (auto)")
      ->check(CLI::IsMember({"auto", "cupti", "driver"}))
      ->capture_default_str();
  app.add_option("--adapter", options.adapters, "JSON file with adapters for kernels of your own; repeatable")
      ->type_name("FILE")
      ->envname("MSDA_RECORD_ADAPTERS")
      ->delimiter(':')
      ->expected(1)
      ->take_all();
  app.add_option("--keep", options.keep, "Keep all calls of each process (the default), or the last K")
      ->type_name("all|last:K");
  app.add_option("--stages", options.stages,
                 "Also keep the operator's intermediate tensors, computed after the program has ended")
      ->check(CLI::IsMember({"none", "summary", "full"}))
      ->type_name("none|summary|full");
  app.add_option(
         "--max-bytes", options.max_bytes,
         "Stop recording a process after this many bytes: 500MB, 2GiB, or a plain number; default: half of the free "
         "disk space")
      ->transform([](const std::string& text) {
        const auto bytes = msda::text::parse_size(text);
        if (!bytes) throw CLI::ValidationError(text + " is not a size: 500MB, 2GiB or a plain number, not negative");
        return std::to_string(*bytes);
      })
      ->type_name("SIZE");
  app.add_option("--env", options.variables, "Also record this environment variable; repeatable")
      ->type_name("NAME")
      ->expected(1)
      ->take_all();
  app.add_flag("--digest-only", options.digest_only, "Record digests of the tensors instead of the tensors");
  app.add_flag("--trail", options.trail,
               "Record a digest of what each launch, copy and memset wrote, for msda-replay diff: docs/trail.md");
  app.add_flag("--survey", options.survey, "Run each launch again, and report which kernels vary: docs/survey.md");
  app.add_option("--survey-runs", options.survey_runs, "Extra launches of each launch")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option(
         "--survey-memory", options.survey_memory,
         "Most of the free memory to use for copies of what a launch reaches, on the device or else on the host")
      ->check(CLI::Range(1, 100))
      ->type_name("PERCENT")
      ->capture_default_str();
  app.add_option("--survey-from", options.survey_from, "Survey from the program's N-th launch on")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  app.add_option("--survey-to", options.survey_to, "Survey up to the program's N-th launch")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  app.add_option("--survey-seconds", options.survey_seconds, "Survey for N seconds from the program's first launch on")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  app.add_option("--survey-patience", options.survey_patience,
                 "How long to wait before leaving a launch out: it, or the work before it, may wait for the program")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_option("--survey-label", options.survey_label,
                 "Survey only launches whose label (msda_record_label) contains this text")
      ->type_name("TEXT");
  app.add_flag("--survey-no-neighbour", options.survey_alone,
               "Do not occupy a part of the device during every second extra launch");
  app.add_flag("--survey-poison", options.survey_poison,
               "Also find launches whose results depend on memory that nobody wrote, by more extra launches on memory "
               "filled with patterns");
  app.add_flag("--force", options.force, "Replace an existing capture");
  app.add_option("--follow", options.spool)->group("");
  app.add_option("--keep-last", options.keep_last)->group("");
  app.prefix_command();
  try {
    app.parse(argc, argv);
    if (!options.spool.empty()) return msda::record::follow(options);
    options.command = app.remaining();
    // Without --, the program begins with the first argument that is no flag.
    if (!options.command.empty() && options.command[0].starts_with('-') && options.command[0] != "--") {
      throw std::runtime_error(msda::text::unknown_flag(app, options.command[0]) + " (see --help)");
    }
    if (!options.command.empty() && options.command[0] == "--") options.command.erase(options.command.begin());
    options.typed.assign(argv, argv + argc);
    msda::record::settle(options);
    return msda::record::run(options);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {  // --help and --version
      std::ostringstream text;
      app.exit(e, text);
      std::cout << msda::text::wrapped_help(text.str()) << std::flush;
      return 0;
    }
    msda::record::say(std::string(e.what()) + " (see --help)");
    return kBadUsage;
  } catch (const std::exception& e) {
    msda::record::say(e.what());
    return kBadUsage;
  }
}
