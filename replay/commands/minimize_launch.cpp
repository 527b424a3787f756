#include "replay/commands/minimize_launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "recorder/text/shell.h"
#include "recorder/writer/installation.h"
#include "replay/base/errors.h"
#include "replay/base/output.h"
#include "replay/base/state_file.h"
#include "replay/base/stop_signals.h"
#include "replay/base/temporary_folder.h"
#include "replay/doctor/spawn.h"
#include "replay/minimize/small_launch.h"

namespace msda::replay {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// Runs `msda-replay run` on a capture of the smaller launch: a launch that faults or hangs ends only that process, and
// what varies there varies for whoever gets the capture.
class Trials {
 public:
  Trials(const MinimizeLaunch& what, const RecordedLaunch& recorded)
      : what_(what), recorded_(recorded), folder_(what.output + ".trial-") {}

  // Different results of the launches; 0 if it cannot be launched.
  int64_t distinct(const SmallLaunch& launch) {
    const std::string capture = folder_.file("a.h5"), json = folder_.file("a.json"), printed = folder_.file("a.txt");
    for (const std::string& file : {json, printed}) fs::remove(file);
    write_small_launch(capture, true, false, recorded_, launch, "");
    const auto begun = Clock::now();
    Spawn spawn;
    spawn.command = {record::this_program().string(),
                     "run",
                     capture,
                     "--mode",
                     "original",
                     "--repeat",
                     std::to_string(what_.options.repeat),
                     "--device",
                     what_.options.device,
                     "--json",
                     json,
                     "--quiet"};
    spawn.output = printed;
    spawn.limit = limit_;
    const int status = spawn_and_wait(spawn);
    was_interrupted_ = was_interrupted_ || status == 128 + SIGINT;
    why_ = status == kUnavailable ? last_line(printed) : "";
    const int64_t distinct = status == kWithinTolerance || status == kDrift ? distinct_in(json) : 0;
    if (distinct > 0 && !measured_) {
      measured_ = true;
      limit_ = std::max(kLeastLimit, 10 * std::chrono::duration_cast<Milliseconds>(Clock::now() - begun));
    }
    return distinct;
  }
  // Returns why the last one could not be launched, as `run` says it; empty if it failed while it ran.
  const std::string& why() const { return why_; }
  bool is_stopped() const { return was_interrupted_ || StopSignals::received(); }
  int signal() const { return StopSignals::received() ? StopSignals::last() : SIGINT; }

 private:
  static constexpr Milliseconds kFirstLimit{180'000}, kLeastLimit{20'000};

  static int64_t distinct_in(const std::string& file) try {
    int64_t most = 0;
    const auto report = read_kept_json(file);
    if (!report) return 0;
    for (const Json& relaunched : report->at("relaunched")) {
      for (const Json& tensor : relaunched.at("original").at("tensors"))
        most = std::max(most, tensor.at("distinct").get<int64_t>());
    }
    return most;
  } catch (const std::exception&) {  // it was killed while it wrote
    return 0;
  }

  // Without the name of the temporary capture.
  std::string last_line(const std::string& file) const {
    std::string last;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) last = line;
    const std::string begin = fmt::format("msda-replay: {}: invocation 0: ", folder_.file("a.h5"));
    return last.starts_with(begin) ? last.substr(begin.size()) : last;
  }

  const MinimizeLaunch& what_;
  const RecordedLaunch& recorded_;
  const TemporaryFolder folder_;
  Milliseconds limit_ = kFirstLimit;
  bool measured_ = false, was_interrupted_ = false;
  std::string why_;
};

Json json_of_launch(const MinimizeLaunch& what, const RecordedLaunch& recorded, const SmallLaunch& small,
                    const LaunchSearch& search, int64_t distinct, bool finished) {
  return {{"capture", what.options.capture},
          {"output", what.output},
          {"invocation", recorded.invocation.id},
          {"kernel", recorded.invocation.facts.kernel},
          {"grid", small.grid},
          {"recorded_grid", recorded.whole.grid},
          {"bytes", small.bytes()},
          {"zeros", small.zeros()},
          {"recorded_zeros", recorded.whole.zeros()},
          {"file_bytes", fs::file_size(what.output)},
          {"launches", what.options.repeat},
          {"distinct", distinct},
          {"trials", search.trials},
          {"finished", finished}};
}

Lines text_of_launch(const Json& json, bool quiet) {
  Lines lines;
  const auto grid = [&](const char* name) {
    return fmt::format("{}", fmt::join(json[name].get<std::vector<int64_t>>(), ","));
  };
  lines.add("{}: {} different results of {} launches of {}{}", json["output"], json["distinct"], json["launches"],
            json["kernel"], json["finished"].get<bool>() ? "" : "; the search was not finished");
  if (quiet) return lines;
  lines.add("  grid:   {} (of {})", grid("grid"), grid("recorded_grid"));
  lines.add("  memory: {} of {} bytes are not 0 (of {})", json["bytes"].get<int64_t>() - json["zeros"].get<int64_t>(),
            json["bytes"], json["bytes"].get<int64_t>() - json["recorded_zeros"].get<int64_t>());
  lines.add("  file:   {} bytes", json["file_bytes"]);
  lines.add("  {} trials", json["trials"]);
  lines.add_whole(fmt::format("  msda-replay run {} --mode original --repeat {}",
                              text::shell_word(text_at(json, "output")), json["launches"]));
  return lines;
}

// Returns nothing if its launches do not differ; then `why` is set if it cannot be launched.
std::optional<int> minimize_one(const MinimizeLaunch& what, int64_t id, const Progress& progress, std::string& why) {
  const RecordedLaunch recorded(what.options.capture, what.reader, id);
  Trials trials(what, recorded);
  const StopSignals stop;
  progress.show(fmt::format("minimize: invocation {}, as recorded", id));
  int64_t distinct = trials.distinct(recorded.whole);
  if (distinct < 2) {
    why = distinct == 0
              ? fmt::format("invocation {}: {}", id, trials.why().empty() ? "launching it again fails" : trials.why())
              : "";
    if (trials.is_stopped()) return 128 + trials.signal();
    return std::nullopt;
  }
  SmallLaunch small = recorded.whole;
  LaunchSearch search{[&](const SmallLaunch& launch, const std::string& step) {
                        progress.show(fmt::format("minimize: trial {}, {}", search.trials, step));
                        const int64_t found = trials.distinct(launch);
                        if (found > 1) distinct = found;
                        return found > 1;
                      },
                      [&] { return trials.is_stopped(); }, what.most_trials};
  const bool finished = search.make_smaller(small);
  progress.show("");
  write_small_launch(what.output, what.replace, true, recorded, small,
                     fmt::format("{} different results of {} launches of {}", distinct, what.options.repeat,
                                 recorded.invocation.facts.kernel));
  const Json json = json_of_launch(what, recorded, small, search, distinct, finished);
  print_result(text_of_launch(json, what.options.quiet), what.options.json, "minimize-launch", json);
  return trials.is_stopped() ? 128 + trials.signal() : kWithinTolerance;
}

}  // namespace

int minimize_launch(const MinimizeLaunch& what, const std::vector<int64_t>& invocations, const Progress& progress) {
  std::string refused, equal;
  for (const int64_t id : invocations) {
    std::string why;
    if (const auto status = minimize_one(what, id, progress, why)) return *status;
    progress.show("");
    (why.empty() ? equal : refused) = why.empty() ? fmt::format("invocation {}", id) : why;
  }
  if (equal.empty()) throw Unavailable(fmt::format("{}: {}", what.options.capture, refused));
  throw BadInput(
      fmt::format("{}: {} launches give equal results, of {}: there is nothing to minimize; --repeat launches "
                  "more often",
                  what.options.capture, what.options.repeat,
                  invocations.size() == 1 ? equal : "every invocation that can be launched"));
}

}  // namespace msda::replay
