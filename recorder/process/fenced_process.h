// A process in which code may crash, hang and write anywhere: libhdf5 on a damaged file, or a library of a user's.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "recorder/process/channel.h"

namespace msda::process {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;  // sanitizers are slow, and take more memory and address space
#else
inline constexpr bool kSanitized = false;
#endif

// Limit this process. They are soft limits, because what it does next may need more. A process that takes more
// computing time, from now on, gets SIGXCPU.
void set_limit(decltype(RLIMIT_AS) resource, rlim_t value);
void limit_computing(int64_t seconds);
// Returns how much address space this process takes, in bytes: what RLIMIT_AS limits.
int64_t address_space();

// Why a process does not answer.
struct Failure {
  enum class How {
    kError,  // what it was asked for threw an exception; the process goes on, and has ended in the other cases
    kNotStarted,
    kLate,     // it did not answer in time
    kInvalid,  // it sent what is no answer
    kSignal,
    kExit
  } how;
  std::string text = {};  // of the exception, the system, or the signal
  int number = 0;         // the signal, or the exit status
};

class FencedProcess {
 public:
  static constexpr int kSocket = 3;

  enum class Errors { kHidden, kShown };  // what the process prints to standard error

  // Forks a process in which serve() runs. It leads a process group, keeps nothing that this one has open but the
  // socket, and ends with this thread, and with it all that it has started. Throws std::system_error.
  explicit FencedProcess(const std::function<void(Channel&)>& serve, Errors errors = Errors::kHidden);
  FencedProcess(const FencedProcess&) = delete;
  FencedProcess& operator=(const FencedProcess&) = delete;
  ~FencedProcess();

  Channel& channel() { return *channel_; }
  // Call it if the channel has failed: ends the process, and returns why.
  Failure end();

 private:
  int wait(bool may_run_on);

  std::optional<Channel> channel_;
  pid_t child_ = -1;
  int status_ = 0;  // as of waitpid, once it has ended
};

// In such a process: becomes another program, which has the socket as kSocket. Returns if it cannot be started.
void become(const std::vector<std::string>& command);
// In such a process: ends it, and all that it has started.
[[noreturn]] void end_process(int = 0);

}  // namespace msda::process
