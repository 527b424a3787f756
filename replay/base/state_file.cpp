#include "replay/base/state_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <stdexcept>

#include "recorder/capture/digest.h"

namespace msda::replay {
namespace {

// Reads regular files only: a FIFO or a device would hold this up, or have no end.
std::optional<std::string> regular_file(const std::string& path, int flags) {
  constexpr off_t kMostBytes = off_t{256} << 20;
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 && errno == ENOENT) return std::nullopt;
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | flags);
  std::string text;
  ssize_t got = -1;
  if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= kMostBytes) {
    text.resize(static_cast<size_t>(status.st_size));
    got = ::read(fd, text.data(), text.size());
  }
  if (fd >= 0) ::close(fd);
  if (got != static_cast<ssize_t>(text.size())) throw std::invalid_argument("no file");
  return text;
}

std::optional<Json> read_json(const std::string& path, int flags) {
  const auto text = regular_file(path, flags);
  if (!text) return std::nullopt;
  // Deeper JSON than any that is kept is none; copying or writing it would take a call of a function for each level.
  constexpr int kMostDepth = 16;
  return Json::parse(*text, [](int depth, Json::parse_event_t, Json&) {
    if (depth > kMostDepth) throw std::invalid_argument("too deep");
    return true;
  });
}

}  // namespace

std::optional<Json> read_state(const std::string& path) { return read_json(path, O_NOFOLLOW); }

std::optional<Json> read_kept_json(const std::string& path) { return read_json(path, 0); }

int64_t whole_number(const Json& number, int64_t least, int64_t most) {
  if (!number.is_number_integer()) throw std::invalid_argument("no integer");
  const bool huge = number.is_number_unsigned() && number.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const auto value = huge ? int64_t{-1} : number.get<int64_t>();
  if (value < least || value > most) throw std::invalid_argument("out of bounds");
  return value;
}

std::string digest_of(const Json& json) {
  const std::string text = line_of(json);
  return capture::digest(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace msda::replay
