// Starts the process that makes a capture file of a spool.
#pragma once

#include <cstdint>
#include <string>

#include "recorder/spool/news.h"
#include "recorder/spool/owned_descriptor.h"

namespace msda::record {

struct WriterSettings {
  std::string program, spool, output;
  bool force = false;
  int64_t keep_last = 0;
  std::string stages;
  int session_lock = -1, shared_memory = -1;  // descriptors that stay open in it, or -1
};

class WriterProcess {
 public:
  // A grandchild in a session of its own: the host never sees a child of ours, no SIGCHLD, and no signal that is meant
  // for the host's group reaches the writer. Returns an errno, 0 if all is well.
  int start(const WriterSettings& settings) noexcept;

  // Tells the writer; the end of this process tells it, too.
  enum class Answer {
    kThere,
    kGone,        // the writer has ended
    kUnreachable  // the program closed the recorder's socket; the writer looks by itself from time to time
  };
  Answer notify(spool::News news) noexcept;

  // In a forked child: the writer is the parent's.
  void close_in_child() noexcept { socket_.close(); }

 private:
  spool::OwnedDescriptor socket_;
};

}  // namespace msda::record
