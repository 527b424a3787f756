#include "recorder/capture/isolated_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <iterator>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

#include "recorder/capture/messages.h"
#include "recorder/capture/trail_data.h"
#include "recorder/capture/writing.h"
#include "recorder/process/cbor.h"
#include "recorder/process/channel.h"

namespace msda::capture {
namespace {

using Json = nlohmann::json;
using process::cbor_of, process::Channel, process::json_of_cbor;
using Kind = Channel::Kind;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // sanitizers are slow and take more memory
#else
constexpr bool kSanitized = false;
#endif

std::span<const std::byte> bytes_of(const std::vector<uint8_t>& bytes) { return std::as_bytes(std::span(bytes)); }

// Sets soft limits only: the next request may need more.
class Limits {
 public:
  explicit Limits(const std::string& path) {
    struct stat file {};
    if (stat(path.c_str(), &file) == 0) file_bytes_ = file.st_size;
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    address_space_ = used_address_space();
    allow_memory(0);
  }

  // Allows many times what a request needs; packed zeros take more time than the file's size suggests.
  void allow_time(int64_t tensor_bytes = 0) const {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const int64_t seconds = (3 + file_bytes_ / 1'000'000 + tensor_bytes / 250'000'000) * (kSanitized ? 5 : 1);
    set(RLIMIT_CPU, static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + seconds));
  }

  // Allows enough for a file's description and for a tensor three times: a tensor stored in one chunk is unpacked into
  // another buffer, which grows by doubling. A sanitizer keeps freed memory for some time, and surrounds the rest.
  void allow_memory(int64_t tensor_bytes) const {
    constexpr int64_t kForFacts = int64_t{512} << 20, kTimes = kSanitized ? 4 : 1;
    set(RLIMIT_AS, static_cast<rlim_t>(address_space_ + kTimes * (kForFacts + file_bytes_ + 3 * tensor_bytes)));
  }

 private:
  static void set(decltype(RLIMIT_CPU) what, rlim_t value) {
    rlimit limit{};
    if (getrlimit(what, &limit) != 0) return;
    limit.rlim_cur = std::min(value, limit.rlim_max);
    setrlimit(what, &limit);
  }
  static int64_t used_address_space() {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  }

  int64_t file_bytes_ = 0, address_space_ = 0;
};

// The child: answers requests, [name, argument] each, with {"result": ...} or {"error": text}.
class Server {
 public:
  Server(int socket, const std::string& path) : channel_(socket), path_(path), limits_(path) {}

  void serve() {
    limits_.allow_time();
    answer([this] {
      if (const std::string writer = who_writes(path_); !writer.empty()) throw Error(path_ + ": " + writer);
      reader_.emplace(path_);
      reader_->before_reading([this](int64_t bytes) { allow(bytes); });
      return Opened{reader_->tool_version(), reader_->created(), reader_->invocation_ids()};
    });
    while (const auto frame = channel_.receive_header()) {
      const auto body = channel_.receive_body(*frame);
      if (!body) return;
      limits_.allow_time();
      handle(json_of_cbor(*body));
    }
  }

 private:
  void handle(const Json& request) {
    const std::string name = request.at(0);
    const Json& argument = request.at(1);
    if (name == "run") return answer([&] { return reader_->run(); });
    if (name == "seeds") return answer([&] { return reader_->seeds(); });
    if (name == "survey") return answer([&] { return reader_->survey(); });
    if (name == "trail_outline") return answer([&] { return Json(reader_->trail_outline()); });
    if (name == "trail_launches") return answer([&] { return Json(reader_->trail_launches()); });
    if (name == "trail_data") return answer([&] { return send_trail(argument.get<std::string>()); });
    if (name == "kernels") return answer([&] { return reader_->kernels(); });
    if (name == "invocation") return answer([&] { return reader_->invocation(argument.get<int64_t>()); });
    if (name == "outlines") return answer([&] { return outlines(argument); });
    if (name == "verify") return answer([&] { return reader_->verify(argument.at(0), argument.at(1)); });
    if (name == "read") return answer([&] { return send_data(argument.get<TensorInfo>()); });
  }

  // Setting limits takes as long as reading a small tensor: they are left as they are for the next few of these.
  void allow(int64_t bytes) {
    constexpr int64_t kSmall = int64_t{64} << 10;
    constexpr int kAtATime = 64;
    if (bytes <= kSmall && small_left_-- > 0) return;
    small_left_ = kAtATime;
    limits_.allow_time(bytes);
    limits_.allow_memory(bytes);
  }

  template <class Read>
  void answer(const Read& read) {
    Json answer;
    try {
      answer["result"] = read();
    } catch (const Error& e) {
      answer["error"] = e.what();
    } catch (const std::bad_alloc&) {
      answer["error"] = path_ + ": reading it takes more memory than its size explains; the file is damaged";
    } catch (const std::length_error&) {
      answer["error"] = path_ + ": holds a size that nothing has; the file is damaged";
    }
    const std::vector<uint8_t> message = cbor_of(answer);
    if (!channel_.send(Kind::kMessage, bytes_of(message))) _exit(0);  // the parent is gone
  }

  Json outlines(const Json& ids) {
    Json all = Json::array();
    for (const Json& id : ids) all.push_back(reader_->outline(id.get<int64_t>()));
    return all;
  }

  bool send_data(const TensorInfo& info) {
    reader_->read_pieces(info, [this](std::span<const std::byte> piece) {
      if (!channel_.send(Kind::kData, piece)) _exit(0);
    });
    return true;
  }

  bool send_trail(const std::string& dataset) {
    reader_->read_trail(dataset, [this](std::span<const std::byte> piece) {
      if (!channel_.send(Kind::kData, piece)) _exit(0);
    });
    return true;
  }

  Channel channel_;
  const std::string& path_;
  Limits limits_;
  int small_left_ = 0;  // reads under the limits that are set
  std::optional<Reader> reader_;
};

[[noreturn]] void run_child(int socket, pid_t parent, const std::string& path) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  // Keeps nothing of the parent's except the socket: a file that both held open would outlive the parent's use of it,
  // and the parent reports what libc or a sanitizer would print at the end.
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fd != socket) dup2(null, fd);
  }
  constexpr int kSocket = STDERR_FILENO + 1;
  if (socket != kSocket) dup2(socket, kSocket);
  syscall(SYS_close_range, kSocket + 1, ~0U, 0);  // glibc before 2.34 lacks close_range()
  for (const int signal : {SIGXCPU, SIGTERM}) std::signal(signal, SIG_DFL);
  // A sanitizer's log shows whose mistake a crash is: libhdf5's, or ours.
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) {
    if (!kSanitized) std::signal(signal, SIG_DFL);
  }
  try {
    Server server(kSocket, path);
    server.serve();
    _exit(0);      // leaves the file open: closing it would free the description of each object, one by one
  } catch (...) {  // an invalid request
    _exit(1);
  }
}

}  // namespace

struct IsolatedReader::Impl {
  std::string path;
  std::optional<Channel> channel;
  pid_t child = -1;
  Opened opened;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    channel.reset();  // the child ends with it
    wait();
  }

  void start() {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) cannot_start();
    const pid_t parent = getpid();
    child = fork();
    if (child == 0) run_child(sockets[1], parent, path);
    ::close(sockets[1]);
    channel.emplace(sockets[0]);
    if (child < 0) cannot_start();
    opened = receive().get<Opened>();
  }

  [[noreturn]] void cannot_start() const {
    throw Error(fmt::format("{}: cannot start a process that reads it: {}", path, std::strerror(errno)));
  }

  Json ask(const char* name, const Json& argument = {}) {
    request(name, argument);
    return receive();
  }

  void request(const char* name, const Json& argument) {
    const std::vector<uint8_t> message = cbor_of(Json::array({name, argument}));
    if (!channel->send(Kind::kMessage, bytes_of(message))) has_died();
  }

  // Receives an answer, after the data that precede it.
  Json receive(std::span<std::byte> data = {}) {
    for (;;) {
      const auto frame = channel->receive_header();
      if (!frame) has_died();
      if (frame->kind == Kind::kMessage) return result_of(*frame, data.empty());
      if (frame->bytes > data.size() || !channel->receive_into(data.first(frame->bytes))) has_died();
      data = data.subspan(frame->bytes);
    }
  }

  Json result_of(const Channel::Frame& frame, bool complete) {
    const auto body = channel->receive_body(frame);
    if (!body) has_died();
    try {
      Json answer = json_of_cbor(*body);
      if (answer.contains("error")) throw Error(answer.at("error").get<std::string>());
      if (complete) return std::move(answer.at("result"));
    } catch (const Json::exception&) {  // libhdf5 has overwritten memory
    }
    has_died();
  }

  template <class Result>
  Result get(const char* name, const Json& argument = {}) {
    try {
      return ask(name, argument).get<Result>();
    } catch (const Json::exception&) {
      has_died();
    }
  }

  // The child has checked that the file can hold so many bytes.
  std::vector<std::byte> trail_dataset(const std::string& name, int64_t bytes) {
    std::vector<std::byte> data(static_cast<size_t>(bytes));
    request("trail_data", name);
    receive(data);
    return data;
  }

  int wait() {
    int status = 0;
    if (child <= 0) return status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    child = -1;
    return status;
  }

  // Throws an error that says how the child ended.
  [[noreturn]] void has_died() {
    if (child > 0) kill(child, SIGTERM);  // if it has not ended: its answer was invalid
    const int status = wait();
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    std::string how = "gives up";  // a sanitizer ends its process with an exit status
    if (signal == SIGXCPU) how = "does not come to an end";
    if (signal != 0 && signal != SIGXCPU) how = fmt::format("crashes ({})", strsignal(signal));
    throw Error(fmt::format("{}: is damaged so that reading it {}; read a copy of it, or record again", path, how));
  }
};

IsolatedReader::IsolatedReader(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->start();
}

IsolatedReader::IsolatedReader(IsolatedReader&&) noexcept = default;
IsolatedReader::~IsolatedReader() = default;
const std::string& IsolatedReader::path() const { return impl_->path; }
const std::string& IsolatedReader::tool_version() const { return impl_->opened.tool_version; }
const std::string& IsolatedReader::created() const { return impl_->opened.created; }
const std::vector<int64_t>& IsolatedReader::invocation_ids() const { return impl_->opened.ids; }
Run IsolatedReader::run() const { return impl_->get<Run>("run"); }
std::vector<Seed> IsolatedReader::seeds() const { return impl_->get<std::vector<Seed>>("seeds"); }
std::vector<SurveyedKernel> IsolatedReader::survey() const { return impl_->get<std::vector<SurveyedKernel>>("survey"); }
std::optional<int64_t> IsolatedReader::trail_launches() const {
  return impl_->get<std::optional<int64_t>>("trail_launches");
}

std::optional<Trail> IsolatedReader::trail() const {
  const auto outline = impl_->get<std::optional<TrailOutline>>("trail_outline");
  if (!outline) return std::nullopt;
  TrailData data{outline->missing, {}};
  for (const auto& [name, bytes] : outline->bytes) {
    data.datasets[name] = impl_->trail_dataset(name, bytes);
  }
  try {
    return to_trail(data);
  } catch (const std::invalid_argument& e) {
    throw Error(
        fmt::format("{}: /trail: {}; the file is damaged: read a copy of it, or record again", path(), e.what()));
  }
}

std::vector<KernelImage> IsolatedReader::kernels() const {
  auto kernels = impl_->get<std::vector<KernelImage>>("kernels");
  share_images(kernels);  // here: other processes' copies would cost time and count towards the limit of memory
  return kernels;
}
Invocation IsolatedReader::invocation(int64_t id) const { return impl_->get<Invocation>("invocation", id); }
std::vector<Invocation> IsolatedReader::outlines(std::span<const int64_t> ids) const {
  constexpr size_t kAtOnce = 1000;  // as messages take many times the memory of their content
  std::vector<Invocation> all;
  for (; !ids.empty(); ids = ids.subspan(std::min(kAtOnce, ids.size()))) {
    const auto some = ids.first(std::min(kAtOnce, ids.size()));
    auto outlines = impl_->get<std::vector<Invocation>>("outlines", std::vector(some.begin(), some.end()));
    std::ranges::move(outlines, std::back_inserter(all));
  }
  return all;
}

Verification IsolatedReader::verify() const {
  constexpr size_t kEach = 2000, kMostProcesses = 4;
  const size_t most = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostProcesses);
  const size_t parts = std::clamp<size_t>(invocation_ids().size() / kEach, 1, most);
  std::deque<Impl> others(parts - 1);
  for (size_t i = 1; i < parts; ++i) {
    others[i - 1].path = path();
    others[i - 1].start();
    others[i - 1].request("verify", {i, parts});
  }
  auto result = impl_->get<Verification>("verify", {0, parts});
  for (Impl& other : others) {
    Verification more;
    try {
      more = other.receive().get<Verification>();
    } catch (const Json::exception&) {
      other.has_died();
    }
    result.objects += more.objects;
    result.datasets += more.datasets;
    std::ranges::move(more.differences, std::back_inserter(result.differences));
  }
  return result;
}

Tensor IsolatedReader::read(const TensorInfo& info) const {
  Tensor tensor;
  tensor.info = info;
  const auto bytes = static_cast<size_t>(info.bytes());    // the child checked them when it returned `info`
  tensor.data.reset(new (std::nothrow) std::byte[bytes]);  // not make_unique, which would clear it
  if (!tensor.data) {
    throw Error(
        fmt::format("{}: {} has {} bytes, more than the memory that this process can have; use a machine with more "
                    "memory, or choose another --invocation",
                    path(), info.path, bytes));
  }
  impl_->request("read", info);
  impl_->receive(std::span(tensor.data.get(), bytes));
  return tensor;
}

}  // namespace msda::capture

#if defined(__SANITIZE_ADDRESS__)
// libhdf5 leaks memory when it gives up on a damaged file; leaks of our own are still reported.
extern "C" __attribute__((weak, visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:libhdf5\n";
}
#endif
