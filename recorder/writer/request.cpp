#include "recorder/writer/request.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <stdexcept>

#include "recorder/adapters/name_pattern.h"
#include "recorder/adapters/user.h"
#include "recorder/capture/output_file.h"
#include "recorder/spool/output.h"
#include "recorder/text/secrets.h"
#include "recorder/writer/sanitizers.h"

namespace msda::record {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error(why); }

void check_keep(const std::string& keep) {
  if (keep == "all") return;
  constexpr std::string_view kLast = "last:";
  int64_t count = 0;
  const char* end = keep.data() + keep.size();
  const bool is_last = keep.starts_with(kLast);
  const auto read = is_last ? std::from_chars(keep.data() + kLast.size(), end, count) : std::from_chars_result{};
  if (!is_last || read.ec != std::errc() || read.ptr != end || count < 1) {
    refuse("--keep " + keep + ": give all, or last:K with a whole number K from 1 on");
  }
}

void check_kernel(const std::string& kernel) {
  try {
    adapters::NamePattern{kernel};
  } catch (const std::invalid_argument& e) {
    refuse(fmt::format("--kernel {}: not a valid regular expression (ECMAScript, without back references): {}", kernel,
                       e.what()));
  }
}

// Returns the file name for the pattern, if it does not depend on the process.
std::optional<std::string> name_of(const std::string& pattern) {
  std::string name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'p' || next == 'r') return std::nullopt;
    if (next == '%') ++i;
    name += pattern[i];
  }
  return name;
}

bool exists(const std::string& path, struct stat& status) { return lstat(path.c_str(), &status) == 0; }

// Returns the folder of the output, unless its name depends on the process.
std::optional<fs::path> folder_of(const std::string& pattern) {
  const size_t slash = pattern.rfind('/');
  if (slash == pattern.npos) return ".";
  const auto folder = name_of(pattern.substr(0, slash + 1));
  return folder ? std::optional<fs::path>(*folder) : std::nullopt;
}

// Checks with room for what the recorder adds to the name, while it records or if the name is taken.
void check_length(const std::string& pattern, const fs::path& folder, bool replace) {
  const std::string name = fs::path(pattern).filename().string();
  size_t process = 0;  // places of %p
  for (size_t at = 0; (at = name.find("%p", at)) != name.npos; ++at) ++process;
  const std::string number = std::to_string(getpid());
  struct stat status {};
  const auto taken = name_of(pattern);
  const bool is_other = taken && !replace && exists(*taken, status);
  const std::string added = is_other ? "." + number + ".spool" : replace ? ".new-XXXXXX" : ".spool";
  const size_t bytes = name.size() + process * (number.size() - 2) + added.size();
  const long most = pathconf(folder.c_str(), _PC_NAME_MAX);
  if (most > 0 && bytes > static_cast<size_t>(most)) {
    refuse(
        fmt::format("{}: too long a name for a file: with {}, which the recorder adds, it has {} bytes, and {} are "
                    "the most; give a shorter one with -o",
                    pattern, added, bytes, most));
  }
}

void check_output(const std::string& pattern, bool replace) {
  if (const auto folder = folder_of(pattern)) {
    if (!fs::is_directory(*folder)) {
      refuse(
          fmt::format("{}: there is no folder {}; make it, or name another file with -o", pattern, folder->string()));
    }
    if (access(folder->c_str(), W_OK | X_OK) != 0) {
      refuse(fmt::format("{}: cannot write into {}: {}; name another file with -o", pattern, folder->string(),
                         std::strerror(errno)));
    }
    check_length(pattern, *folder, replace);
  }
  const auto name = name_of(pattern);
  struct stat status {};
  if (name && (name->empty() || name->ends_with('/'))) refuse(pattern + ": is a folder; name a file in it with -o");
  if (!name || !exists(*name, status)) return;
  if (S_ISREG(status.st_mode) && (!replace || capture::may_be_capture(*name))) return;
  refuse(fmt::format("{}: is {}; name another file with -o", *name,
                     S_ISDIR(status.st_mode)   ? "a folder"
                     : S_ISLNK(status.st_mode) ? "a symbolic link, which is not followed"
                     : S_ISREG(status.st_mode) ? "no capture, and --force replaces only those"
                                               : "no regular file"));
}

std::string format_bytes(uint64_t bytes) {
  constexpr double kMebi = 1 << 20, kGibi = 1 << 30;
  const auto number = static_cast<double>(bytes);
  return number >= kGibi ? fmt::format("{:.1f} GiB", number / kGibi) : fmt::format("{:.1f} MiB", number / kMebi);
}

}  // namespace

void settle(Options& options) {
  if (options.command.empty()) refuse("no program to run: msda-record [OPTIONS] -- COMMAND");
  if (options.trail && options.survey) {
    refuse("--trail with --survey: a survey launches again what a trail counts; record one, and then the other");
  }
  if (options.trail && options.digest_only) {
    refuse("--trail with --digest-only: a trail holds digests of every launch already; leave --digest-only out");
  }
  check_keep(options.keep);
  check_kernel(options.kernel);
  for (std::string& path : options.adapters) {
    adapters::read_user_adapters(path);
    path = fs::absolute(path).string();
  }
  for (const std::string& variable : options.variables) {
    if (variable.empty() || variable.find_first_of(":=") != variable.npos) {
      refuse("--env " + variable + ": give only the name of a variable");
    }
    if (text::names_a_secret(variable)) {
      refuse("--env " + variable +
             ": its name suggests a secret, and secrets are never recorded; use a variable of another name");
    }
  }
  check_output(options.output, options.force);
  if (options.max_bytes > std::numeric_limits<int64_t>::max())
    refuse("--max-bytes: larger than any disk; give a smaller size");
  const std::string why_not = why_not_recordable(options.command[0]);
  if (!why_not.empty()) refuse(why_not);
}

std::string fallback_folder(const Options& options) {
  const auto folder = folder_of(options.output);
  return folder ? folder->string() : ".";
}

std::string announce(const Options& options) {
  const auto folder = folder_of(options.output);
  if (const auto limit = options.max_bytes == 0 && folder ? spool::default_limit(*folder) : std::nullopt) {
    say(fmt::format("records at most {}, half of what is free on the disk of {}; --max-bytes sets another limit",
                    format_bytes(*limit),
                    name_of(options.output).value_or((*folder == "." ? fs::current_path() : *folder).string())));
  }
  const auto name = name_of(options.output);
  struct stat status {};
  if (!name || options.force || !exists(*name, status)) return "";
  const std::string numbered = spool::output_name(*name, getpid(), 1);
  say(fmt::format(
      "{} exists and is kept (--force replaces it); this program's calls are recorded into another file; next: "
      "msda-replay run {}",
      *name, numbered));
  return fs::absolute(numbered).string();
}

}  // namespace msda::record
