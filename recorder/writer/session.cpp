#include "recorder/writer/session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>

#include "recorder/spool/session_file.h"

namespace msda::record {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "msda-record-", kPlaces = "XXXXXX";
using Lines = spool::SessionFile;

int open_locked(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  close(descriptor);
  return -1;
}

// The process that made a folder holds its lock; an unlocked one is abandoned.
void remove_abandoned(const fs::path& temporary) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(temporary, ignored)) {
    const std::string name = entry.path().filename().string();
    struct stat status {};
    if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kPlaces.size() ||
        lstat(entry.path().c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid()) {
      continue;
    }
    const int lock = open_locked(entry.path());
    if (lock < 0) continue;
    fs::remove_all(entry.path(), ignored);
    close(lock);
  }
}

std::string read_all(int file) {
  std::string text;
  char part[4096];
  for (ssize_t got = 0; (got = pread(file, part, sizeof part, static_cast<off_t>(text.size()))) > 0;) {
    text.append(part, static_cast<size_t>(got));
  }
  return text;
}

Report read_report(int descriptor) {
  Report report;
  std::istringstream file(read_all(descriptor));
  for (std::string line; std::getline(file, line) && !file.eof();) {  // a line without its end is incomplete
    const auto take = [&](std::string_view word, auto& value) {
      if (!line.starts_with(word)) return;
      if constexpr (std::is_same_v<decltype(value), std::string&>) {
        value = line.substr(word.size());
      } else {
        value = std::strtoll(line.c_str() + word.size(), nullptr, 10);
      }
    };
    take(Lines::kOutput, report.output);
    take(Lines::kSpool, report.spool);
    take(Lines::kInvocations, report.invocations);
    take(Lines::kSurveyed, report.surveyed);
    take(Lines::kTrailed, report.trailed);
    take(Lines::kCompleted, report.completed);
    report.has_ended = report.has_ended || line.starts_with(Lines::kInvocations) || line == Lines::kUnfinished;
  }
  return report;
}

bool is_locked(int file) {
  const bool locked = flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!locked) flock(file, LOCK_UN);
  return locked;
}

// Returns whether there is room for a few sessions' files.
bool has_room(const std::string& folder) {
  const std::string path = folder + "/room";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const std::string room(1 << 16, ' ');
  const bool written = write(file, room.data(), room.size()) == static_cast<ssize_t>(room.size());
  close(file);
  unlink(path.c_str());
  return written;
}

}  // namespace

Session::Session(const std::string& other_folder) {
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  for (const std::string& folder : {temporary.string(), other_folder}) {
    // The path is absolute, because the program may change its working folder.
    if (!folder.empty() && make_in(fs::absolute(folder).string())) break;
  }
  if (folder_.empty()) {
    throw std::runtime_error(fmt::format(
        "cannot make a folder for its files, neither in TMPDIR nor in {}: set TMPDIR to a folder that you can "
        "write to, on a disk that is not full",
        other_folder));
  }
  changes_ = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (changes_ >= 0) inotify_add_watch(changes_, folder_.c_str(), IN_CREATE);
}

bool Session::make_in(const std::string& folder) {
  remove_abandoned(folder);
  constexpr int kTries = 10;
  std::error_code error;
  for (int i = 0; i < kTries; ++i) {
    std::string pattern = (fs::path(folder) / (std::string(kPrefix) + std::string(kPlaces))).string();
    if (mkdtemp(pattern.data()) == nullptr) return false;
    lock_ = open_locked(pattern);
    struct stat status {};
    if (lock_ < 0) continue;  // another run has locked it first, and removes it
    if (fstat(lock_, &status) == 0 && status.st_nlink > 0 && fs::exists(pattern, error)) {
      if (has_room(pattern)) {
        folder_ = pattern;
        return true;
      }
      fs::remove(pattern, error);
      i = kTries;
    }
    close(lock_);
  }
  return false;
}

Session::~Session() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  for (const auto& [name, file] : files_) {
    if (file >= 0) close(file);
  }
  for (const int descriptor : {lock_, changes_}) close(descriptor);
}

// Opens no more files than there are descriptors for.
void Session::open_files() {
  constexpr size_t kMost = 500;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (open_ >= kMost || files_.contains(name)) continue;
    const int file = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);  // not the library's link
    if (file < 0) continue;
    files_.emplace(name, file);
    ++open_;
  }
}

void Session::attend(pid_t child) {
  const int process = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  pollfd events[] = {{process, POLLIN, 0}, {changes_, POLLIN, 0}};
  while (process >= 0 && events[0].revents == 0) {  // without, on Linux before 5.3, the files are opened at the end
    if (poll(events, 2, -1) <= 0 || events[1].revents == 0) continue;
    char news[4096];
    while (read(changes_, news, sizeof news) > 0) {
    }
    open_files();
  }
  if (process >= 0) close(process);
}

std::map<std::string, Report> Session::wait() {
  // The lock alone is not enough: children of a raw clone inherit the descriptor.
  using namespace std::chrono_literals;
  std::map<std::string, Report> reports;
  for (open_files(); open_ > 0; open_files()) {
    for (auto& [name, file] : files_) {
      for (auto pause = 1ms; file >= 0; pause = std::min(2 * pause, 20ms)) {
        const bool locked = is_locked(file);  // before its content is read
        Report report = read_report(file);
        if (report.has_ended || !locked) {
          reports[report.output] = report;
          close(std::exchange(file, -1));
          --open_;
          break;
        }
        std::this_thread::sleep_for(pause);
      }
    }
  }
  return reports;
}

}  // namespace msda::record
