#include <malloc.h>

#include <exception>
#include <new>
#include <sstream>
#include <string>

#include "recorder/text/mistyped.h"
#include "recorder/writer/version.h"
#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/commands/commands.h"

namespace {

using namespace msda;

int fail(int status, std::string_view message) {
  replay::print_error(message);
  return status;
}

// Handles --help and --version, and reports wrong flags.
int fail(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream out, complaint;
  const int status = app.exit(error, out, complaint);
  replay::print_raw(out.str());
  if (status == 0) return 0;
  const std::string mistyped = text::mistyped(app);
  return fail(replay::kBadInput, (mistyped.empty() ? error.what() : mistyped) + std::string(" (see --help)"));
}

int run(int argc, char** argv) {
  int status = replay::kWithinTolerance;
  CLI::App app(
      "Replays recorded backward calls of multi-scale deformable attention and finds out why their results drift.",
      "msda-replay");
  app.footer(
      "Exit status: 0 within tolerance, 1 drift found, 2 bad usage or bad input, 3 mode or device not available here.");
  app.set_version_flag("--version", [] { return record::describe_build("msda-replay"); });
  app.require_subcommand(1);
  replay::add_run_command(app, status);
  replay::add_list_command(app, status);
  replay::add_show_command(app, status);
  replay::add_stages_command(app, status);
  replay::add_order_command(app, status);
  replay::add_advise_command(app, status);
  replay::add_stress_command(app, status);
  replay::add_verify_command(app, status);
  replay::add_recover_command(app, status);
  replay::add_minimize_command(app, status);
  replay::add_gradcheck_command(app, status);
  replay::add_diff_command(app, status);
  replay::add_doctor_command(app, status);
  replay::add_export_command(app, status);
  replay::add_poison_worker_command(app, status);
  replay::add_report_command(app, status);
  try {
    app.parse(argc, argv);
    return status;
  } catch (const CLI::ParseError& e) {
    return fail(app, e);
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Large blocks go back to the system when they are freed; by default glibc keeps blocks of up to 32 MB.
  constexpr int kLarge = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, kLarge);
  replay::keep_standard_descriptors();
  try {
    return run(argc, argv);
  } catch (const replay::Unavailable& e) {
    return fail(replay::kUnavailable, e.what());
  } catch (const std::bad_alloc&) {
    return fail(replay::kBadInput, "out of memory: the capture is too large for this machine; choose one --invocation");
  } catch (const std::exception& e) {  // BadInput, capture::Error, and unexpected exceptions
    return fail(replay::kBadInput, e.what());
  }
}
