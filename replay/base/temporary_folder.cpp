#include "replay/base/temporary_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>

namespace msda::replay {
namespace {

// The folders that exist now. A signal handler reads the list, so it has a fixed size and no locks.
std::array<std::atomic<const char*>, 8> folders;
static_assert(std::atomic<const char*>::is_always_lock_free);

// By system calls alone, which a signal's handler may make.
void remove_files(int folder) {
  alignas(dirent64) char entries[4096];
  // glibc 2.28 has no getdents64().
  for (long size; (size = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0;) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      unlinkat(folder, entry->d_name, 0);
      at += entry->d_reclen;
    }
  }
}

void remove_folder(const char* path) {
  // Another thread may be making a file meanwhile.
  for (int attempt = 0; attempt < 3; ++attempt) {
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder < 0) return;
    remove_files(folder);
    close(folder);
    if (rmdir(path) == 0) return;
  }
}

pid_t owner = 0;

// A child that inherited the handler leaves the folders to their owner.
void remove_all_and_end(int signal) {
  if (getpid() == owner) {
    for (const auto& folder : folders) {
      if (const char* path = folder.load()) remove_folder(path);
    }
  }
  raise(signal);  // whose action is the default one again
}

// A signal that is ignored, or asks running work to stop (stop_signals.h), stays so.
void handle_signals() {
  owner = getpid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    struct sigaction ours {};
    ours.sa_handler = remove_all_and_end;
    ours.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(signal, &ours, nullptr);
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder(const std::string& prefix) : path_(prefix + "XXXXXX") {
  handle_signals();
  if (mkdtemp(path_.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), path_ + ": cannot make it");
  }
  for (auto& folder : folders) {
    const char* none = nullptr;
    if (folder.compare_exchange_strong(none, path_.c_str())) return;
  }
  // There are never so many; further ones are removed all the same, but for a signal.
}

TemporaryFolder::~TemporaryFolder() {
  remove_folder(path_.c_str());
  for (auto& folder : folders) {
    const char* own = path_.c_str();
    if (folder.compare_exchange_strong(own, nullptr)) return;
  }
}

}  // namespace msda::replay
