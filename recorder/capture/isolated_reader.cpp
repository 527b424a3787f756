#include "recorder/capture/isolated_reader.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <iterator>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

#include "recorder/capture/messages.h"
#include "recorder/capture/trail_data.h"
#include "recorder/capture/writing.h"
#include "recorder/process/isolated.h"

namespace msda::capture {
namespace {

using process::Failure, process::kSanitized;

// What reading may take, of a file of this size.
class Limits {
 public:
  explicit Limits(const std::string& path) {
    struct stat file {};
    if (stat(path.c_str(), &file) == 0) file_bytes_ = file.st_size;
    allow_memory(0);
    allow_time();
  }

  // Allows many times what a request needs; packed zeros take more time than the file's size suggests.
  void allow_time(int64_t tensor_bytes = 0) const {
    process::limit_computing((3 + file_bytes_ / 1'000'000 + tensor_bytes / 250'000'000) * (kSanitized ? 5 : 1));
  }

  // Allows enough for a file's description and for a tensor three times: a tensor stored in one chunk is unpacked into
  // another buffer, which grows by doubling. A sanitizer keeps freed memory for some time, and surrounds the rest.
  void allow_memory(int64_t tensor_bytes) const {
    constexpr int64_t kForFacts = int64_t{512} << 20, kTimes = kSanitized ? 4 : 1;
    process::set_limit(RLIMIT_AS,
                       static_cast<rlim_t>(address_space_ + kTimes * (kForFacts + file_bytes_ + 3 * tensor_bytes)));
  }

 private:
  int64_t file_bytes_ = 0, address_space_ = process::address_space();
};

const std::string& checked(const std::string& path) {
  if (const std::string writer = who_writes(path); !writer.empty()) throw Error(path + ": " + writer);
  return path;
}

// In the child: a reader that works within limits, and sends data in pieces.
class Server : public Limits, public Reader {
 public:
  Server(process::Channel& channel, const std::string& path) : Limits(path), Reader(checked(path)), channel_(channel) {
    before_reading([this](int64_t bytes) { allow(bytes); });
  }

  static std::string error(const std::string& path) {
    try {
      throw;
    } catch (const Error& e) {
      return e.what();
    } catch (const std::bad_alloc&) {
      return path + ": reading it takes more memory than its size explains; the file is damaged";
    } catch (const std::length_error&) {
      return path + ": holds a size that nothing has; the file is damaged";
    }
  }

  Opened opened() const { return {tool_version(), created(), invocation_ids()}; }

  std::vector<Invocation> outlines(const std::vector<int64_t>& ids) const {
    std::vector<Invocation> all;
    for (const int64_t id : ids) all.push_back(outline(id));
    return all;
  }

  bool send(const TensorInfo& info) {
    read_pieces(info, [this](std::span<const std::byte> piece) { send_piece(piece); });
    return true;
  }

  bool send_trail(const std::string& dataset) {
    read_trail(dataset, [this](std::span<const std::byte> piece) { send_piece(piece); });
    return true;
  }

 private:
  // Setting limits takes as long as reading a small tensor: they are left as they are for the next few of these.
  void allow(int64_t bytes) {
    constexpr int64_t kSmall = int64_t{64} << 10;
    constexpr int kAtATime = 64;
    if (bytes <= kSmall && small_left_-- > 0) return;
    small_left_ = kAtATime;
    allow_time(bytes);
    allow_memory(bytes);
  }

  void send_piece(std::span<const std::byte> piece) const {
    if (!channel_.send_data(piece)) process::end_process();  // the parent is gone
  }

  process::Channel& channel_;
  int small_left_ = 0;  // reads under the limits that are set
};

[[noreturn]] void throw_error(const std::string& path, const Failure& failure) {
  using How = Failure::How;
  if (failure.how == How::kError) throw Error(failure.text);
  if (failure.how == How::kNotStarted) {
    throw Error(fmt::format("{}: cannot start a process that reads it: {}", path, failure.text));
  }
  std::string how = "gives up";  // a sanitizer ends its process with an exit status
  if (failure.how == How::kSignal) {
    how = failure.number == SIGXCPU ? "does not come to an end" : fmt::format("crashes ({})", failure.text);
  }
  throw Error(fmt::format("{}: is damaged so that reading it {}; read a copy of it, or record again", path, how));
}

}  // namespace

struct IsolatedReader::Impl : process::Isolated<Server> {
  explicit Impl(const std::string& file)
      : Isolated([file](const Failure& failure) { throw_error(file, failure); }, file),
        path(file),
        opened(call<&Server::opened>()) {}

  // Calls a function that sends data of a size that the child has checked.
  template <auto Function, class Argument>
  void read(const Argument& argument, std::span<std::byte> data) {
    request<Function>(argument);
    answer<bool>([&](uint64_t bytes) {
      const auto piece = data.first(std::min<uint64_t>(bytes, data.size()));
      data = data.subspan(piece.size());
      return piece;
    });
    if (!data.empty()) refuse_answer();
  }

  std::string path;
  Opened opened;
};

IsolatedReader::IsolatedReader(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}

IsolatedReader::IsolatedReader(IsolatedReader&&) noexcept = default;
IsolatedReader::~IsolatedReader() = default;
const std::string& IsolatedReader::path() const { return impl_->path; }
const std::string& IsolatedReader::tool_version() const { return impl_->opened.tool_version; }
const std::string& IsolatedReader::created() const { return impl_->opened.created; }
const std::vector<int64_t>& IsolatedReader::invocation_ids() const { return impl_->opened.ids; }
Run IsolatedReader::run() const { return impl_->call<&Server::run>(); }
std::vector<Seed> IsolatedReader::seeds() const { return impl_->call<&Server::seeds>(); }
std::vector<SurveyedKernel> IsolatedReader::survey() const { return impl_->call<&Server::survey>(); }
std::optional<int64_t> IsolatedReader::trail_launches() const { return impl_->call<&Server::trail_launches>(); }

std::optional<Trail> IsolatedReader::trail() const {
  const auto outline = impl_->call<&Server::trail_outline>();
  if (!outline) return std::nullopt;
  TrailData data{outline->missing, {}};
  for (const auto& [name, bytes] : outline->bytes) {
    data.datasets[name].resize(static_cast<size_t>(bytes));  // the child has checked that the file can hold so many
    impl_->read<&Server::send_trail>(name, data.datasets[name]);
  }
  try {
    return to_trail(data);
  } catch (const std::invalid_argument& e) {
    throw Error(
        fmt::format("{}: /trail: {}; the file is damaged: read a copy of it, or record again", path(), e.what()));
  }
}

std::vector<KernelImage> IsolatedReader::kernels() const {
  auto kernels = impl_->call<&Server::kernels>();
  share_images(kernels);  // here: other processes' copies would cost time and count towards the limit of memory
  return kernels;
}
Invocation IsolatedReader::invocation(int64_t id) const { return impl_->call<&Server::invocation>(id); }
std::vector<Invocation> IsolatedReader::outlines(std::span<const int64_t> ids) const {
  constexpr size_t kAtOnce = 1000;  // as messages take many times the memory of their content
  std::vector<Invocation> all;
  for (; !ids.empty(); ids = ids.subspan(std::min(kAtOnce, ids.size()))) {
    const auto some = ids.first(std::min(kAtOnce, ids.size()));
    auto outlines = impl_->call<&Server::outlines>(std::vector(some.begin(), some.end()));
    std::ranges::move(outlines, std::back_inserter(all));
  }
  return all;
}

Verification IsolatedReader::verify() const {
  constexpr size_t kEach = 2000, kMostProcesses = 4;
  const size_t most = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostProcesses);
  const size_t parts = std::clamp<size_t>(invocation_ids().size() / kEach, 1, most);
  std::deque<Impl> others;
  for (size_t i = 1; i < parts; ++i) others.emplace_back(path()).request<&Server::verify>(i, parts);
  auto result = impl_->call<&Server::verify>(size_t{0}, parts);
  for (Impl& part : others) {
    auto more = part.answer<Verification>();
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
  impl_->read<&Server::send>(info, {tensor.data.get(), bytes});
  return tensor;
}

}  // namespace msda::capture

#if defined(__SANITIZE_ADDRESS__)
// libhdf5 leaks memory when it gives up on a damaged file; leaks of our own are still reported.
extern "C" __attribute__((weak, visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:libhdf5\n";
}
#endif
