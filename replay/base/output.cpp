#include "replay/base/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "recorder/writer/version.h"
#include "replay/base/errors.h"
#include "replay/base/new_files.h"

namespace msda::replay {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  throw BadInput(fmt::format("{} {}: cannot write it: {}", what, path, std::strerror(error)));
}

// A descriptor that is open on the file keeps its own position, at which other output goes on.
bool is_standard_output(const std::string& path) {
  struct stat named {
  }, open{};
  return stat(path.c_str(), &named) == 0 && fstat(STDOUT_FILENO, &open) == 0 && named.st_dev == open.st_dev &&
         named.st_ino == open.st_ino;
}

void write_in_place(const std::string& what, const std::string& path, const std::string& text) {
  if (is_standard_output(path)) return print_raw(text);
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  int error = fd < 0 ? errno : write_all(fd, text);
  if (fd >= 0 && ::close(fd) != 0 && error == 0) error = errno;
  if (error != 0) fail(what, path, error);
}

// Returns whether what is written goes where the name leads: to a pipe, a device, or what a descriptor has open, as
// /dev/stdout does. No other link is followed.
bool is_no_file(const std::string& path) {
  struct stat target {
  }, there{};
  if (stat(path.c_str(), &target) == 0 && !S_ISREG(target.st_mode)) return true;
  const bool is_link = lstat(path.c_str(), &there) == 0 && S_ISLNK(there.st_mode);
  return is_link && (path.starts_with("/dev/") || path.starts_with("/proc/"));
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

void OutputFile::check() const {
  if (!is_no_file(path)) NewFiles("", replace, what).check(path, kind);
}

void OutputFile::write(const std::string& text) const {
  if (is_no_file(path)) return write_in_place(what, path, text);
  NewFiles files("", replace, what);
  files.write(path, kind, text);
  files.publish();
}

Json with_schema(const char* name, const Json& result) {
  Json marked;
  if (result.is_array()) {
    for (const Json& element : result) marked.push_back(with_schema(name, element));
    return marked;
  }
  marked = {{"schema", fmt::format("{}.schema.json", name)}, {"version", record::version()}};
  marked.update(result);
  return marked;
}

void write_json(const std::string& path, const char* schema, const Json& result) {
  const std::string text = text_of(with_schema(schema, result));
  if (path == "-") return print_raw(text);
  OutputFile{"--json", path}.write(text);
}

void print_result(const Lines& text, const std::string& path, const char* schema, const Json& result) {
  if (path != "-") print(text);
  if (!path.empty()) write_json(path, schema, result);
}

}  // namespace msda::replay
