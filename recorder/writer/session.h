// How msda-record learns of captures. It makes a folder; each process that records makes a file in it and locks it;
// that process' writer inherits the file, and writes into it the capture's name and at the end the result.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace msda::record {

// The writer's side.
class SessionFile {
 public:
  // For an open file; -1 for none.
  explicit SessionFile(int descriptor) : descriptor_(descriptor) {}
  void begin(const std::string& output, const std::string& spool);
  // Reports the number of invocations in the capture, nothing if it could not be finished, and in those that the
  // program completed before.
  void end(std::optional<int64_t> invocations, int64_t completed);

 private:
  void append(const std::string& line);
  int descriptor_;
};

// A writer's report.
struct Report {
  std::string output, spool;
  bool has_ended = false;
  std::optional<int64_t> invocations;
  int64_t completed = 0;  // invocations in earlier captures, which the program may have moved
};

// msda-record's side.
class Session {
 public:
  // Makes the folder, in TMPDIR, and removes folders that killed runs of the same user left there.
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  const std::string& folder() const { return folder_; }  // empty if it could not be made

  // Waits until each writer has ended. Returns their reports, by their captures' names. A writer that never reported
  // has an empty name; its process has printed why, or where its spool is.
  std::map<std::string, Report> wait() const;

 private:
  std::string folder_;
  int lock_ = -1;  // on the folder, held as long as this process lives
};

}  // namespace msda::record
