#include "replay/own/library_server.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <system_error>
#include <thread>

#include "recorder/process/cbor.h"
#include "recorder/process/channel.h"
#include "replay/own/library_answers.h"

namespace msda::replay {
namespace {

using Kind = process::Channel::Kind;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // sanitizers reserve more address space than any limit
#else
constexpr bool kSanitized = false;
#endif

constexpr int kSocket = STDERR_FILENO + 1;

// A fault of the library, reported to the parent.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void set_limit(decltype(RLIMIT_CPU) what, rlim_t value) {
  rlimit limit{};
  if (getrlimit(what, &limit) != 0) return;
  limit.rlim_cur = std::min(value, limit.rlim_max);
  setrlimit(what, &limit);
}

void allow_time(int64_t seconds) {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  set_limit(RLIMIT_CPU, static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1 + seconds));
}

void allow_memory(int64_t more) {
  constexpr int64_t kForTheLibrary = int64_t{4} << 30;
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  if (!kSanitized) set_limit(RLIMIT_AS, static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + kForTheLibrary + more));
}

// The end of the command, however it ends, is that of all processes that the library has started.
[[noreturn]] void end_all(int = 0) {
  kill(getpgrp() == getpid() ? 0 : getpid(), SIGKILL);
  _exit(0);
}

// Threads and processes of this user, of whom a limit counts all.
int64_t tasks_of_user() {
  int64_t count = 0;
  std::error_code gone;
  const std::filesystem::directory_iterator processes("/proc", gone), end;
  for (auto process = processes; !gone && process != end; process.increment(gone)) {
    struct stat owner {};
    if (stat(process->path().c_str(), &owner) != 0 || owner.st_uid != getuid()) continue;
    const std::string tasks = process->path() / "task";
    if (stat(tasks.c_str(), &owner) == 0) count += std::max<int64_t>(1, static_cast<int64_t>(owner.st_nlink) - 2);
  }
  return count;
}

// Threads have their use, processes none: a library that starts them without end is to fill no machine.
void limit_processes() {
  constexpr int64_t kMoreTasks = 512;
  rlimit before{};
  getrlimit(RLIMIT_NPROC, &before);
  set_limit(RLIMIT_NPROC, static_cast<rlim_t>(tasks_of_user() + kMoreTasks));
  try {
    std::thread([] {}).join();
  } catch (const std::system_error&) {  // of this user there are more, in other containers
    setrlimit(RLIMIT_NPROC, &before);
  }
  // They end with this one, also where they leave its group, and do not keep its socket open.
  pthread_atfork(nullptr, nullptr, [] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(kSocket);
  });
}

// Returns a name that the library points to.
std::string text_at(const char* text, const char* what) {
  if (text == nullptr) throw Fault(fmt::format("{} is null", what));
  return shown(text, 65);  // one more than a name has: the parent then refuses it
}

template <class Entry>
std::span<const Entry> listed(const Entry* entries, int32_t count, int32_t most, const char* what) {
  if (count < 1 || count > most) throw Fault(fmt::format("{}_count is {}; it must be from 1 to {}", what, count, most));
  if (entries == nullptr) throw Fault(fmt::format("{}s is null", what));
  return {entries, static_cast<size_t>(count)};
}

std::vector<int32_t> given_numbers(const int32_t* numbers, int32_t count, const std::string& what, int32_t least) {
  if (count < least || count > MSDA_OWN_MOST_DIMENSIONS) {
    throw Fault(fmt::format("{} is {}; it must be from {} to {}", what, count, least, MSDA_OWN_MOST_DIMENSIONS));
  }
  return {numbers, numbers + count};
}

nlohmann::json describe(const msda_own_operator_description& description) {
  // Nothing else is read of another version.
  if (description.abi_version != MSDA_OWN_ABI_VERSION) {
    throw Fault(
        fmt::format("has version {} of kernels/own_operator.h, and this program version {}; compile it with "
                    "the header of this program",
                    description.abi_version, MSDA_OWN_ABI_VERSION));
  }
  nlohmann::json json = {{"name", text_at(description.name, "name")},
                         {"has_coordinates", description.coordinates != nullptr}};
  if (description.addends == nullptr) throw Fault("addends is null");
  if ((description.open == nullptr) != (description.close == nullptr))
    throw Fault("only one of open and close is null");
  for (const auto& dimension :
       listed(description.dimensions, description.dimension_count, MSDA_OWN_MOST_DIMENSIONS, "dimension")) {
    json["dimensions"].push_back({text_at(dimension.name, "a dimension's name"), dimension.may_be_left_out != 0});
  }
  for (const auto& tensor : listed(description.tensors, description.tensor_count, MSDA_OWN_MOST_TENSORS, "tensor")) {
    const std::string name = text_at(tensor.name, "a tensor's name");
    json["tensors"].push_back({name, tensor.role, tensor.is_integer != 0,
                               given_numbers(tensor.dimensions, tensor.rank, "the rank of " + name, 1)});
  }
  for (const auto& output : listed(description.outputs, description.output_count, MSDA_OWN_MOST_OUTPUTS, "output")) {
    json["outputs"].push_back({output.tensor, output.coordinate_count, output.addends,
                               given_numbers(output.over, output.over_count, "an output's over_count", 0),
                               given_numbers(output.channels, output.channel_count, "an output's channel_count", 0)});
  }
  return json;
}

class Server {
 public:
  Server(int socket, int cpu_seconds) : channel_(socket), cpu_seconds_(cpu_seconds) {}

  void serve(const std::string& path) {
    allow_memory(0);
    limit_processes();
    allow_time(cpu_seconds_);
    nlohmann::json description;
    try {
      load(path);
      description = describe(*description_);
    } catch (const Fault& e) {
      description = {{"error", e.what()}};
    }
    send_message(description);
    while (const auto frame = channel_.receive_header()) {
      const auto body = channel_.receive_body(*frame);
      if (!body) return;
      handle(process::json_of_cbor(*body));
    }
  }

 private:
  void load(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw Fault(shown(fmt::format("cannot be loaded: {}", dlerror()).c_str(), 400));
    using Describe = const msda_own_operator_description* (*)();
    const auto describe = reinterpret_cast<Describe>(dlsym(library, "msda_own_operator"));
    if (describe == nullptr) throw Fault("exports no function msda_own_operator");
    description_ = describe();
    if (description_ == nullptr) throw Fault("msda_own_operator() returns null");
  }

  void handle(const nlohmann::json& request) {
    allow_time(cpu_seconds_);
    nlohmann::json answer = {{"element", -1}, {"fault", ""}, {"too_many", false}};
    if (request.contains("open")) answer["fault"] = open(request);
    if (request.contains("close")) close(request.at("close"));
    if (request.contains("coordinates")) {
      Coordinates all(*description_, *calls_.at(request.at("coordinates").get<int64_t>()),
                      request.at("output").get<size_t>());
      answer_for_each(request, all, answer, [&](int64_t flat, int64_t) { all.of_element(flat); });
    }
    if (request.contains("addends")) {
      Addends all(*description_, *calls_.at(request.at("addends").get<int64_t>()), request.at("output").get<size_t>());
      const std::vector<int32_t> cells = request.at("cells");
      const int64_t count = std::max(request.at("count").get<int64_t>(), int64_t{1}),
                    each = static_cast<int64_t>(cells.size()) / count;
      answer_for_each(request, all, answer, [&](int64_t flat, int64_t i) {
        all.of_element(flat, {cells.data() + i * each, static_cast<size_t>(each)});
      });
    }
    send_message(answer);
  }

  // Sends what `of_element` writes for each element, in pieces.
  template <class Answers, class OfElement>
  void answer_for_each(const nlohmann::json& request, Answers& all, nlohmann::json& answer,
                       const OfElement& of_element) {
    constexpr size_t kPiece = 1 << 17;
    all.when_full(kPiece, [this](std::vector<uint64_t>& words) { send_data(words); });
    const int64_t first = request.at("first"), count = request.at("count");
    for (int64_t i = 0; i < count; ++i) {
      of_element(first + i, i);
      if (!all.fault().empty() && answer["element"] == -1) {
        answer["element"] = first + i;
        answer["fault"] = all.fault();
      }
    }
    answer["too_many"] = all.has_too_many();
    send_data(all.words());
  }

  std::string open(const nlohmann::json& request) {
    auto call = std::make_unique<OpenedCall>(*description_, request.at("sizes"), request.at("shapes"));
    for (const nlohmann::json& value : request.at("values"))
      call->add_value(value.at(0), value.at(1), value.at(2), value.at(3));
    int64_t integers = 0;
    for (size_t i = 0; i < call->tensor_count(); ++i) {
      const auto frame = channel_.receive_header();
      if (!frame) end_all();
      allow_memory(static_cast<int64_t>(frame->bytes) * 2);
      std::vector<int64_t>& numbers = call->numbers(i);
      numbers.resize(frame->bytes / sizeof(int64_t));
      if (!channel_.receive_into(std::as_writable_bytes(std::span(numbers)))) end_all();
      integers += static_cast<int64_t>(numbers.size());
    }
    allow_time(cpu_seconds_ + integers / kIntegersOfASecond);
    if (const std::string fault = call->open(); !fault.empty()) return fault;
    calls_[request.at("open").get<int64_t>()] = std::move(call);
    return "";
  }

  void close(int64_t number) {
    calls_.at(number)->close();
    calls_.erase(number);
  }

  void send_message(const nlohmann::json& json) {
    const std::vector<uint8_t> message = process::cbor_of(json);
    if (!channel_.send(Kind::kMessage, std::as_bytes(std::span(message)))) end_all();
  }
  void send_data(std::vector<uint64_t>& words) {
    if (!channel_.send(Kind::kData, std::as_bytes(std::span(words)))) end_all();
    words.clear();
  }

  process::Channel channel_;
  int cpu_seconds_;
  const msda_own_operator_description* description_ = nullptr;
  std::map<int64_t, std::unique_ptr<OpenedCall>> calls_;
};

}  // namespace

void serve_library(int socket, pid_t parent, const std::string& path, int cpu_seconds) {
  setpgid(0, 0);
  std::signal(SIGTERM, end_all);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) end_all();
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // What a library prints would stand between a command's lines.
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fd != socket) dup2(null, fd);
  }
  if (socket != kSocket) dup2(socket, kSocket);
  fcntl(kSocket, F_SETFD, FD_CLOEXEC);            // for programs that the library starts
  syscall(SYS_close_range, kSocket + 1, ~0U, 0);  // glibc before 2.34 lacks close_range()
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU}) std::signal(signal, SIG_DFL);
  try {
    Server(kSocket, cpu_seconds).serve(path);
  } catch (...) {  // an exception of the library, or no memory
    _exit(1);
  }
  end_all();
}

}  // namespace msda::replay
