#include "recorder/writer/follow.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "recorder/spool/news.h"
#include "recorder/spool/session_file.h"
#include "recorder/text/words.h"
#include "recorder/writer/builder.h"
#include "recorder/writer/version.h"

namespace msda::record {
namespace {

constexpr int kSession = 3, kSharedMemory = 4;

bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

// Waits for news of the recorded process, and for its end.
class Target {
 public:
  // The target created the socket pair. On Linux before 5.3, and if the target has ended already, only the socket shows
  // that it has ended.
  Target() {
    ucred maker{};
    socklen_t size = sizeof maker;
    if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_PEERCRED, &maker, &size) == 0 && maker.pid > 0) {
      process_number_ = maker.pid;
      process_ = static_cast<int>(syscall(SYS_pidfd_open, maker.pid, 0));
      is_gone_ = process_ < 0 && errno == ESRCH;
    }
  }
  ~Target() {
    if (process_ >= 0) close(process_);
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  // Answers the target, which waits, on its last cut.
  void answer(const spool::CutDone& cut) {
    if (cut.number == answered_ || socket_ < 0) return;
    answered_ = cut.number;
    if (send(socket_, &cut, sizeof cut, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    }  // the target has ended
  }

  // Waits. Returns false when no more news will come: the target has become another program, which closed the socket,
  // or it has ended, even if its children still have the socket open.
  bool has_news() {
    if (is_gone_) return false;
    constexpr int kForever = -1, kLookAgain = 250;  // milliseconds
    pollfd ends[] = {{socket_, POLLIN, 0}, {process_, POLLIN, 0}};
    while (poll(ends, 2, socket_ < 0 ? kLookAgain : kForever) < 0 && errno == EINTR) {
    }
    is_gone_ = ends[1].revents != 0;
    if (socket_ < 0) return !is_gone_ && is_the_same_program();
    if (ends[0].revents == 0) return !is_gone_;
    char news[4096];
    ssize_t got = 0;
    while ((got = read(STDIN_FILENO, news, sizeof news)) < 0 && errno == EINTR) {
    }
    if (got > 0) return true;
    socket_ = -1;
    return process_ >= 0 && !is_gone_ && is_the_same_program();
  }

 private:
  // Returns whether the process still maps the memory shared with this one: then it has closed the socket, as it may
  // close any descriptor, but still records.
  bool is_the_same_program() const {
    struct stat shared {};
    if (fstat(kSharedMemory, &shared) != 0) return false;
    std::ifstream maps(fmt::format("/proc/{}/maps", process_number_));
    const std::string inode = fmt::format(" {} ", shared.st_ino);
    for (std::string line; std::getline(maps, line);) {
      if (line.find("/memfd:msda-record") != line.npos && line.find(inode) != line.npos) return true;
    }
    return false;
  }

  int socket_ = STDIN_FILENO;  // -1: it is closed
  uint64_t answered_ = 0;
  int process_ = -1;
  pid_t process_number_ = 0;
  bool is_gone_ = false;
};

// Prints what the user must know about a capture beside its contents.
void report_captures(const Options& options, const Builder& builder) {
  const std::string output = builder.output();
  for (const auto& [kernel, count] : builder.unexplained()) {
    say(fmt::format("{}: {} of {} not recorded: no combination of padding and align_corners explains the outputs",
                    output, text::counted(count, "call"), kernel));
  }
  for (const auto& [kernel, count] : builder.ambiguous()) {
    say(fmt::format(
        "{}: {} of {}: no sample lies outside the image, so the outputs do not show which padding was used; "
        "padding_mode zeros is recorded",
        output, text::counted(count, "call"), kernel));
  }
  for (const auto& [kernel, calls] : builder.stageless()) {
    say(fmt::format("{}: {} of {} without stages: {}", output, text::counted(calls.count, "call"), kernel, calls.why));
  }
  if (builder.without_room() > 0) {
    say(fmt::format(
        "{}: {} not recorded: no room on the disk; {}", output, text::counted(builder.without_room(), "call"),
        builder.spool_holds_more()
            ? fmt::format("msda-replay recover {} -o FILE gets them, on a disk with free space", options.spool)
            : "free some space, or keep fewer calls (--keep last:K, --kernel)"));
  } else if (builder.without_run()) {
    say(output + ": no room on the disk for seeds, facts of the run and counts of equal calls");
  }
  if (const spool::Missing lost = builder.missing(); lost.missing > 0) {
    say(output + ": " + lost.description());
  }
}

std::string recovered(const Options& options, const std::string& what) {
  return fmt::format("msda-replay recover {} -o FILE gets {}", options.spool, what);
}

// Launches lie in memory that is shared with the program; the spool only names them.
std::string what_the_spool_holds(const Options& options, const Builder& builder) {
  const int64_t all = builder.ended(), held = builder.ended_in_spool();
  if (held == all) return recovered(options, "what was recorded");
  if (held == 0) return "nothing else holds its " + text::counted(all, "call");
  return recovered(options, fmt::format("{} of its {} calls", held, all));
}

// Freeing this process' memory takes a tenth of a second for each GB. Whoever reads the program's output to its end
// need not wait for that.
void close_output() {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) close(stream);
}

}  // namespace

int follow(const Options& options) {
  // The writer ends when the process that it follows does, not when all processes of a job are asked to end.
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP}) signal(ignored, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error like a full disk
  // Checked now: if the descriptor is closed, the next file opened gets the number.
  spool::SessionFile session(is_open(kSession) ? kSession : -1);
  const int shared_memory = is_open(kSharedMemory) ? kSharedMemory : -1;
  std::optional<Builder> made;
  bool has_ended = false;  // no calls will come into the spool any more
  try {
    Builder& builder = made.emplace(Builder::Settings{
        options.spool, options.output, options.force, options.keep_last, version(),
        /*release=*/true, shared_memory, stages_from(options.stages).value_or(Stages::kNone), /*cuts=*/true});
    for (Target target; target.has_news();) {
      while (builder.follow()) target.answer(builder.last_cut());
    }
    has_ended = true;
    builder.finish();
    report_captures(options, builder);
    if (!builder.spool_holds_more()) std::filesystem::remove(options.spool);
    if (builder.output() != options.output) session.begin(builder.output(), options.spool);
    session.end(builder.invocations(), builder.completed(), builder.surveyed(), builder.trailed());
    close_output();
    return 0;
  } catch (const capture::Displaced& e) {
    say(e.what());
    if (!made->spool_holds_more()) std::filesystem::remove(options.spool);
    session.end(std::nullopt, made->completed());
    return 1;
  } catch (const std::exception& e) {
    const int64_t completed = made ? made->completed() : 0;
    const bool has_spool = std::filesystem::exists(options.spool);
    // The program has taken the captures that it wanted and removed their folder, as the pytest plugin does, while a
    // thread went on calling.
    if (!has_spool && made && made->has_discarded()) {
      session.end(0, completed);
      return 0;
    }
    const std::string remedy = !has_spool  ? "its spool was removed, too"
                               : has_ended ? what_the_spool_holds(options, *made)
                                           : recovered(options, "what was recorded");
    made.reset();
    say(fmt::format("{}; {}", e.what(), remedy));
    session.end(std::nullopt, completed);
    return 1;
  }
}

}  // namespace msda::record
