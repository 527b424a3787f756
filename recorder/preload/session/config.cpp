#include "recorder/preload/session/config.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <system_error>

#include "recorder/adapters/made_once.h"
#include "recorder/preload/session/memory_limit.h"
#include "recorder/preload/session/warn.h"
#include "recorder/spool/output.h"

namespace msda::record {
namespace {

std::string environment(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? value : "";
}

// Returns the number in a variable; 0, with a warning, if it is not a number.
uint64_t number(const char* name) {
  const std::string text = environment(name);
  if (text.empty()) return 0;
  uint64_t value = 0;
  const auto [parsed, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && parsed == text.data() + text.size()) return value;
  warn(std::string(name) + "=" + text + " is not a number, and is ignored");
  return 0;
}

// Returns 0 for "all" and, with a warning, for any text but last:K with K >= 1.
int64_t calls_to_keep() {
  const std::string text = environment("MSDA_RECORD_KEEP");
  if (text.empty() || text == "all") return 0;
  int64_t calls = 0;
  const char* end = text.data() + text.size();
  if (text.starts_with("last:")) {
    const auto [parsed, error] = std::from_chars(text.data() + 5, end, calls);
    if (error == std::errc() && parsed == end && calls > 0) return calls;
  }
  warn("MSDA_RECORD_KEEP=" + text + " is neither all nor last:K, and is ignored");
  return 0;
}

// Returns 1 GiB, or an eighth of the memory that the program may use if that is less.
uint64_t default_ring_bytes() { return std::min<uint64_t>(memory_limit() / 8, 1 << 30); }

// Returns msda-record, found relative to this library, in a build folder and after installation.
std::string writer_program() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&config), &info) == 0 || info.dli_fname == nullptr) return "";
  char* resolved = realpath(info.dli_fname, nullptr);
  std::string path = resolved != nullptr ? resolved : "";
  std::free(resolved);
  for (int up = 0; up < 4; ++up) {
    path = path.substr(0, path.rfind('/'));
    const std::string program = path + "/bin/msda-record";
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

// Returns an absolute path, because the program may change its working folder.
std::string absolute(const std::string& path) {
  char* folder = path.empty() || path[0] != '/' ? getcwd(nullptr, 0) : nullptr;
  const std::string result = folder != nullptr ? std::string(folder) + "/" + path : path;
  std::free(folder);
  return result;
}

// Returns the parts of a list separated by colons, as in PATH.
std::vector<std::string> list(const char* name) {
  std::vector<std::string> parts;
  std::string rest = environment(name);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) parts.push_back(rest.substr(0, end));
    rest = rest.substr(std::min(end + 1, rest.size()));
  }
  return parts;
}

Config read_config() {
  Config config;
  config.output = environment("MSDA_RECORD_OUTPUT");
  if (config.output.empty()) config.output = "msda-capture.%p.h5";
  config.output = spool::absolute_pattern(config.output);
  config.announced_output = environment("MSDA_RECORD_ANNOUNCED");
  config.force = environment("MSDA_RECORD_FORCE") == "1";
  config.kernel = environment("MSDA_RECORD_KERNEL");
  for (const std::string& path : list("MSDA_RECORD_ADAPTERS")) config.adapters.push_back(absolute(path));
  config.variables = list("MSDA_RECORD_ENV");
  config.keep_last = calls_to_keep();
  config.stages = environment("MSDA_RECORD_STAGES");
  if (config.stages != "summary" && config.stages != "full") {
    if (!config.stages.empty() && config.stages != "none") {
      warn("MSDA_RECORD_STAGES=" + config.stages + " is not none, summary or full, and is ignored");
    }
    config.stages = "none";
  }
  const std::string hook = environment("MSDA_RECORD_HOOK");
  if (hook == "cupti") {
    config.hook = HookChoice::kCupti;
  } else if (hook == "driver") {
    config.hook = HookChoice::kDriver;
  } else if (!hook.empty() && hook != "auto") {
    warn("MSDA_RECORD_HOOK=" + hook + " is not auto, cupti or driver, and is ignored");
  }
  config.max_bytes = number("MSDA_RECORD_MAX_BYTES");
  config.ring_bytes = number("MSDA_RECORD_RING_BYTES");
  if (config.ring_bytes == 0) config.ring_bytes = default_ring_bytes();
  config.digest_only = environment("MSDA_RECORD_DIGEST_ONLY") == "1";
  config.survey = environment("MSDA_RECORD_SURVEY") == "1";
  config.trail = !config.survey && environment("MSDA_RECORD_TRAIL") == "1";
  if (const uint64_t runs = number("MSDA_RECORD_SURVEY_RUNS"))
    config.survey_runs = static_cast<int>(std::min<uint64_t>(runs, 100));
  if (const uint64_t seconds = number("MSDA_RECORD_SURVEY_PATIENCE"))
    config.survey_patience = static_cast<double>(std::min<uint64_t>(seconds, 1'000'000));
  config.survey_from = number("MSDA_RECORD_SURVEY_FROM");
  config.survey_to = number("MSDA_RECORD_SURVEY_TO");
  config.survey_seconds = number("MSDA_RECORD_SURVEY_SECONDS");
  config.survey_label = environment("MSDA_RECORD_SURVEY_LABEL");
  config.survey_neighbour = environment("MSDA_RECORD_SURVEY_NEIGHBOUR") != "0";
  config.survey_poison = config.survey && environment("MSDA_RECORD_SURVEY_POISON") == "1";
  const uint64_t percent = number("MSDA_RECORD_SURVEY_MEMORY");
  config.survey_share = 0.01 * static_cast<double>(percent == 0 ? 50 : std::min<uint64_t>(percent, 100));
  config.writer = environment("MSDA_RECORD_WRITER");
  if (config.writer.empty()) config.writer = writer_program();
  config.session = environment("MSDA_RECORD_SESSION");
  return config;
}

std::string rank() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "PYTEST_XDIST_WORKER"}) {
    const std::string value = environment(name);
    if (!value.empty() && value.find('/') == std::string::npos) return value;
  }
  return "0";
}

}  // namespace

[[gnu::hot]] const Config& config() {
  static constinit MadeOnce<const Config> config;
  return config.get([] { return std::make_unique<const Config>(read_config()); });
}

std::string output_of(const std::string& pattern) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : 0;
    if (pattern[i] == '%' && (next == 'p' || next == 'r' || next == '%')) {
      path += next == 'p' ? std::to_string(getpid()) : next == 'r' ? rank() : "%";
      ++i;
    } else {
      path += pattern[i];
    }
  }
  return path;
}

}  // namespace msda::record
