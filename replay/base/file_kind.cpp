#include "replay/base/file_kind.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "recorder/capture/output_file.h"

namespace msda::replay {
namespace {

// The first member of what each command prints, and of the states that stress and minimize keep.
constexpr std::string_view kFirstMembers[] = {"capture",    "captures", "a",     "version",
                                              "simulation", "subject",  "words", "schema"};

bool begins_as_json(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of("[{ \n"), text.size()));
  return text.starts_with('"') && std::ranges::any_of(kFirstMembers, [&](std::string_view name) {
           return text.substr(1).starts_with(name) && text.substr(1 + name.size()).starts_with("\":");
         });
}

// The policy of a page names what may run in it by the digests of its style and script, which differ between versions.
constexpr std::string_view kPageBegin =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta "
    "http-equiv=\"Content-Security-Policy\" "
    "content=\"default-src 'none'; style-src 'sha256-";

struct Ends {
  std::string begin, end;
};

bool fits(const Ends& file, FileKind kind) {
  const bool has_trailer = file.end.ends_with(kTrailer);
  switch (kind) {
    case FileKind::kCapture:
      return file.begin.starts_with(capture::kHdf5Signature);
    case FileKind::kJson:
      return begins_as_json(file.begin);
    case FileKind::kPage:
      return file.begin.starts_with(kPageBegin);
    case FileKind::kSource:
      return file.begin.find(" Reproducer by msda-replay ") < 32;
    case FileKind::kArchive:
      return file.begin.starts_with("PK\3\4") && has_trailer;
    case FileKind::kTensors:
      return has_trailer;
    case FileKind::kEvents:
      return file.begin.find("brain.Event:2") < 64;
    case FileKind::kJUnit:
      return file.begin.find("<testsuites name=\"msda-replay\">") < 64;
    case FileKind::kSarif:
      return file.begin.find("\"name\": \"msda-replay\"") < 256;
  }
  return false;
}

}  // namespace

bool is_of_kind(const std::string& path, FileKind kind) {
  // A FIFO or a device would notice that it is opened.
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  if (status.st_size == 0) return true;
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  std::array<char, 256> bytes{};
  const auto read_at = [&](off_t at) {
    const ssize_t count = ::pread(fd, bytes.data(), bytes.size(), at);
    return std::string(bytes.data(), count < 0 ? 0 : static_cast<size_t>(count));
  };
  Ends ends{read_at(0), read_at(std::max<off_t>(0, status.st_size - static_cast<off_t>(bytes.size())))};
  ::close(fd);
  return fits(ends, kind);
}

std::string describe(FileKind kind) {
  constexpr const char* kNames[] = {"capture",         "JSON",       "page",        "reproducer", "archive",
                                    "file of tensors", "event file", "JUnit's XML", "SARIF"};
  return std::string(kNames[static_cast<size_t>(kind)]) + " of msda-replay";
}

}  // namespace msda::replay
