// Starts the writer, the process that turns a spool into a capture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "recorder/spool/news.h"
#include "recorder/spool/owned_descriptor.h"

namespace msda::record {

struct WriterSettings {
  std::string program, spool, output;
  bool force = false;
  int64_t keep_last = 0;
  std::string stages;
  int session_lock = -1, shared_memory = -1;  // descriptors that stay open in the writer, or -1
};

class WriterProcess {
 public:
  // Starts a grandchild in a session of its own: the program sees neither a child nor a SIGCHLD, and no signal to the
  // program's group reaches the writer. Returns 0 or an errno.
  int start(const WriterSettings& settings) noexcept;

  // Notifies the writer. The end of this process notifies it, too.
  enum class Answer {
    kThere,
    kGone,        // the writer has ended
    kUnreachable  // the program closed the recorder's socket; the writer polls the spool
  };
  Answer notify() noexcept;

  // Waits until the writer has completed the capture that ends with the cut of this number. Returns nothing if the
  // writer has ended, cannot be reached, or takes longer than a minute.
  std::optional<spool::CutDone> wait_for_cut(uint64_t number) noexcept;

  // Returns whether the program has closed the recorder's socket.
  bool is_unreachable() const noexcept { return socket_.was_opened() && socket_.get() < 0; }

  // Called in a forked child: the writer is the parent's.
  void close_in_child() noexcept { socket_.close(); }

 private:
  spool::OwnedDescriptor socket_;
};

}  // namespace msda::record
