#include "replay/own/library_process.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "recorder/process/cbor.h"
#include "replay/base/errors.h"
#include "replay/own/library_server.h"

namespace msda::replay {
namespace {

using Kind = process::Channel::Kind;

// No answer has more: each addend at most seven words, and a word for each element.
constexpr uint64_t kMostWords = uint64_t{MSDA_OWN_MOST_ADDENDS} * 8;

// A process whose end of the socket is closed ends within 2 s, or is ended.
constexpr int kTriesToWait = 1000, kBetweenTries = 2000;  // us

LibrarySchema schema_of(const nlohmann::json& json) {
  LibrarySchema schema;
  schema.name = json.at("name");
  schema.has_coordinates = json.at("has_coordinates");
  for (const nlohmann::json& dimension : json.at("dimensions"))
    schema.dimensions.push_back({dimension.at(0), dimension.at(1)});
  for (const nlohmann::json& tensor : json.at("tensors"))
    schema.tensors.push_back({tensor.at(0), tensor.at(1), tensor.at(2), tensor.at(3)});
  for (const nlohmann::json& output : json.at("outputs")) {
    schema.outputs.push_back({output.at(0), output.at(1), output.at(2), output.at(3), output.at(4)});
  }
  return schema;
}

// Checks the frame: the library may have written to the socket.
bool is_message(const process::Channel::Frame& frame) {
  constexpr uint64_t kMostBytes = 1 << 20;
  return frame.kind == Kind::kMessage && frame.bytes <= kMostBytes;
}

std::span<const std::byte> bytes_of(const std::vector<int64_t>& numbers) { return std::as_bytes(std::span(numbers)); }

}  // namespace

struct LibraryProcess::Request {
  const char* words;  // what was asked, for messages
  nlohmann::json json;
  std::span<const std::vector<int64_t>> data = {};
};

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
  start();
}

LibraryProcess::~LibraryProcess() {
  channel_.reset();  // the child ends with it, unless the library keeps it
  if (child_ > 0) await_end(false);
}

void LibraryProcess::start() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    fail(fmt::format("cannot start a process for the library: {}", std::strerror(errno)));
  }
  const pid_t parent = getpid();
  child_ = fork();
  if (child_ == 0) serve_library(sockets[1], parent, path_, limits_.cpu_seconds);
  const int error = errno;
  ::close(sockets[1]);
  channel_.emplace(sockets[0]);
  if (child_ < 0) fail(fmt::format("cannot start a process for the library: {}", std::strerror(error)));
  setpgid(child_, child_);  // as the child does: whoever comes first
  allow_time(0);
  const auto header = channel_->receive_header();
  if (!header) has_ended("as it is loaded");
  if (!is_message(*header)) refuse_answer();
  const auto body = channel_->receive_body(*header);
  if (!body) has_ended("as it is loaded");
  nlohmann::json description;
  try {
    description = process::json_of_cbor(*body);
    if (description.contains("error")) fail(description.at("error"));
    schema_ = schema_of(description);
  } catch (const nlohmann::json::exception&) {
    refuse_answer();
  }
}

std::variant<int64_t, std::string> LibraryProcess::open(const NewCall& call) {
  nlohmann::json values = nlohmann::json::array();
  for (const Value& value : call.values)
    values.push_back({value.name, value.integer.has_value(), value.integer.value_or(0), value.real});
  const std::lock_guard lock(mutex_);
  const int64_t number = calls_++;
  const Answer answer = ask({"in open()",
                             {{"open", number}, {"sizes", call.sizes}, {"shapes", call.shapes}, {"values", values}},
                             call.numbers});
  if (!answer.fault.empty()) return answer.fault;
  return number;
}

void LibraryProcess::close(int64_t call) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (failed_.empty()) ask({"in close()", {{"close", call}}});
  } catch (const std::exception&) {  // the next request reports it
  }
}

LibraryProcess::Answer LibraryProcess::coordinates(int64_t call, size_t output, int64_t first, int64_t count) {
  const std::lock_guard lock(mutex_);
  return ask({"in coordinates()", {{"coordinates", call}, {"output", output}, {"first", first}, {"count", count}}});
}

LibraryProcess::Answer LibraryProcess::addends(int64_t call, size_t output, int64_t first, int64_t count,
                                               std::span<const int32_t> cells) {
  const std::lock_guard lock(mutex_);
  return ask({"in addends()",
              {{"addends", call},
               {"output", output},
               {"first", first},
               {"count", count},
               {"cells", std::vector<int32_t>(cells.begin(), cells.end())}}});
}

void LibraryProcess::send(const Request& request) {
  const std::vector<uint8_t> message = process::cbor_of(request.json);
  bool sent = channel_->send(Kind::kMessage, std::as_bytes(std::span(message)));
  for (const auto& numbers : request.data) sent = sent && channel_->send(Kind::kData, bytes_of(numbers));
  if (!sent) has_ended(request.words);
}

LibraryProcess::Answer LibraryProcess::ask(const Request& request) {
  if (!failed_.empty()) throw BadInput(failed_);
  int64_t integers = 0;
  for (const auto& numbers : request.data) integers += static_cast<int64_t>(numbers.size());
  allow_time(integers / kIntegersOfASecond);
  send(request);
  Answer answer;
  for (;;) {
    const auto header = channel_->receive_header();
    if (!header) has_ended(request.words);
    if (header->kind == Kind::kData) {
      const size_t had = answer.words.size();
      if (header->bytes % sizeof(uint64_t) != 0 || header->bytes / sizeof(uint64_t) > kMostWords - had) refuse_answer();
      answer.words.resize(had + header->bytes / sizeof(uint64_t));
      if (!channel_->receive_into(std::as_writable_bytes(std::span(answer.words).subspan(had)))) {
        has_ended(request.words);
      }
      continue;
    }
    if (!is_message(*header)) refuse_answer();
    const auto body = channel_->receive_body(*header);
    if (!body) has_ended(request.words);
    try {
      const nlohmann::json json = process::json_of_cbor(*body);
      answer.element = json.at("element");
      answer.fault = json.at("fault");
      if (json.at("too_many").get<bool>()) throw BadInput(fmt::format("{}: {}", path_, answer.fault));
    } catch (const nlohmann::json::exception&) {
      refuse_answer();
    }
    return answer;
  }
}

void LibraryProcess::refuse_answer() {
  fail(
      "answers what is no answer: it has overwritten memory of its process, or written to a file that it did not open");
}

void LibraryProcess::fail(const std::string& what) {
  failed_ = fmt::format("{}: {}; kernels/own_operator.h says what a library does", path_, what);
  throw BadInput(failed_);
}

void LibraryProcess::allow_time(int64_t more) {
  patience_ = limits_.wall_seconds + 2 * more;  // of which a loaded machine may give the library half
  channel_->allow(std::chrono::seconds(patience_));
  errno = 0;  // which shows whether the time is over
}

// Ends the processes that the library has started, too, and returns the status of its own.
int LibraryProcess::await_end(bool may_run_on) {
  siginfo_t ended{};
  const auto has_ended = [&] {
    return waitid(P_PID, child_, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid != 0;
  };
  for (int tries = 0; may_run_on && tries < kTriesToWait && !has_ended(); ++tries) usleep(kBetweenTries);
  kill(-child_, SIGKILL);  // before its number may be another's
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
  return status;
}

void LibraryProcess::has_ended(const char* asked) {
  const bool waited = errno == EAGAIN || errno == EWOULDBLOCK;
  const int status = await_end(!waited);  // it may have closed the socket and run on
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (waited) fail(fmt::format("does not answer within {} s {}", patience_, asked));
  if (signal == SIGXCPU) {
    fail(fmt::format("does not come to an end within {} s of computing time {}", limits_.cpu_seconds, asked));
  }
  if (signal == SIGKILL) fail(fmt::format("ends its process {} (killed)", asked));  // as where it closes the socket
  if (signal != 0) fail(fmt::format("crashes {} ({})", asked, strsignal(signal)));
  fail(fmt::format("ends its process {} (exit status {})", asked, WEXITSTATUS(status)));
}

}  // namespace msda::replay
