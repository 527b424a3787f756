// How msda-record hears of captures. It makes a folder; each process that records makes a file in it and locks it; that
// process' writer gets the file, says in it what it writes, and in the end what it has written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace msda::record {

// The writer's side.
class SessionFile {
 public:
  // Of an open file; -1 for none.
  explicit SessionFile(int descriptor) : descriptor_(descriptor) {}
  void begin(const std::string& output, const std::string& spool);
  // The number of invocations in the capture; none if it could not be finished.
  void end(std::optional<int64_t> invocations);

 private:
  void append(const std::string& line);
  int descriptor_;
};

// What a writer has said.
struct Report {
  std::string output, spool;
  bool has_ended = false;
  std::optional<int64_t> invocations;
};

// msda-record's side.
class Session {
 public:
  // Makes the folder, in TMPDIR, and removes those that killed runs of the same user left there.
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  const std::string& folder() const { return folder_; }  // empty if it could not be made

  // Waits until each writer has ended; what they said, by their captures' names. One that never said anything has an
  // empty name: its process has said why, or where its spool is.
  std::map<std::string, Report> wait() const;

 private:
  std::string folder_;
  int lock_ = -1;  // of the folder: held for as long as this process lives
};

}  // namespace msda::record
