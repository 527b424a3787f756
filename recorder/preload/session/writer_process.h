// Starts the process that makes a capture file of a spool.
#pragma once

#include <string>

namespace msda::record {

struct WriterProcess {
  int doorbell =
      -1;  // written to when there is news; its closing, however this process ends, tells the writer to finish
};

// A grandchild in a session of its own: the host never sees a child of ours, no SIGCHLD, and no signal that is meant
// for the host's group reaches the writer. `session_lock` (or -1) stays open in it. Returns an errno, 0 if all is well.
int start_writer(const std::string& program, const std::string& spool, const std::string& output, bool force,
                 long keep_last, const std::string& stages, int session_lock, int shared_memory,
                 WriterProcess& writer) noexcept;
// False if the writer is not there any more.
bool knock(const WriterProcess& writer) noexcept;

// The same file under a number that no program takes for its standard streams, should it have closed those.
int above_standard(int descriptor) noexcept;

}  // namespace msda::record
