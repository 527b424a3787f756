#include "replay/base/new_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "recorder/capture/capture.h"
#include "replay/base/errors.h"
#include "replay/base/same_file.h"

namespace msda::replay {
namespace {

int rename_file(const std::string& from, const std::string& to) {
  return rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

int link_file(const std::string& from, const std::string& to) {
  return ::link(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

// Returns whether the error is that of a file system that has no hard links, as FUSE may be.
bool lacks_links(int error) { return error == EPERM || error == EOPNOTSUPP || error == EINVAL || error == ENOSYS; }

// Never replaces a file, but for one that appears at that moment on a file system without hard links. Returns 0 or an
// errno.
int rename_without_replacing(const std::string& from, const std::string& to) {
  const int error = link_file(from, to);
  if (error == 0) ::unlink(from.c_str());
  if (!lacks_links(error)) return error;
  struct stat there {};
  return lstat(to.c_str(), &there) == 0 ? EEXIST : rename_file(from, to);
}

// Makes a second name for the file or, if links are unavailable, a copy. Returns an errno.
int set_aside(const std::string& path, const std::string& aside) {
  const int error = link_file(path, aside);
  if (!lacks_links(error)) return error;
  std::error_code failed;
  std::filesystem::copy_file(path, aside, failed);
  return failed.value();
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

void with_shown_name(const std::string& temporary, const std::string& shown, const std::function<void()>& write) try {
  write();
} catch (const capture::Error& error) {
  const std::string_view why = error.what();
  if (!why.starts_with(temporary)) throw;  // of another capture, which is read
  throw BadInput(fmt::format("{}{}", shown, why.substr(temporary.size())));
}

std::string NewFiles::shown(const std::string& path) const { return flag_ + (flag_.empty() ? "" : " ") + path; }

void NewFiles::fail(const std::string& path, int error) const {
  throw BadInput(fmt::format("{}: cannot write it: {}{}", shown(path), std::strerror(error),
                             error == EEXIST && !replace_ ? " (--force replaces it; or give another name)" : ""));
}

void NewFiles::check(const std::string& path, FileKind kind) const {
  refuse_to_replace(input_, path);
  struct stat there {};
  if (lstat(path.c_str(), &there) != 0) return;
  if (!S_ISREG(there.st_mode)) {
    const char* what = S_ISDIR(there.st_mode)   ? "a folder"
                       : S_ISLNK(there.st_mode) ? "a symbolic link"
                                                : "no regular file";
    throw BadInput(fmt::format("{}: cannot replace it: it is {}; give another name", shown(path), what));
  }
  if (!replace_) throw BadInput(fmt::format("{}: exists; give --force to replace it", shown(path)));
  if (!is_of_kind(path, kind)) {
    throw BadInput(fmt::format("{}: cannot replace it: it is no {}; give another name, or remove it", shown(path),
                               describe(kind)));
  }
}

std::string NewFiles::temporary_beside(const std::string& path) {
  try {
    // Beside `path`, so that files can be renamed to that.
    if (!folder_) folder_ = std::make_unique<TemporaryFolder>(path.substr(0, path.rfind('/') + 1) + ".msda-new-");
  } catch (const std::system_error& error) {
    fail(path, error.code().value());
  }
  return folder_->file(std::to_string(++temporaries_));
}

std::string NewFiles::create(const std::string& path, FileKind kind) {
  check(path, kind);
  return files_.emplace_back(File{path, temporary_beside(path), kind}).temporary;
}

std::string NewFiles::scratch(const std::string& path) { return temporary_beside(path); }

void NewFiles::write(const std::string& path, FileKind kind, std::string_view bytes) {
  const std::string temporary = create(path, kind);
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  int error = descriptor < 0 ? errno : write_all(descriptor, bytes);
  if (descriptor >= 0 && ::close(descriptor) != 0 && error == 0) error = errno;
  if (error != 0) fail(path, error);
}

void NewFiles::put(File& file) {
  check(file.path, file.kind);
  struct stat there {};
  int error = 0;
  if (!replace_ || stat(file.path.c_str(), &there) != 0) {
    error = rename_without_replacing(file.temporary, file.path);
  } else if (chmod(file.temporary.c_str(), there.st_mode & 07777) != 0) {
    error = errno;
  } else {
    file.aside = temporary_beside(file.path);
    error = set_aside(file.path, file.aside);
    if (error == 0) error = rename_file(file.temporary, file.path);
  }
  if (error != 0) fail(file.path, error);
}

// The first `count` files. Throws BadInput if a file that was replaced cannot be restored, and keeps it.
void NewFiles::take_all_back(size_t count) {
  std::string lost;
  while (count-- > 0) {
    const File& file = files_[count];
    const bool replaced = !file.aside.empty();
    const int error = rename_file(replaced ? file.aside : file.path, replaced ? file.path : file.temporary);
    if (replaced && error != 0) lost += fmt::format("{}{} is now {}", lost.empty() ? "" : "; ", file.path, file.aside);
  }
  if (lost.empty()) return;
  static_cast<void>(folder_.release());  // so that it stays
  throw BadInput(fmt::format("cannot restore what was replaced: {}", lost));
}

void NewFiles::publish() {
  size_t done = 0;
  try {
    for (; done < files_.size(); ++done) put(files_[done]);
  } catch (...) {
    take_all_back(done);
    throw;
  }
  files_.clear();
}

}  // namespace msda::replay
