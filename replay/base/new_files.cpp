#include "replay/base/new_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "replay/base/errors.h"
#include "replay/base/same_file.h"

namespace msda::replay {
namespace {

bool is_unsupported(int error) { return error == EINVAL || error == ENOSYS; }

// Never replaces a file. Returns 0 or an errno.
int rename_without_replacing(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (!is_unsupported(errno)) return errno;
  // The file system lacks that.
  if (::link(from.c_str(), to.c_str()) != 0) return errno;
  ::unlink(from.c_str());
  return 0;
}

int swap_names(const std::string& one, const std::string& other) {
  return renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0 ? 0 : errno;
}

}  // namespace

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

void NewFiles::fail(const std::string& path, int error) const {
  throw BadInput(fmt::format("{}{}{}: cannot write it: {}{}", flag_, flag_.empty() ? "" : " ", path,
                             std::strerror(error),
                             error == EEXIST ? " (--force replaces it; or give another name)" : ""));
}

void NewFiles::check(const std::string& path) const {
  refuse_to_replace(input_, path);
  struct stat there {};
  if (lstat(path.c_str(), &there) != 0) return;
  if (!S_ISREG(there.st_mode)) {
    const char* what = S_ISDIR(there.st_mode)   ? "a folder"
                       : S_ISLNK(there.st_mode) ? "a symbolic link"
                                                : "no regular file";
    throw BadInput(fmt::format("{}: cannot replace it: it is {}; give another name", path, what));
  }
  if (!replace_) throw BadInput(fmt::format("{}: exists; give --force to replace it", path));
}

std::string NewFiles::temporary_beside(const std::string& path) {
  try {
    // Beside `path`, so that files can be renamed to that.
    if (!folder_) folder_.emplace(path.substr(0, path.rfind('/') + 1) + ".msda-new-");
  } catch (const std::system_error& error) {
    fail(path, error.code().value());
  }
  return folder_->file(std::to_string(++temporaries_));
}

std::string NewFiles::create(const std::string& path) {
  check(path);
  return files_.emplace_back(File{path, temporary_beside(path)}).temporary;
}

std::string NewFiles::scratch(const std::string& path) { return temporary_beside(path); }

void NewFiles::write(const std::string& path, std::string_view bytes) {
  const std::string temporary = create(path);
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  int error = descriptor < 0 ? errno : write_all(descriptor, bytes);
  if (descriptor >= 0 && ::close(descriptor) != 0 && error == 0) error = errno;
  if (error != 0) fail(path, error);
}

void NewFiles::put(File& file) const {
  check(file.path);
  struct stat there {};
  const bool exists = stat(file.path.c_str(), &there) == 0;
  int error = 0;
  if (!replace_ || !exists) {
    error = rename_without_replacing(file.temporary, file.path);
    file.state = File::kMoved;
  } else if (chmod(file.temporary.c_str(), there.st_mode & 07777) != 0) {
    error = errno;
  } else if (error = swap_names(file.temporary, file.path); error == 0) {
    file.state = File::kExchanged;
  } else if (is_unsupported(error)) {
    error = rename(file.temporary.c_str(), file.path.c_str()) == 0 ? 0 : errno;
    file.state = File::kReplaced;
  }
  if (error != 0) fail(file.path, error);
}

void NewFiles::take_back(const File& file) {
  if (file.state == File::kMoved) rename(file.path.c_str(), file.temporary.c_str());
  if (file.state == File::kExchanged) swap_names(file.path, file.temporary);
}

void NewFiles::publish() {
  size_t done = 0;
  try {
    for (; done < files_.size(); ++done) put(files_[done]);
  } catch (...) {
    while (done > 0) take_back(files_[--done]);
    throw;
  }
  files_.clear();
}

}  // namespace msda::replay
