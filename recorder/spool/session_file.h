// How msda-record learns of captures. It makes a folder; each process that records makes a file in it, locks it, and
// writes into it what it records into; that process' writer inherits the file, and adds the result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace msda::spool {

class SessionFile {
 public:
  // The lines: a keyword and its value. A line with kInvocations or kUnfinished is the last.
  static constexpr std::string_view kOutput = "output ", kSpool = "spool ", kInvocations = "invocations ",
                                    kCompleted = "completed ", kSurveyed = "surveyed ", kTrailed = "trailed ",
                                    kUnfinished = "unfinished";

  // Takes an open file; -1 for none.
  explicit SessionFile(int descriptor) : descriptor_(descriptor) {}
  // Makes, for the target, a file in the folder, and the folder if somebody has removed it. The file is locked as long
  // as it is open here or in the writer. Returns its descriptor, or -1.
  static int make(const std::string& folder);

  // Returns whether a process of this run has made this capture, or may have: nothing of its own replaces it.
  static bool has_capture(const std::string& folder, const std::string& output);

  void begin(const std::string& output, const std::string& spool);
  // Reports the number of invocations in the capture, nothing if it could not be finished, and in those that the
  // program completed before; of kernels in its survey; and of launches in its trail.
  void end(std::optional<int64_t> invocations, int64_t completed, int64_t surveyed = 0, int64_t trailed = 0);

 private:
  void append(const std::string& line);
  int descriptor_;
};

}  // namespace msda::spool
