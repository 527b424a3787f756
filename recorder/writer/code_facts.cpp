#include "recorder/writer/code_facts.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <sstream>

#include "kernels/parallel.h"
#include "recorder/capture/child_program.h"
#include "recorder/device/cubin.h"

namespace msda::record {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  void reset(int number = -1) {
    if (number_ >= 0) close(number_);
    number_ = number;
  }

 private:
  int number_;
};

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(file, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
  return true;
}

// Runs a program and passes its output to `take`, line by line. False if it failed or exceeded the deadline.
template <class Take>
bool run(const std::vector<std::string>& command, Clock::time_point deadline, Take&& take) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  Descriptor output(ends[0]), input(ends[1]);
  // It must not inherit the session's lock and the target's memory.
  pid_t child = 0;
  if (capture::start({command[0], command, {{input.get(), STDOUT_FILENO}}, /*own_group=*/true}, child) != 0)
    return false;
  input.reset();
  std::string line;
  char buffer[65536];
  constexpr size_t kLongestLine = 65536;
  bool good = true;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd news{output.get(), POLLIN, 0};
    const int ready = left > 0 ? poll(&news, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t got = ready > 0 ? read(output.get(), buffer, sizeof buffer) : -1;
    if (got == 0) break;
    if (got < 0) {
      good = false;
      break;
    }
    for (const char c : std::string_view(buffer, static_cast<size_t>(got))) {
      if (c == '\n') {
        take(line);
        line.clear();
      } else if (line.size() < kLongestLine) {
        line += c;
      }
    }
  }
  if (!good) kill(-child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// A file that is removed at the end of the scope.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_((fs::temp_directory_path() / "msda-cubin-XXXXXX").string()), file_(mkostemp(path_.data(), O_CLOEXEC)) {}
  ~TemporaryFile() {
    if (file_.get() >= 0) unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  bool write(std::span<const std::byte> bytes) const { return file_.get() >= 0 && write_all(file_.get(), bytes); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor file_;
};

// nvdisasm reads a whole cubin before it prints one function, which takes a second for the cubins of large libraries.
// It therefore gets only the function's machine code.
CodeFactCounts count_in_code(const fs::path& disassembler, const CubinFunction& function, Clock::time_point deadline) {
  constexpr std::string_view kSm = "sm_";
  const auto code = code_of(function.cubin, function.function.name);
  const TemporaryFile file;
  if (code.empty() || !function.architecture.starts_with(kSm) || !file.write(code)) return {};
  InstructionCounter counter(function.function.name);
  counter.line(".text." + function.function.name + ":");  // missing in raw code
  const std::string architecture = "SM" + function.architecture.substr(kSm.size());
  const bool good = run({disassembler.string(), "-b", architecture, file.path()}, deadline,
                        [&](std::string_view line) { counter.line(line); });
  return good ? counter.counts() : CodeFactCounts();
}

CodeFactCounts count_in_cubin(const fs::path& disassembler, const CubinFunction& function, Clock::time_point deadline) {
  const TemporaryFile file;
  if (!file.write(function.cubin)) return {};
  std::vector<std::string> command{disassembler.string()};
  if (disassembler.filename() == "cuobjdump") {
    command.insert(command.end(), {"-sass", "-fun", function.function.name});
  } else if (const auto symbol = symbol_of(function.cubin, function.function.name)) {
    command.insert(command.end(), {"-c", "-fun", std::to_string(*symbol)});
  } else {
    command.emplace_back("-c");
  }
  command.push_back(file.path());
  InstructionCounter counter(function.function.name);
  const bool good = run(command, deadline, [&](std::string_view line) { counter.line(line); });
  return good ? counter.counts() : CodeFactCounts();
}

}  // namespace

void InstructionCounter::line(std::string_view text) {
  text = trimmed(text);
  // nvdisasm: ".text.NAME:" and at its end another section's header; cuobjdump: "Function : NAME".
  constexpr std::string_view kSection = ".section", kText = ".text.", kFunction = "Function : ";
  if (text.starts_with(kFunction)) {
    inside_ = text.substr(kFunction.size()) == function_;
  } else if (text.starts_with(kText) && text.ends_with(':')) {
    inside_ = text.substr(kText.size(), text.size() - kText.size() - 1) == function_;
  } else if (text.starts_with(kSection)) {
    inside_ = false;
  }
  if (!inside_) return;
  found_ = true;
  // "/*0090*/  @!P0 RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R2], R4 ;" and, in cuobjdump's output, the instruction's bits.
  constexpr size_t kFewest = 4, kMostDigits = 8;
  const size_t end = text.starts_with("/*") ? text.find("*/") : text.npos;
  if (end == text.npos || end < 2 + kFewest || end > 2 + kMostDigits ||
      text.substr(2, end - 2).find_first_not_of("0123456789abcdef") != text.npos) {
    return;
  }
  text = trimmed(text.substr(end + 2));
  if (text.starts_with('{')) text = trimmed(text.substr(1));  // the first of a pair that is issued together
  if (text.starts_with('@')) text = trimmed(text.substr(std::min(text.find(' '), text.size())));
  const std::string_view opcode = text.substr(0, text.find_first_of(". ;"));
  if (opcode.empty() || opcode.starts_with("/*")) return;
  ++instructions_;
  // Code ends in a branch to itself, padded with NOP.
  padding_ = opcode == "NOP" ? padding_ + 1 : opcode == "BRA" ? 1 : 0;
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, opcode) != names.end();
  };
  fused_ += is({"FFMA", "FFMA2", "DFMA"});
  // From sm_90 on: REDAS in a cluster's shared memory, UBLKRED of a block of memory, UTMAREDG of a tile of a tensor.
  const bool reduces = is({"RED", "REDG", "REDS", "REDAS", "UBLKRED", "UTMAREDG"});
  const bool takes_result = is({"ATOM", "ATOMG"}), is_shared = is({"ATOMS"});
  reductions_ += reduces;
  global_ += takes_result;
  shared_ += is_shared;
  if (reduces || takes_result || is_shared) {
    const std::string_view name = text.substr(0, text.find_first_of(" ;"));
    const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
    // Sums that no instruction makes, in shared memory for example, are loops of compare-and-swap. The type of a
    // tensor's elements is in its tensor map.
    float_ += has(".F16") || has(".F32") || has(".F64") || has(".BF16") || has(".CAS") ||
              (opcode == "UTMAREDG" && (has(".ADD") || has(".MIN") || has(".MAX")));
  }
}

CodeFactCounts InstructionCounter::counts() const {
  if (!found_) return {};
  return {{"instructions", instructions_ - padding_},
          {"fused_multiply_adds", fused_},
          {"reductions", reductions_},
          {"global_atomics", global_},
          {"shared_atomics", shared_},
          {"float_atomics", float_},
          {"atomics", reductions_ + global_ + shared_}};
}

fs::path find_disassembler(const std::vector<fs::path>& first) {
  std::vector<fs::path> folders = first;
  if (const char* path = getenv("PATH")) {
    std::istringstream stream(path);
    std::string folder;
    while (std::getline(stream, folder, ':')) {
      if (folder.starts_with('/')) folders.emplace_back(folder);  // tools in the working folder are not trusted
    }
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = getenv(variable)) folders.push_back(fs::path(home) / "bin");
  }
  folders.emplace_back("/usr/local/cuda/bin");
  for (const char* program : {"nvdisasm", "cuobjdump"}) {
    for (const fs::path& folder : folders) {
      if (access((folder / program).c_str(), X_OK) == 0) return folder / program;
    }
  }
  return {};
}

CodeFactCounts count_instructions(const fs::path& disassembler, const CubinFunction& function,
                                  std::chrono::milliseconds limit) {
  if (disassembler.empty() || function.cubin.empty()) return {};
  const auto deadline = Clock::now() + limit;
  if (disassembler.filename() == "nvdisasm") {
    CodeFactCounts counts = count_in_code(disassembler, function, deadline);
    if (!counts.empty()) return counts;
  }
  return count_in_cubin(disassembler, function, deadline);
}

InstructionCounts count_instructions(const fs::path& disassembler, const std::vector<CubinFunction>& functions,
                                     std::chrono::milliseconds limit, std::chrono::milliseconds limit_of_all) {
  constexpr int kAtATime = 4;
  const auto deadline = Clock::now() + limit_of_all;
  const auto tasks = static_cast<int64_t>(functions.size());
  InstructionCounts found;
  std::mutex mutex;
  kernels::parallel_for(tasks, kernels::thread_count(kAtATime, tasks), [&](int64_t task, int) {
    const CubinFunction& function = functions[static_cast<size_t>(task)];
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return;
    CodeFactCounts counts = count_instructions(disassembler, function, std::min(left, limit));
    const std::lock_guard lock(mutex);
    if (!counts.empty()) found[function.function] = std::move(counts);
  });
  return found;
}

}  // namespace msda::record
