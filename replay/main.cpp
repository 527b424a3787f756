#include <cstdio>
#include <exception>
#include <new>

#include "recorder/capture/capture.h"
#include "recorder/writer/version.h"
#include "replay/commands.h"
#include "replay/errors.h"

namespace {

int fail(int status, const char* message) {
  std::fprintf(stderr, "msda-replay: %s\n", message);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace msda;
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
  replay::add_verify_command(app, status);
  replay::add_recover_command(app, status);
  try {
    app.parse(argc, argv);
    return status;
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : replay::kBadInput;
  } catch (const replay::Unavailable& e) {
    return fail(replay::kUnavailable, e.what());
  } catch (const replay::BadInput& e) {
    return fail(replay::kBadInput, e.what());
  } catch (const capture::Error& e) {
    return fail(replay::kBadInput, e.what());
  } catch (const std::bad_alloc&) {
    return fail(replay::kBadInput, "out of memory: the capture is too large for this machine; choose one --invocation");
  } catch (const std::exception& e) {
    return fail(replay::kBadInput, e.what());
  }
}
