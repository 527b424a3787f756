// msda-replay recover: makes a capture from the spool that a killed run, or a killed writer, left behind.
#include <fmt/format.h>

#include <filesystem>

#include "recorder/text/words.h"
#include "recorder/writer/builder.h"
#include "recorder/writer/version.h"
#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/base/same_file.h"
#include "replay/commands/commands.h"
#include "replay/commands/new_command.h"

namespace msda::replay {
namespace {

struct RecoverOptions {
  std::string spool, output;
  bool force = false;
  std::string stages = "none";
};

int run_recover(const RecoverOptions& options) {
  refuse_to_replace(options.spool, options.output);
  record::Builder builder({options.spool, options.output, options.force, 0, record::version(), /*release=*/false,
                           /*shared_memory=*/-1, record::stages_from(options.stages).value_or(record::Stages::kNone)});
  builder.finish();
  if (builder.invocations() == 0 && builder.without_room() > 0) {
    throw BadInput(fmt::format("{}: no room on its disk for what {} holds", options.output, options.spool));
  }
  if (builder.invocations() == 0 && !builder.has_more()) {
    throw BadInput(fmt::format("{}: holds no complete invocation: nothing to recover", options.spool));
  }
  const std::string recovered = builder.surveyed() > 0 ? "a survey of " + text::counted(builder.surveyed(), "kernel")
                                : builder.has_more()   ? "a trail of " + text::counted(builder.trailed(), "launch")
                                                       : text::counted(builder.invocations(), "invocation");
  std::string left_out;
  if (builder.trail_ended_early()) left_out += ", which ended early";
  if (builder.unfinished() > 0) left_out += fmt::format(", {} more had not ended", builder.unfinished());
  if (builder.lost() > 0) {
    left_out += fmt::format(", {} were in shared memory that is gone", builder.lost());
    const std::string capture = options.spool.substr(0, options.spool.rfind(".spool"));
    if (std::filesystem::exists(capture)) left_out += ", except for those in " + capture;
  }
  if (builder.without_room() > 0) left_out += fmt::format(", no room on the disk for {} more", builder.without_room());
  if (builder.trailing_bytes() > 0) {
    left_out += fmt::format(", {} bytes at the end are incomplete", builder.trailing_bytes());
  }
  Lines lines;
  lines.add("{}: {}{}", options.output, text::unbroken(recovered), left_out);
  for (const auto& [kernel, calls] : builder.stageless()) {
    lines.add("{} of {} without stages: {}", text::counted(calls.count, "call"), kernel, calls.why);
  }
  print(lines);
  return kWithinTolerance;
}

}  // namespace

void add_recover_command(CLI::App& app, int& status) {
  const auto [command, options] = new_command<RecoverOptions>(
      app, status, "recover", "Make a capture of the spool file that a killed recording left behind", run_recover);
  command.add_option("SPOOL", options.spool, "The file CAPTURE.spool beside the capture")->required()->type_name("");
  command.add_option("-o,--output", options.output, "Capture file to write")->type_name("FILE")->required();
  command.add_flag("--force", options.force, "Replace the file if it exists");
  command.add_option("--stages", options.stages, "Also compute the operator's intermediate tensors")
      ->check(CLI::IsMember({"none", "summary", "full"}))
      ->type_name("none|summary|full");
  command.footer("Exit status: 0 the capture was written, 2 bad usage or bad input.");
}

}  // namespace msda::replay
