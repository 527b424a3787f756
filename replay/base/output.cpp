#include "replay/base/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "replay/base/errors.h"
#include "replay/base/new_files.h"

namespace msda::replay {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  throw BadInput(fmt::format("{} {}: cannot write it: {}", what, path, std::strerror(error)));
}

void write_in_place(const std::string& what, const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  int error = fd < 0 ? errno : write_all(fd, text);
  if (fd >= 0 && ::close(fd) != 0 && error == 0) error = errno;
  if (error != 0) fail(what, path, error);
}

// A symbolic link is kept: its target, which need not exist, is replaced.
std::string target_of(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 40;  // as Linux follows
  std::error_code error;
  fs::path name = path;
  for (int i = 0; i < kMostLinks && fs::is_symlink(fs::symlink_status(name, error)); ++i) {
    name = name.parent_path() / fs::read_symlink(name, error);
    if (error) return path;
  }
  return name.string();
}

// Whether it begins as every HDF5 file does.
bool is_hdf5(const std::string& path) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  char begin[kSignature.size()];
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t count = ::read(fd, begin, sizeof begin);
  ::close(fd);
  return count == sizeof begin && std::string_view(begin, sizeof begin) == kSignature;
}

}  // namespace

void keep_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // Opens the lowest free number, which is this one. Opened for reading, it fails on writing.
    if (::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

void print_raw(std::string_view text) {
  if (const int error = write_all(STDOUT_FILENO, text); error != 0) {
    throw BadInput(fmt::format("cannot write to standard output: {}", std::strerror(error)));
  }
}

void print(const Lines& lines) { print_raw(lines.text()); }

void print_error(std::string_view message) {
  write_all(STDERR_FILENO, "msda-replay: " + text::escaped(message) + "\n");  // a failure cannot be reported
}

void write_file(const std::string& what, const std::string& path, const std::string& text) {
  struct stat file {};
  const bool exists = stat(path.c_str(), &file) == 0;
  if (exists && !S_ISREG(file.st_mode)) return write_in_place(what, path, text);
  if (exists && is_hdf5(path)) {
    throw BadInput(fmt::format("{} {}: is an HDF5 file, and not replaced; give another name", what, path));
  }
  NewFiles files("", true, what);
  files.write(target_of(path), text);
  files.publish();
}

void write_json(const std::string& path, const Json& json) {
  const std::string text = text_of(json);
  if (path == "-") return print_raw(text);
  write_file("--json", path, text);
}

}  // namespace msda::replay
