// msda-record's side of a session (spool/session_file.h).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace msda::record {

// A writer's report.
struct Report {
  std::string output, spool;
  bool has_ended = false;
  std::optional<int64_t> invocations;
  int64_t surveyed = 0;   // kernels
  int64_t trailed = 0;    // launches
  int64_t completed = 0;  // invocations in earlier captures, which the program may have moved
};

class Session {
 public:
  // Makes the folder in TMPDIR, or in the other one if it cannot be made and written to there, and removes folders that
  // killed runs of the same user left there. Throws std::runtime_error if it cannot be made.
  explicit Session(const std::string& other_folder);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  const std::string& folder() const { return folder_; }

  // Waits for a child's end, and meanwhile opens the files that processes make: somebody may remove them.
  void attend(pid_t child);
  // Waits until each writer has ended. Returns their reports, by their captures' names. A writer that never reported
  // has an empty name; its process has printed why, or where its spool is.
  std::map<std::string, Report> wait();

 private:
  bool make_in(const std::string& folder);
  void open_files();

  std::string folder_;
  int lock_ = -1;                     // on the folder, held as long as this process lives
  int changes_ = -1;                  // reports files that are made in it
  std::map<std::string, int> files_;  // by name; -1 once its writer has ended
  size_t open_ = 0;                   // of them
};

}  // namespace msda::record
