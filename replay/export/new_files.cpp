#include "replay/export/new_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "replay/base/errors.h"
#include "replay/base/same_file.h"

namespace msda::replay {
namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw BadInput(fmt::format("{}: cannot write it: {}{}", path, std::strerror(error),
                             error == EEXIST ? " (--force replaces it; or give another name)" : ""));
}

// Returns 0 or an errno.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

mode_t mode_of_new_files() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

// Never replaces a file. Returns 0 or an errno.
int rename_without_replacing(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // The file system lacks that.
  if (::link(from.c_str(), to.c_str()) != 0) return errno;
  ::unlink(from.c_str());
  return 0;
}

}  // namespace

NewFiles::~NewFiles() {
  for (const File& file : files_) ::unlink(file.temporary.c_str());
  for (const std::string& name : scratch_) ::unlink(name.c_str());
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
  std::string temporary = path + ".new-XXXXXX";
  const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) fail(path, errno);
  ::close(descriptor);
  return temporary;
}

std::string NewFiles::create(const std::string& path) {
  check(path);
  return files_.emplace_back(File{path, temporary_beside(path)}).temporary;
}

std::string NewFiles::scratch(const std::string& path) { return scratch_.emplace_back(temporary_beside(path)); }

void NewFiles::write(const std::string& path, std::string_view bytes) {
  const std::string temporary = create(path);
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  int error = descriptor < 0 ? errno : write_all(descriptor, bytes);
  if (descriptor >= 0 && ::close(descriptor) != 0 && error == 0) error = errno;
  if (error != 0) fail(path, error);
}

void NewFiles::publish() {
  for (; !files_.empty(); files_.erase(files_.begin())) {
    const File& file = files_.front();
    check(file.path);
    if (chmod(file.temporary.c_str(), mode_of_new_files()) != 0) fail(file.path, errno);
    const int error = !replace_ ? rename_without_replacing(file.temporary, file.path)
                      : rename(file.temporary.c_str(), file.path.c_str()) == 0 ? 0
                                                                               : errno;
    if (error != 0) fail(file.path, error);
  }
}

}  // namespace msda::replay
