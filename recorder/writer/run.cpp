#include "recorder/writer/run.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <ranges>
#include <stdexcept>
#include <string_view>

#include "recorder/spool/output.h"
#include "recorder/text/shell.h"
#include "recorder/text/words.h"
#include "recorder/writer/installation.h"
#include "recorder/writer/request.h"
#include "recorder/writer/sanitizers.h"
#include "recorder/writer/session.h"

namespace msda::record {
namespace {

namespace fs = std::filesystem;

fs::path preload_library() {
  const fs::path library = installed_library("libmsda_record.so");
  if (!library.empty()) return library;
  throw std::runtime_error("libmsda_record.so is not beside this program, in ../lib or " MSDA_LIBDIR
                           ": install it whole");
}

// Returns a path that LD_PRELOAD can hold: the library's own, or that of a link in the session's folder, which is
// removed with it. The dynamic loader splits LD_PRELOAD at spaces and colons, and replaces $ORIGIN and the like.
std::string preloadable_path(const fs::path& library, const std::string& session) {
  constexpr const char* kSpecial = " :$";
  if (library.string().find_first_of(kSpecial) == std::string::npos) return library.string();
  const fs::path link = fs::path(session) / library.filename();
  std::error_code error;
  if (session.find_first_of(kSpecial) == std::string::npos) {
    fs::create_symlink(library, link, error);
    if (!error) return link.string();
  }
  throw std::runtime_error(
      library.string() +
      ": LD_PRELOAD cannot hold a path with a space, a colon or a dollar sign, nor can a link be made in TMPDIR; set "
      "TMPDIR to a folder that you can write to, without these characters in its path, or move the installation");
}

volatile sig_atomic_t running = 0;       // while it runs
volatile sig_atomic_t signal_since = 0;  // a signal that came after its end

void pass_on(int number) {
  const int saved = errno;
  if (running > 0) {
    kill(static_cast<pid_t>(running), number);
  } else {
    signal_since = number;
  }
  errno = saved;
}

// Handles this process' signals while it waits for a program. Signals of the terminal reach the program directly and
// are ignored here; signals that ask a process to end are passed on. Signals that were ignored stay ignored.
class Signals {
 public:
  Signals() {
    hold();
    for (size_t i = 0; i < kAll.size(); ++i) {
      struct sigaction change {};
      change.sa_handler = i < kOfTerminal ? SIG_IGN : pass_on;
      change.sa_flags = SA_RESTART;
      sigaction(kAll[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kAll[i], &change, nullptr);
    }
  }
  // Called in the child before exec.
  void restore() const {
    for (size_t i = 0; i < kAll.size(); ++i) sigaction(kAll[i], &before_[i], nullptr);
    sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  // Unblocks signals; `child` is 0 after the program has ended.
  void pass_on_to(pid_t child) {
    hold();
    running = child;
    sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    is_held_ = false;
  }

 private:
  static constexpr std::array kAll{SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  static constexpr size_t kOfTerminal = 2;

  void hold() {
    if (is_held_) return;
    sigset_t all;
    sigemptyset(&all);
    for (const int number : kAll) sigaddset(&all, number);
    sigprocmask(SIG_BLOCK, &all, &mask_before_);
    is_held_ = true;
  }

  bool is_held_ = false;
  sigset_t mask_before_{};
  std::array<struct sigaction, kAll.size()> before_{};
};

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

void set_environment(const Options& options, const std::string& library, const std::string& session,
                     const std::string& announced) {
  const char* preloaded = getenv("LD_PRELOAD");
  set("LD_PRELOAD", preloaded != nullptr && *preloaded != 0 ? library + ":" + preloaded : library);
  set_sanitizer_options();
  set("MSDA_RECORD_OUTPUT", spool::absolute_pattern(options.output));  // the program may start in another folder
  set("MSDA_RECORD_HOOK", options.hook);
  set("MSDA_RECORD_KEEP", options.keep);
  set("MSDA_RECORD_STAGES", options.stages);
  set("MSDA_RECORD_WRITER", this_program().string());
  if (options.force) set("MSDA_RECORD_FORCE", "1");
  if (options.digest_only) set("MSDA_RECORD_DIGEST_ONLY", "1");
  if (!options.kernel.empty()) set("MSDA_RECORD_KERNEL", options.kernel);
  if (!options.adapters.empty()) set("MSDA_RECORD_ADAPTERS", fmt::format("{}", fmt::join(options.adapters, ":")));
  if (!options.variables.empty()) set("MSDA_RECORD_ENV", fmt::format("{}", fmt::join(options.variables, ":")));
  if (options.max_bytes > 0) set("MSDA_RECORD_MAX_BYTES", std::to_string(options.max_bytes));
  if (options.trail) set("MSDA_RECORD_TRAIL", "1");
  if (options.survey) {
    set("MSDA_RECORD_SURVEY", "1");
    set("MSDA_RECORD_SURVEY_RUNS", std::to_string(options.survey_runs));
    set("MSDA_RECORD_SURVEY_MEMORY", std::to_string(options.survey_memory));
    set("MSDA_RECORD_SURVEY_PATIENCE", std::to_string(options.survey_patience));
    const std::pair<const char*, int64_t> limits[] = {
        {"FROM", options.survey_from}, {"TO", options.survey_to}, {"SECONDS", options.survey_seconds}};
    for (const auto& [name, value] : limits) {
      if (value > 0) set(fmt::format("MSDA_RECORD_SURVEY_{}", name).c_str(), std::to_string(value));
    }
    if (!options.survey_label.empty()) set("MSDA_RECORD_SURVEY_LABEL", options.survey_label);
    if (options.survey_alone) set("MSDA_RECORD_SURVEY_NEIGHBOUR", "0");
    if (options.survey_poison) {
      set("MSDA_RECORD_SURVEY_POISON", "1");
      // PyTorch's own allocator hands out memory again that the driver does not know to be free. A user's setting
      // stays.
      setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", /*overwrite=*/0);
    }
  }
  set("MSDA_RECORD_SESSION", session);
  if (!announced.empty()) set("MSDA_RECORD_ANNOUNCED", announced);
}

// Returns why execvp() would not start a program of this name: an errno, or 0 if there is nothing against it.
int why_not_startable(const std::string& name) {
  const auto trouble_with = [](const fs::path& path) {
    if (access(path.c_str(), F_OK) != 0) return errno;
    std::error_code unknown;
    return fs::is_directory(path, unknown) || access(path.c_str(), X_OK) != 0 ? EACCES : 0;
  };
  if (name.find('/') != std::string::npos) return trouble_with(name);
  const char* path = getenv("PATH");
  if (path == nullptr || *path == '\0') return 0;  // execvp() has folders of its own
  int trouble = ENOENT;
  for (const auto folder : std::views::split(std::string_view(path), ':')) {
    const std::string_view words(folder.begin(), folder.end());
    const int here = trouble_with(fs::path(words.empty() ? "." : words) / name);
    if (here == 0) return 0;
    if (here == EACCES) trouble = EACCES;
  }
  return trouble;
}

// Returns the exit status of a shell whose program cannot be started.
int cannot_start(const std::string& name, int error) {
  say(fmt::format("{}: {}", name, std::strerror(error)));
  return error == ENOENT ? 127 : 126;
}

[[noreturn]] void become(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(cannot_start(command[0], errno));
}

// Waits for the child's end. Reaps it only when no signal is passed on any more: afterwards its number may be another
// process'.
int status_of(pid_t child, Signals& signals) {
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  signals.pass_on_to(0);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Returns a flag as people type it: shell_word() quotes its dashes.
std::string typed_word(const std::string& word) {
  const size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  const std::string rest = word.substr(dashes);
  return word.substr(0, dashes) + (rest.empty() && dashes > 0 ? "" : text::shell_word(rest));
}

void report_processes(const std::map<std::string, Report>& reports, const Options& options, int status) {
  std::string first;  // capture
  for (const auto& [output, report] : reports) {
    if (output.empty()) continue;
    if (!report.has_ended) {
      say(fmt::format("{}: its writer was killed; to get what was recorded: msda-replay recover {} -o FILE", output,
                      text::shell_word(report.spool)));
    } else if (!report.invocations) {
      say(output + ": not finished");
    } else if (report.surveyed > 0) {
      say(fmt::format("{}: a survey of {}", output, text::counted(report.surveyed, "kernel")));
      if (first.empty()) first = output;
    } else if (report.trailed > 0) {
      say(fmt::format("{}: a trail of {}", output, text::counted(report.trailed, "launch")));
      if (first.empty()) first = output;
    } else if (*report.invocations > 0) {
      say(fmt::format("{}: {}", output, text::counted(*report.invocations, "invocation")));
      if (first.empty()) first = output;
    }
    if (report.completed > 0) {
      say(fmt::format("{}: {} in captures that the program completed while it ran", output,
                      text::counted(report.completed, "invocation")));
    }
  }
  const bool said_nothing = std::ranges::all_of(reports, [](const auto& report) {
    return report.second.has_ended && report.second.invocations == 0 && report.second.completed == 0 &&
           report.second.surveyed == 0 && report.second.trailed == 0;
  });
  if (said_nothing)
    say(options.survey  ? "no launch was surveyed"
        : options.trail ? "the program launched nothing"
                        : "no call was recorded");
  if (said_nothing && getenv("MSDA_RECORD_OBSERVATIONS") == nullptr) {  // msda-replay doctor sets it
    if (status != 0) say(fmt::format("next: see what the program says; its exit status is {}", status));
    std::string words;
    // msda-replay survey has chosen flags that nobody typed, and says the same.
    for (const std::string& word : options.survey ? options.command : options.typed) words += " " + typed_word(word);
    say("next: msda-replay doctor --" + words);
  }
  if (first.empty()) return;
  const std::string word = text::shell_word(first);
  // Digests cannot be replayed: they only show whether two recordings differ.
  say(options.survey        ? "next: msda-replay survey " + word
      : options.trail       ? fmt::format("next: msda-replay diff {} OTHER.h5, with a trail of another run", word)
      : options.digest_only ? fmt::format("next: msda-replay diff {} OTHER.h5, with another recording", word)
                            : "next: msda-replay run " + word);
}

}  // namespace

int run(const Options& options) {
  if (const int error = why_not_startable(options.command[0])) return cannot_start(options.command[0], error);
  if (options.survey && dlopen("libcuda.so.1", RTLD_LAZY) == nullptr) {
    say("no CUDA driver (libcuda.so.1) is found here: unless the program brings one, it runs, and nothing is surveyed. "
        "Without an NVIDIA GPU, record two runs with msda_replay.record and compare them: docs/tutorial/training.md");
  }
  Signals signals;
  Session session(fallback_folder(options));
  const std::string library = preloadable_path(preload_library(), session.folder());
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(fmt::format("cannot fork: {}", std::strerror(errno)));
  if (child == 0) {
    signals.restore();
    set_environment(options, library, session.folder(), announce(options));
    become(options.command);
  }
  signals.pass_on_to(child);
  session.attend(child);
  const int status = status_of(child, signals);
  report_processes(session.wait(), options, status);
  return signal_since != 0 ? 128 + signal_since : status;
}

}  // namespace msda::record
