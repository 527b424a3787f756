#include "replay/commands/program.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>

#include <exception>
#include <new>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>

#include "kernels/operator_rows.h"
#include "recorder/text/mistyped.h"
#include "recorder/text/wrap.h"
#include "recorder/writer/version.h"
#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/commands/commands.h"
#include "replay/many/ranks.h"

namespace msda::replay {
namespace {

constexpr size_t kLongest = 1000;  // that a regular expression is tried on

int fail(int status, std::string_view message) {
  print_error(message);
  return status;
}

// "--color: rainbow not in {auto,always}" becomes "--color rainbow: give one of auto,always", and "--moves: Value x not
// in range 0 to 9" "--moves x: from 0 to 9".
std::string in_our_words(const std::string& complaint) {
  static const std::regex one_of(R"(^([^ ]*): (.*) not in \{(.*)\}$)"),
      range("^([^ ]*): Value (.*) not in range (.*)$");
  if (complaint.size() > kLongest) return complaint;
  return std::regex_replace(std::regex_replace(complaint, one_of, "$1 $2: give one of $3"), range, "$1 $2: from $3");
}

// Handles --help and --version, and reports wrong flags.
int fail(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream out, complaint;
  const int status = app.exit(error, out, complaint);
  print_raw(text::wrapped_help(out.str()));
  if (status == 0) return 0;
  const std::string mistyped = text::mistyped(app);
  return fail(kBadInput, (mistyped.empty() ? in_our_words(error.what()) : mistyped) + " (see --help)");
}

int parse_and_run(int argc, char** argv) {
  int status = kWithinTolerance;
  CLI::App app(
      fmt::format(
          "Finds out why the results of a GPU program vary or are wrong.\n"
          "survey: which launches vary. diff: at which launch two runs part. run: why the results of a recorded call "
          "drift, of {}, or an operator of your own.",
          fmt::join(kernels::kOperatorTitles, ", ")),
      "msda-replay");
  app.footer(
      "Exit status: 0 within tolerance, 1 drift found, 2 bad usage or bad input, 3 mode or device not available here.");
  app.set_version_flag("--version", [] {
    const auto built = [](bool is_there) { return is_there ? "built with" : "built without"; };
    return fmt::format("{}\nMPI: {}\nlibzip: {}", record::describe_build("msda-replay"), built(Ranks::has_mpi()),
                       built(MSDA_HAS_ZIP));
  });
  app.require_subcommand(1);
  add_run_command(app, status);
  add_list_command(app, status);
  add_show_command(app, status);
  add_stages_command(app, status);
  add_order_command(app, status);
  add_advise_command(app, status);
  add_stress_command(app, status);
  add_survey_command(app, status);
  add_verify_command(app, status);
  add_recover_command(app, status);
  add_minimize_command(app, status);
  add_gradcheck_command(app, status);
  add_diff_command(app, status);
  add_explain_command(app, status);
  add_doctor_command(app, status);
  add_adapter_command(app, status);
  add_export_command(app, status);
  add_poison_worker_command(app, status);
  add_report_command(app, status);
  try {
    app.parse(argc, argv);
    return status;
  } catch (const CLI::ParseError& e) {
    return fail(app, e);
  }
}

}  // namespace

int run_program(int argc, char** argv) {
  // Large blocks go back to the system when they are freed; by default glibc keeps blocks of up to 32 MB. The heap of
  // small ones grows and shrinks by much at a time: by 128 KiB, the system takes a fourth of a call's time for it.
  constexpr int kLarge = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_TOP_PAD, 64 * kLarge);
  keep_standard_descriptors();
  try {
    return parse_and_run(argc, argv);
  } catch (const Unavailable& e) {
    return fail(kUnavailable, e.what());
  } catch (const std::bad_alloc&) {
    return fail(kBadInput, "out of memory: the capture is too large for this machine; choose one --invocation");
  } catch (const std::exception& e) {  // BadInput, capture::Error, and unexpected exceptions
    return fail(kBadInput, e.what());
  }
}

}  // namespace msda::replay
