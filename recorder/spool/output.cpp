#include "recorder/spool/output.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>

namespace msda::spool {

namespace {

// Inserts the text before the ending, if there is one.
std::string inserted(const std::string& name, const std::string& text) {
  const size_t dot = name.find_last_of("./");
  const size_t stem = dot != std::string::npos && name[dot] == '.' ? dot : name.size();
  return name.substr(0, stem) + "." + text + name.substr(stem);
}

}  // namespace

std::string output_name(const std::string& wanted, pid_t process, int attempt) {
  if (attempt == 0) return wanted;
  return inserted(wanted, std::to_string(process) + (attempt > 1 ? "." + std::to_string(attempt) : ""));
}

std::string next_name(const std::string& output, uint64_t number) { return inserted(output, std::to_string(number)); }

std::string absolute_pattern(const std::string& pattern) {
  char* folder = pattern.empty() || pattern[0] != '/' ? getcwd(nullptr, 0) : nullptr;
  if (folder == nullptr) return pattern;
  std::string path;
  for (const char* at = folder; *at != 0; ++at) path += *at == '%' ? "%%" : std::string(1, *at);
  std::free(folder);
  return path + "/" + pattern;
}

std::optional<uint64_t> free_bytes(const std::string& folder) {
  struct statvfs disk {};
  if (statvfs(folder.c_str(), &disk) != 0) return std::nullopt;
  return uint64_t{disk.f_bavail} * disk.f_frsize;
}

std::optional<uint64_t> default_limit(const std::string& folder) {
  const auto free = free_bytes(folder);
  return free ? std::optional(*free / 2) : std::nullopt;
}

}  // namespace msda::spool
