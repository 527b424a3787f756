#include "replay/doctor/diagnosis.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "recorder/text/words.h"

namespace msda::replay {
namespace {

using Fate = ObservedKernel::Fate;

constexpr size_t kMostLines = 10;

#if defined(__x86_64__)
constexpr uint16_t kOurMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kOurMachine = EM_AARCH64;
#else
constexpr uint16_t kOurMachine = EM_NONE;
#endif

// Names that a kernel of a backward pass may have come first: they are what the user looks for.
bool looks_like_backward(const std::string& name) {
  return std::ranges::any_of(std::initializer_list<const char*>{"backward", "bwd", "grad", "col2im"},
                             [&](const char* part) { return name.find(part) != name.npos; });
}

std::vector<std::string> kernels_of(const Observations& seen, Fate fate) {
  std::vector<std::string> names;
  for (const auto& [name, kernel] : seen.kernels) {
    if (kernel.fate == fate) names.push_back(name);
  }
  std::ranges::stable_partition(names, looks_like_backward);
  return names;
}

void add_list(Check& check, const std::string& lead, const std::vector<std::string>& lines) {
  for (size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) check.details.push_back(lead + lines[i]);
  if (lines.size() > kMostLines) {
    check.details.push_back(fmt::format("{}... and {} more (--json lists all)", lead, lines.size() - kMostLines));
  }
}

void blame(Check& check, const std::string& summary, const std::string& remedy) {
  check.health = Health::kError;
  check.summary = summary;
  check.remedy = remedy;
}

bool is_foreign(const record::ProgramFile& file) {
  using Kind = record::ProgramFile::Kind;
  return file.kind == Kind::kOtherElf || (file.kind == Kind::kElf && file.machine != kOurMachine);
}

// Reports why the dynamic loader does not preload the recorder into the program of this file. Returns false if no
// reason is known.
bool blame_file(Check& check, const ProgramRun& run) {
  using Kind = record::ProgramFile::Kind;
  const record::ProgramFile& file = run.file;
  std::error_code ignored;
  if (run.path.empty() || !std::filesystem::exists(run.path, ignored)) {
    blame(check, fmt::format("{}: no such program", run.name), "give a program on the PATH, or its path");
  } else if (file.kind == Kind::kUnreadable) {
    const bool is_folder = std::filesystem::is_directory(run.path, ignored);
    blame(check,
          fmt::format("{} {}", run.path, is_folder ? "is a folder, and no program" : "cannot be read (permissions?)"),
          "give a program that you can read");
  } else if (is_foreign(file)) {
    blame(check, fmt::format("{} is a program of another architecture than the recorder", run.path),
          "record a program of this machine's own architecture, in 64 bits");
  } else if (file.kind == Kind::kElf && !file.has_interpreter) {
    blame(check, fmt::format("{} is a static program: nothing can be preloaded into it", run.path),
          "link it dynamically, or save the tensors in the test and import them (docs/python.md)");
  } else if (file.changes_user) {
    blame(check, fmt::format("{} changes its user or has capabilities: the system preloads nothing into it", run.path),
          "record a copy without these rights, as the user who may do what it does");
  } else if (file.imports("__msan_init")) {
    blame(check, fmt::format("{} is built with the memory sanitizer", run.path),
          "record a build without -fsanitize=memory");
  } else {
    return false;
  }
  return true;
}

void blame_unreached(Check& check, const ProgramRun& run) {
  if (blame_file(check, run)) return;
  blame(check, fmt::format("the recorder was not loaded into {} (exit status {})", run.name, run.status),
        "if it starts its work elsewhere (a container, sudo, ssh, a server that runs already) or clears LD_PRELOAD, "
        "start "
        "msda-record there, in front of the program that launches the kernels");
}

void blame_kernels(Check& check, const Observations& seen, int status) {
  const auto unmatched = kernels_of(seen, Fate::kUnmatched), excluded = kernels_of(seen, Fate::kExcluded);
  const auto refusal = std::ranges::find_if(
      seen.warnings, [](const std::string& line) { return line.find("nothing is recorded") != line.npos; });
  if (seen.outputs.empty() && refusal != seen.warnings.end()) {
    return blame(check, "recording could not start: " + *refusal,
                 "correct what this line names; docs/recording.md (Messages) explains it");
  }
  if (!seen.refused.empty()) {
    std::vector<std::string> lines;
    for (const auto& [kernel, reasons] : seen.refused) {
      for (const std::string& reason : reasons) lines.push_back(fmt::format("{}: {}", kernel, reason));
    }
    add_list(check, "refused: ", lines);
    return blame(
        check, "no launch of the known kernels could be recorded",
        "docs/recording.md (Messages) explains each reason; a kernel whose parameters differ from the adapter's "
        "needs one of your own (docs/user-adapters.md)");
  }
  if (!excluded.empty()) {
    add_list(check, "left out: ", excluded);
    return blame(check, "--kernel leaves out every kernel that is known",
                 "give a regular expression that one of them matches");
  }
  if (!unmatched.empty()) {
    add_list(check, "unknown: ", unmatched);
    return blame(
        check,
        unmatched.size() == 1
            ? "the one kernel that was launched is known to no adapter"
            : fmt::format("{} kernels were launched, and no adapter knows any of them", unmatched.size()),
        "write an adapter for yours (docs/user-adapters.md), or save its tensors in the test (docs/python.md); "
        "docs/adapters.md lists the kernels that are known");
  }
  const bool has_driver =
      std::ranges::any_of(seen.processes, [](const auto& entry) { return entry.second.has_driver; });
  if (has_driver) {
    return blame(
        check, "the program uses the CUDA driver, and launched no kernel that the recorder saw",
        "does the test run on the GPU, or is it skipped? Kernels replayed from a CUDA graph cannot be recorded");
  }
  constexpr int kKilled = 128;
  const auto last = std::ranges::find_if(seen.processes, [](const auto& entry) { return !entry.second.has_ended; });
  if (last != seen.processes.end() && status < kKilled) {
    return blame(check,
                 fmt::format("the recorder was in {}, and not in the program that this started in its place",
                             last->second.program),
                 "put msda-record behind what clears LD_PRELOAD (env -i, sudo, su), before the program that launches "
                 "the kernels");
  }
  blame(check, "the program uses no CUDA driver, and called no function of libmsda",
        "does the test run on a GPU, or is it skipped? Kernels in a process that does not inherit LD_PRELOAD are not "
        "seen. On a CPU, record PyTorch's operators from Python: with msda_replay.record(\"x.h5\"): loss.backward()");
}

}  // namespace

const char* name_of(ObservedKernel::Fate fate) {
  return fate == Fate::kMatched ? "matched" : fate == Fate::kExcluded ? "excluded" : "unmatched";
}

Check diagnose(const ProgramRun& run, const Observations& seen, const std::vector<CaptureRead>& captures) {
  Check check{.name = "program"};
  int64_t calls = seen.completed;
  for (const CaptureRead& capture : captures) calls += capture.invocations;
  for (const auto& [id, process] : seen.processes) {
    if (check.details.size() == kMostLines) break;
    check.details.push_back(
        fmt::format("process {}: {}{}", id, process.program, process.has_driver ? ", uses CUDA" : ""));
  }
  add_list(check, "", seen.warnings);
  if (calls > 0) {
    check.summary = fmt::format("calls of {} are recorded (its exit status: {})", run.name, run.status);
    if (!seen.refused.empty()) {
      blame_kernels(check, seen, run.status);
      check.health = Health::kWarning;
      check.summary = fmt::format("calls of {} are recorded, and launches of {} are not", run.name,
                                  text::counted(std::ssize(seen.refused), "kernel"));
    }
    return check;
  }
  if (seen.discards > 0 && seen.refused.empty()) {
    check.summary =
        fmt::format("calls of {} are recorded, and it discarded them (its exit status: {})", run.name, run.status);
    return check;
  }
  // If the program is foreign, the recorder may have met the shell, which tries to read it as a script.
  if (seen.processes.empty() || is_foreign(run.file)) {
    blame_unreached(check, run);
  } else if (!captures.empty()) {
    const std::string error = captures.front().error;
    blame(check, "a capture was begun, and holds no call" + (error.empty() ? "" : ": " + error),
          "the lines above say what happened to its calls; docs/recording.md (Messages) explains them");
  } else {
    blame_kernels(check, seen, run.status);
  }
  return check;
}

}  // namespace msda::replay
