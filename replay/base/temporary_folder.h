// A folder for files that are not finished, or not kept.
#pragma once

#include <string>

namespace msda::replay {

// Removed with all files in it when it goes, and when SIGINT, SIGTERM or SIGHUP ends the process. What fills it may
// make files of its own there, as libzip does.
class TemporaryFolder {
 public:
  // Makes a folder whose path begins with `prefix`. Throws std::system_error.
  explicit TemporaryFolder(const std::string& prefix);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace msda::replay
