#include "recorder/writer/session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace msda::record {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "msda-record-", kPlaces = "XXXXXX";
// The lines of a session's file: a keyword and its value. A line with kInvocations or kUnfinished is the last.
constexpr std::string_view kOutput = "output ", kSpool = "spool ", kInvocations = "invocations ",
                           kCompleted = "completed ", kUnfinished = "unfinished";

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

Report read_report(const fs::path& path) {
  Report report;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && !file.eof();) {  // a line without its end is incomplete
    const auto after = [&](std::string_view word) { return line.substr(word.size()); };
    if (line.starts_with(kOutput)) report.output = after(kOutput);
    if (line.starts_with(kSpool)) report.spool = after(kSpool);
    if (line.starts_with(kInvocations)) report.invocations = std::strtoll(after(kInvocations).c_str(), nullptr, 10);
    if (line.starts_with(kCompleted)) report.completed = std::strtoll(after(kCompleted).c_str(), nullptr, 10);
    report.has_ended = report.has_ended || line.starts_with(kInvocations) || line == kUnfinished;
  }
  return report;
}

bool is_locked(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool locked = flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(file);
  return locked;
}

}  // namespace

void SessionFile::append(const std::string& line) {
  if (descriptor_ >= 0 && write(descriptor_, line.data(), line.size()) < 0) {
  }  // msda-record is gone
}

void SessionFile::begin(const std::string& output, const std::string& spool) {
  append(fmt::format("{}{}\n{}{}\n", kOutput, output, kSpool, spool));
}

void SessionFile::end(std::optional<int64_t> invocations, int64_t completed) {
  append(fmt::format("{}{}\n", kCompleted, completed));
  append(invocations ? fmt::format("{}{}\n", kInvocations, *invocations) : fmt::format("{}\n", kUnfinished));
}

Session::Session() {
  std::error_code error;
  // Absolute: the program may change its working folder.
  const fs::path temporary = fs::absolute(fs::temp_directory_path(error), error);
  if (error) return;
  remove_abandoned(temporary);
  constexpr int kTries = 10;
  for (int i = 0; i < kTries && folder_.empty(); ++i) {
    std::string pattern = (temporary / (std::string(kPrefix) + std::string(kPlaces))).string();
    if (mkdtemp(pattern.data()) == nullptr) return;
    lock_ = open_locked(pattern);
    struct stat status {};
    if (lock_ < 0) continue;  // another run has locked it first, and removes it
    if (fstat(lock_, &status) == 0 && status.st_nlink > 0 && fs::exists(pattern, error)) {
      folder_ = pattern;
    } else {
      close(lock_);
    }
  }
}

Session::~Session() {
  std::error_code ignored;
  if (folder_.empty()) return;
  fs::remove_all(folder_, ignored);
  close(lock_);
}

std::map<std::string, Report> Session::wait() const {
  // The lock alone is not enough: children of a raw clone inherit the descriptor.
  using namespace std::chrono_literals;
  std::map<std::string, Report> reports;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    if (entry.is_symlink(ignored)) continue;  // the link to the recorder's library
    for (auto pause = 1ms;; pause = std::min(2 * pause, 20ms)) {
      const bool locked = is_locked(entry.path());  // before its content is read
      Report report = read_report(entry.path());
      if (report.has_ended || !locked) {
        reports[report.output] = report;
        break;
      }
      std::this_thread::sleep_for(pause);
    }
  }
  return reports;
}

}  // namespace msda::record
