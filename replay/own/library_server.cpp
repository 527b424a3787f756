#include "replay/own/library_server.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace msda::replay {
namespace {

// A fault of the library, reported to the parent.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void allow_memory(int64_t more) {
  constexpr int64_t kForTheLibrary = int64_t{4} << 30;
  if (process::kSanitized) return;  // sanitizers reserve more address space than any limit
  process::set_limit(RLIMIT_AS, static_cast<rlim_t>(process::address_space() + kForTheLibrary + more));
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
  process::set_limit(RLIMIT_NPROC, static_cast<rlim_t>(tasks_of_user() + kMoreTasks));
  try {
    std::thread([] {}).join();
  } catch (const std::system_error&) {  // of this user there are more, in other containers
    setrlimit(RLIMIT_NPROC, &before);
  }
  // They end with this one, also where they leave its group, and do not keep its socket open.
  pthread_atfork(nullptr, nullptr, [] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(process::FencedProcess::kSocket);
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

const msda_own_operator_description& load(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Fault(shown(fmt::format("cannot be loaded: {}", dlerror()).c_str(), 400));
  using Describe = const msda_own_operator_description* (*)();
  const auto describe = reinterpret_cast<Describe>(dlsym(library, "msda_own_operator"));
  if (describe == nullptr) throw Fault("exports no function msda_own_operator");
  const msda_own_operator_description* description = describe();
  if (description == nullptr) throw Fault("msda_own_operator() returns null");
  return *description;
}

}  // namespace

LibraryServer::LibraryServer(process::Channel& channel, const std::string& path, int cpu_seconds)
    : channel_(channel), cpu_seconds_(cpu_seconds) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) std::signal(signal, SIG_DFL);
  allow_memory(0);
  limit_processes();
  allow_time();
  description_ = &load(path);
}

std::string LibraryServer::error(const std::string&, int) {
  try {
    throw;
  } catch (const Fault& e) {
    return e.what();
  }
}

LibrarySchema LibraryServer::schema() const {
  const msda_own_operator_description& description = *description_;
  // Nothing else is read of another version.
  if (description.abi_version != MSDA_OWN_ABI_VERSION) {
    throw Fault(
        fmt::format("has version {} of kernels/own_operator.h, and this program version {}; compile it with "
                    "the header of this program",
                    description.abi_version, MSDA_OWN_ABI_VERSION));
  }
  LibrarySchema schema;
  schema.name = text_at(description.name, "name");
  schema.has_coordinates = description.coordinates != nullptr;
  if (description.addends == nullptr) throw Fault("addends is null");
  if ((description.open == nullptr) != (description.close == nullptr)) {
    throw Fault("only one of open and close is null");
  }
  for (const auto& dimension :
       listed(description.dimensions, description.dimension_count, MSDA_OWN_MOST_DIMENSIONS, "dimension")) {
    schema.dimensions.push_back({text_at(dimension.name, "a dimension's name"), dimension.may_be_left_out != 0});
  }
  for (const auto& tensor : listed(description.tensors, description.tensor_count, MSDA_OWN_MOST_TENSORS, "tensor")) {
    const std::string name = text_at(tensor.name, "a tensor's name");
    schema.tensors.push_back({name, tensor.role, tensor.is_integer != 0,
                              given_numbers(tensor.dimensions, tensor.rank, "the rank of " + name, 1)});
  }
  for (const auto& output : listed(description.outputs, description.output_count, MSDA_OWN_MOST_OUTPUTS, "output")) {
    schema.outputs.push_back({output.tensor, output.coordinate_count, output.addends,
                              given_numbers(output.over, output.over_count, "an output's over_count", 0),
                              given_numbers(output.channels, output.channel_count, "an output's channel_count", 0)});
  }
  return schema;
}

LibraryServer::Answer LibraryServer::open(int64_t number, const std::vector<int64_t>& sizes,
                                          const std::vector<std::vector<int64_t>>& shapes,
                                          const std::vector<LibraryProcess::Value>& values) {
  auto call = std::make_unique<OpenedCall>(*description_, sizes, shapes, values);
  int64_t integers = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::vector<int64_t>& numbers = call->numbers(i);
    const bool received = channel_.receive_data([&](uint64_t bytes) {
      allow_memory(static_cast<int64_t>(bytes) * 2);
      numbers.resize(bytes / sizeof(int64_t));
      return std::as_writable_bytes(std::span(numbers));
    });
    if (!received) process::end_process();
    integers += static_cast<int64_t>(numbers.size());
  }
  process::limit_computing(cpu_seconds_ + integers / kIntegersOfASecond);
  Answer answer;
  answer.fault = call->open();
  if (answer.fault.empty()) calls_[number] = std::move(call);
  return answer;
}

bool LibraryServer::close(int64_t number) {
  calls_.at(number)->close();
  return calls_.erase(number) > 0;
}

LibraryServer::Answer LibraryServer::coordinates(int64_t call, size_t output, int64_t first, int64_t count) {
  Coordinates all(channel_, *description_, *calls_.at(call), output);
  for (int64_t i = 0; i < count; ++i) all.add_element(first + i);
  return all.finish();
}

LibraryServer::Answer LibraryServer::addends(int64_t call, size_t output, int64_t first, int64_t count,
                                             const std::vector<int32_t>& cells) {
  Addends all(channel_, *description_, *calls_.at(call), output);
  const size_t each = cells.size() / static_cast<size_t>(std::max(count, int64_t{1}));
  for (int64_t i = 0; i < count; ++i) {
    all.add_element(first + i, std::span(cells).subspan(static_cast<size_t>(i) * each, each));
  }
  return all.finish();
}

}  // namespace msda::replay
