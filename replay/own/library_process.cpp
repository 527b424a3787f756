#include "replay/own/library_process.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "replay/base/errors.h"
#include "replay/own/library_server.h"

namespace msda::replay {
namespace {

// No answer has more: each addend at most seven words, and a word for each element.
constexpr uint64_t kMostWords = uint64_t{MSDA_OWN_MOST_ADDENDS} * 8, kMostMessageBytes = 1 << 20;

}  // namespace

LibraryProcess::LibraryProcess(std::string path, Limits limits) : path_(std::move(path)), limits_(limits) {
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0) {
    throw BadInput(fmt::format("{}: {}; compile the library, or correct the adapter file's key \"library\"", path_,
                               std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    throw BadInput(
        fmt::format("{}: is not a file; give a shared library by the adapter file's key \"library\"", path_));
  }
  // A name without a folder would be looked for among the system's libraries.
  if (path_.find('/') == path_.npos) path_ = "./" + path_;
  process_ = std::make_unique<process::Isolated<LibraryServer>>(
      [this](const process::Failure& failure) { report(failure); }, path_, limits_.cpu_seconds);
  begin("as it is loaded", 0);
  schema_ = process_->call<&LibraryServer::schema>();
}

LibraryProcess::~LibraryProcess() = default;

void LibraryProcess::begin(const char* asked, int64_t more_seconds) {
  if (!failed_.empty()) throw BadInput(failed_);
  asked_ = asked;
  patience_ = limits_.wall_seconds + 2 * more_seconds;  // of which a loaded machine may give the library half
  process_->channel().allow(std::chrono::seconds(patience_), kMostMessageBytes);
}

std::variant<int64_t, std::string> LibraryProcess::open(const NewCall& call) {
  const std::lock_guard lock(mutex_);
  int64_t integers = 0;
  for (const auto& numbers : call.numbers) integers += static_cast<int64_t>(numbers.size());
  begin("in open()", integers / kIntegersOfASecond);
  const int64_t number = calls_++;
  process_->request<&LibraryServer::open>(number, call.sizes, call.shapes, call.values);
  for (const auto& numbers : call.numbers) {
    if (!process_->channel().send_data(std::as_bytes(std::span(numbers)))) process_->fail();
  }
  Answer answer = receive();
  if (!answer.fault.empty()) return std::move(answer.fault);
  return number;
}

void LibraryProcess::close(int64_t call) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    begin("in close()", 0);
    process_->call<&LibraryServer::close>(call);
  } catch (const std::exception&) {  // the next request reports it
  }
}

LibraryProcess::Answer LibraryProcess::coordinates(int64_t call, size_t output, int64_t first, int64_t count) {
  const std::lock_guard lock(mutex_);
  begin("in coordinates()", 0);
  process_->request<&LibraryServer::coordinates>(call, output, first, count);
  return receive();
}

LibraryProcess::Answer LibraryProcess::addends(int64_t call, size_t output, int64_t first, int64_t count,
                                               std::span<const int32_t> cells) {
  const std::lock_guard lock(mutex_);
  begin("in addends()", 0);
  process_->request<&LibraryServer::addends>(call, output, first, count,
                                             std::vector<int32_t>(cells.begin(), cells.end()));
  return receive();
}

LibraryProcess::Answer LibraryProcess::receive() {
  std::vector<uint64_t> words;
  auto answer = process_->answer<Answer>([&](uint64_t bytes) -> std::span<std::byte> {
    const size_t had = words.size();
    if (bytes % sizeof(uint64_t) != 0 || bytes / sizeof(uint64_t) > kMostWords - had) return {};
    words.resize(had + bytes / sizeof(uint64_t));
    return std::as_writable_bytes(std::span(words).subspan(had));
  });
  if (answer.has_too_many) throw BadInput(fmt::format("{}: {}", path_, answer.fault));
  answer.words = std::move(words);
  return answer;
}

void LibraryProcess::refuse_answer() {
  fail(
      "answers what is no answer: it has overwritten memory of its process, or written to a file that it did not open");
}

void LibraryProcess::fail(const std::string& what) {
  failed_ = fmt::format("{}: {}; kernels/own_operator.h says what a library does", path_, what);
  throw BadInput(failed_);
}

void LibraryProcess::report(const process::Failure& failure) {
  using How = process::Failure::How;
  switch (failure.how) {
    case How::kError:
      fail(failure.text);
    case How::kNotStarted:
      fail(fmt::format("cannot start a process for the library: {}", failure.text));
    case How::kLate:
      fail(fmt::format("does not answer within {} s {}", patience_, asked_));
    case How::kInvalid:
      refuse_answer();
    case How::kExit:
      fail(fmt::format("ends its process {} (exit status {})", asked_, failure.number));
    case How::kSignal:
      break;
  }
  if (failure.number == SIGXCPU) {
    fail(fmt::format("does not come to an end within {} s of computing time {}", limits_.cpu_seconds, asked_));
  }
  if (failure.number == SIGKILL) fail(fmt::format("ends its process {} (killed)", asked_));  // it closed the socket
  fail(fmt::format("crashes {} ({})", asked_, failure.text));
}

}  // namespace msda::replay
