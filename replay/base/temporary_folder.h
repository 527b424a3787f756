// A folder for files that are not finished.
#pragma once

#include <string>

namespace msda::replay {

// Removed with all files in it when it goes, and when SIGINT, SIGTERM or SIGHUP ends the process. What fills it may
// make files of its own there, as libzip does.
class TemporaryFolder {
 public:
  // Beside `path`, so that its files can be renamed to that. Throws std::system_error.
  explicit TemporaryFolder(const std::string& path);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace msda::replay
