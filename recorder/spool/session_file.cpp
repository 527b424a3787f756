#include "recorder/spool/session_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "recorder/spool/write_signals.h"

namespace msda::spool {

int SessionFile::make(const std::string& folder) {
  const WriteSignalsHeld held;
  const std::string name = folder + "/" + std::to_string(getpid()) + "." + std::to_string(time(nullptr)) + ".";
  constexpr int kTries = 100;  // in another namespace, processes have the same numbers
  int file = -1;
  for (int i = 0; i < kTries && file < 0; ++i) {
    file = open((name + std::to_string(i)).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0 && errno == ENOENT) mkdir(folder.c_str(), S_IRWXU);
    if (file < 0 && errno != ENOENT && errno != EEXIST) return -1;
  }
  constexpr off_t kRoom = 1 << 14;  // for all lines, so that a disk that fills up does not matter
  if (file >= 0 && (flock(file, LOCK_EX) != 0 || fallocate(file, FALLOC_FL_KEEP_SIZE, 0, kRoom) != 0)) {
  }  // not everywhere is this possible
  return file;
}

bool SessionFile::has_capture(const std::string& folder, const std::string& output) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->is_regular_file(error) || entry->is_symlink(error)) continue;
    std::ifstream file(entry->path());
    bool is_of_it = false, is_empty = false;
    for (std::string line; std::getline(file, line);) {
      is_of_it = is_of_it || line == std::string(kOutput) + output;
      is_empty = is_empty || line == std::string(kInvocations) + "0";
    }
    if (is_of_it && !is_empty) return true;
  }
  return false;
}

void SessionFile::append(const std::string& line) {
  const WriteSignalsHeld held;
  if (descriptor_ >= 0 && write(descriptor_, line.data(), line.size()) < 0) {
  }  // no room
}

void SessionFile::begin(const std::string& output, const std::string& spool) {
  append(std::string(kOutput) + output + "\n" + std::string(kSpool) + spool + "\n");
}

void SessionFile::end(std::optional<int64_t> invocations, int64_t completed, int64_t surveyed, int64_t trailed) {
  append(std::string(kTrailed) + std::to_string(trailed) + "\n");
  append(std::string(kSurveyed) + std::to_string(surveyed) + "\n");
  append(std::string(kCompleted) + std::to_string(completed) + "\n");
  append(invocations ? std::string(kInvocations) + std::to_string(*invocations) + "\n"
                     : std::string(kUnfinished) + "\n");
}

}  // namespace msda::spool
