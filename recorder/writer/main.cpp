// msda-record: runs a program with the recorder loaded into it, and waits for its captures. The same program is the
// writer that the recorder starts beside each process that records (--follow).
#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "recorder/adapters/user.h"
#include "recorder/text/escape.h"
#include "recorder/writer/builder.h"

namespace {

namespace fs = std::filesystem;
constexpr int kBadUsage = 2;

struct Options {
  std::string output = "msda-capture.%p.h5", kernel, hook = "auto", keep = "all", stages = "none";
  bool force = false, digest_only = false;
  uint64_t max_bytes = 0;
  std::vector<std::string> adapters;
  std::vector<std::string> command;
  // Of the writer.
  std::string spool;
  int64_t keep_last = 0;
};

void say(const std::string& message) {
  std::fputs(("msda-record: " + msda::text::escaped(message) + "\n").c_str(), stderr);
}

// The writer: standard input is the recorded process' doorbell, descriptor 3 its session's file and descriptor 4 the
// memory shared with it, if there are any.
int follow(const Options& options) {
  signal(SIGINT, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);                         // a limit on file sizes is an error like a full disk
  const bool has_session = fcntl(3, F_GETFD) >= 0;  // now: without one, the next file opened gets the number
  const auto report = [has_session](const std::string& text) {
    if (has_session && write(3, text.data(), text.size()) < 0) {
    }  // msda-record is gone
  };
  try {
    msda::record::Builder builder({options.spool, options.output, options.force, options.keep_last, MSDA_VERSION,
                                   /*release=*/true, fcntl(4, F_GETFD) >= 0 ? 4 : -1, /*trusted=*/true,
                                   msda::record::stages_from(options.stages).value_or(msda::record::Stages::kNone)});
    char news[4096];
    for (;;) {
      const ssize_t got = read(STDIN_FILENO, news, sizeof news);
      if (got < 0 && errno == EINTR) continue;
      builder.follow();
      if (got <= 0) break;
    }
    builder.finish();
    for (const auto& [kernel, count] : builder.unexplained()) {
      say(fmt::format("{}: {} call{} of {} not recorded: no padding and align_corners explain the outputs",
                      options.output, count, count == 1 ? "" : "s", kernel));
    }
    for (const auto& [kernel, count] : builder.ambiguous()) {
      say(
          fmt::format("{}: {} call{} of {}: no sample lies outside, so the outputs do not tell the padding; "
                      "padding_mode zeros is noted",
                      options.output, count, count == 1 ? "" : "s", kernel));
    }
    for (const auto& [kernel, calls] : builder.stageless()) {
      say(fmt::format("{}: {} call{} of {} without stages: {}", options.output, calls.count,
                      calls.count == 1 ? "" : "s", kernel, calls.why));
    }
    if (builder.without_room() > 0) {
      say(fmt::format("{}: {} call{} not recorded: no room on the disk; {}", options.output, builder.without_room(),
                      builder.without_room() == 1 ? "" : "s",
                      builder.spool_holds_more()
                          ? fmt::format("msda-replay recover {} -o FILE gets them, on a disk with room", options.spool)
                          : "make some, or keep fewer calls (--keep last:K, --kernel)"));
    } else if (builder.without_run()) {
      say(options.output + ": without seeds, facts of the run and counts of equal calls: no room on the disk");
    }
    if (!builder.spool_holds_more()) fs::remove(options.spool);
    report(builder.invocations() > 0 ? fmt::format("{}: {} invocation{}", options.output, builder.invocations(),
                                                   builder.invocations() == 1 ? "" : "s")
                                     : "");
    return 0;
  } catch (const std::exception& e) {
    say(fmt::format("{}; msda-replay recover {} -o FILE gets what was recorded", e.what(), options.spool));
    report(fmt::format("{}: not finished", options.output));
    return 1;
  }
}

fs::path this_program() { return fs::read_symlink("/proc/self/exe"); }

fs::path preload_library() {
  for (const fs::path& folder :
       {this_program().parent_path().parent_path() / "lib", this_program().parent_path().parent_path() / MSDA_LIBDIR,
        this_program().parent_path()}) {
    if (fs::exists(folder / "libmsda_record.so")) return fs::canonical(folder / "libmsda_record.so");
  }
  throw std::runtime_error("libmsda_record.so is not beside this program, in ../lib or " MSDA_LIBDIR
                           ": install it whole");
}

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

// A folder for this run, in which each recording process leaves a locked file until its capture is written.
class Session {
 public:
  Session() {
    std::string pattern = (fs::temp_directory_path() / "msda-record-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
  }
  ~Session() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }
  const std::string& folder() const { return folder_; }

  // Lines of what was written.
  std::vector<std::string> wait() const {
    std::vector<std::string> lines;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
      const int file = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
      if (file < 0) continue;
      while (flock(file, LOCK_SH) != 0 && errno == EINTR) {
      }
      close(file);
      std::ifstream text(entry.path());
      std::string line;
      while (std::getline(text, line)) lines.push_back(line);
    }
    std::ranges::sort(lines);
    return lines;
  }

 private:
  std::string folder_;
};

int run(const Options& options) {
  const Session session;
  const std::string library = preload_library().string();
  const char* preloaded = getenv("LD_PRELOAD");
  // Signals of the terminal are the program's to answer; this process waits for it.
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(fmt::format("cannot fork: {}", strerror(errno)));
  if (child == 0) {
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    set("LD_PRELOAD", preloaded != nullptr && *preloaded != 0 ? library + ":" + preloaded : library);
    set("MSDA_RECORD_OUTPUT", options.output);
    set("MSDA_RECORD_HOOK", options.hook);
    set("MSDA_RECORD_KEEP", options.keep);
    set("MSDA_RECORD_STAGES", options.stages);
    set("MSDA_RECORD_WRITER", this_program().string());
    if (options.force) set("MSDA_RECORD_FORCE", "1");
    if (options.digest_only) set("MSDA_RECORD_DIGEST_ONLY", "1");
    if (!options.kernel.empty()) set("MSDA_RECORD_KERNEL", options.kernel);
    if (!options.adapters.empty()) set("MSDA_RECORD_ADAPTERS", fmt::format("{}", fmt::join(options.adapters, ":")));
    if (options.max_bytes > 0) set("MSDA_RECORD_MAX_BYTES", std::to_string(options.max_bytes));
    if (!session.folder().empty()) set("MSDA_RECORD_SESSION", session.folder());
    std::vector<char*> arguments;
    for (const std::string& argument : options.command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    say(fmt::format("{}: {}", options.command[0], strerror(errno)));
    _exit(errno == ENOENT ? 127 : 126);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const auto lines = session.wait();
  for (const std::string& line : lines) say(line);
  if (lines.empty()) say("no call was recorded");
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Runs a program and records its backward calls of multi-scale deformable attention.", "msda-record");
  app.footer(
      "Usage: msda-record [OPTIONS] -- COMMAND [ARGUMENT...]\n"
      "Exit status: the program's own; 128 + N if signal N ended it; 2 for bad usage.\n"
      "LD_PRELOAD=libmsda_record.so COMMAND does the same, set by MSDA_RECORD_* variables: docs/recording.md.");
  app.set_version_flag("--version", MSDA_VERSION);
  app.add_option("-o,--output", options.output, "Capture file; %p becomes the process' number, %r its rank")
      ->capture_default_str();
  app.add_option("--kernel", options.kernel, "Record only kernels whose name this regular expression matches")
      ->type_name("REGEX");
  app.add_option("--hook", options.hook, "Who catches launches: the driver hook with CUPTI's help, or one of them")
      ->check(CLI::IsMember({"auto", "cupti", "driver"}))
      ->capture_default_str();
  app.add_option("--adapter", options.adapters, "File of adapters for kernels of your own, in JSON; repeatable")
      ->type_name("FILE")
      ->envname("MSDA_RECORD_ADAPTERS")
      ->delimiter(':')
      ->expected(1)
      ->take_all();
  app.add_option("--keep", options.keep, "Of each process' calls, keep all or the last K")->type_name("all|last:K");
  app.add_option("--stages", options.stages,
                 "Also keep the operator's intermediate tensors, computed when it has ended")
      ->check(CLI::IsMember({"none", "summary", "full"}))
      ->type_name("none|summary|full");
  app.add_option("--max-bytes", options.max_bytes, "Stop recording a process at so many bytes")->type_name("N");
  app.add_flag("--digest-only", options.digest_only, "Of the tensors keep their digests alone, not their bytes");
  app.add_flag("--force", options.force, "Replace a capture that exists");
  app.add_option("--follow", options.spool)->group("");
  app.add_option("--keep-last", options.keep_last)->group("");
  app.prefix_command();
  try {
    app.parse(argc, argv);
    if (!options.spool.empty()) return follow(options);
    options.command = app.remaining();
    if (!options.command.empty() && options.command[0] == "--") options.command.erase(options.command.begin());
    if (options.command.empty()) throw std::runtime_error("no program to run: msda-record [OPTIONS] -- COMMAND");
    const bool last = options.keep.starts_with("last:") && options.keep.size() > 5 &&
                      options.keep.find_first_not_of("0123456789", 5) == std::string::npos;
    // Before the program starts: inside it, a bad file could only be passed over.
    for (std::string& path : options.adapters) {
      msda::adapters::read_user_adapters(path);
      path = fs::absolute(path).string();
    }
    if (options.keep != "all" && !last) throw std::runtime_error("--keep " + options.keep + ": give all or last:K");
    return run(options);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kBadUsage;
  } catch (const std::exception& e) {
    say(e.what());
    return kBadUsage;
  }
}
