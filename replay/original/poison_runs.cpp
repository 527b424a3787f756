#include "replay/original/poison_runs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <span>

#include "recorder/process/cbor.h"
#include "recorder/process/channel.h"
#include "replay/original/child_program.h"

namespace msda::replay {
namespace {

using Clock = std::chrono::steady_clock;
using State = PoisonOutcome::State;

constexpr int kSocket = PoisonWork{}.socket;
// The driver starts, and the launch as recorded is measured, within the first limit; the others are multiples of that.
constexpr double kFirstLimitSeconds = 120, kLeastLimitSeconds = 10, kLimitTimes = 20;

std::vector<std::string> command_of(const Options& options, const capture::Invocation& invocation, size_t first) {
  std::vector<std::string> command{
      "msda-replay", "relaunch-poisoned",   "--invocation", fmt::to_string(invocation.id),
      "--first",     fmt::to_string(first), "--repeat",     fmt::to_string(poison_runs(options))};
  for (const auto& [flag, value] : {std::pair{"--device", options.device},
                                    {"--block", options.block},
                                    {"--kernel-digest", options.kernel_digest}}) {
    if (!value.empty()) command.insert(command.end(), {flag, value});
  }
  command.insert(command.end(), {"--", options.capture});  // whose name may begin with a dash
  return command;
}

// A running process, and the socket to it.
class Process {
 public:
  explicit Process(const std::vector<std::string>& command) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw CannotRelaunch("no socket can be made");
    socket_ = ends[0];
    channel_.emplace(ends[0]);
    const int error =
        start({"/proc/self/exe", command, {{ends[1], kSocket}, {STDERR_FILENO, STDERR_FILENO}}, false}, id_);
    close(ends[1]);
    if (error != 0) throw CannotRelaunch("no process can be started for --poison");
  }
  ~Process() {
    kill(id_, SIGKILL);  // a kernel may still run
    int status = 0;
    while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Returns whether it says something, or ends, within so many seconds.
  bool wait_for(double seconds) const {
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      pollfd news{socket_, POLLIN, 0};
      const int ready = poll(&news, 1, static_cast<int>(std::max<int64_t>(left, 0)));
      if (ready >= 0 || errno != EINTR) return ready > 0;
    }
  }
  std::optional<std::vector<std::byte>> receive() const {
    const auto frame = channel_->receive_header();
    return frame ? channel_->receive_body(*frame) : std::nullopt;
  }
  // Null if it has ended.
  nlohmann::json receive_message() const {
    const auto bytes = receive();
    return bytes ? process::json_of_cbor(*bytes) : nlohmann::json();
  }

 private:
  pid_t id_ = 0;
  int socket_ = -1;  // the channel's
  std::optional<process::Channel> channel_;
};

// Returns nothing if the process ends before it has sent all.
std::optional<OutputRanges> receive_ranges(const Process& process, const nlohmann::json& distinct) {
  OutputRanges ranges;
  for (const nlohmann::json& count : distinct) {
    RepeatedLaunch::Range& range = ranges.emplace_back();
    range.distinct = count.get<int64_t>();
    for (auto* const bytes : {&range.first, &range.lowest, &range.highest}) {
      auto received = process.receive();
      if (!received) return std::nullopt;
      *bytes = *std::move(received);
    }
  }
  return ranges;
}

// Runs the settings from the first on, until one fails.
class Run {
 public:
  Run(std::vector<PoisonOutcome>& outcomes, const std::function<void(size_t, OutputRanges)>& take, double& measured)
      : outcomes_(outcomes), take_(take), measured_(measured) {}

  // Returns the next setting to be run.
  size_t run(const Process& process, size_t next) {
    while (next < outcomes_.size()) {
      const double limit =
          !running_ || next == 0 ? kFirstLimitSeconds : std::max(kLeastLimitSeconds, kLimitTimes * measured_);
      if (!process.wait_for(limit)) return fail(State::kHung, fmt::format("stopped after {:.0f} s", limit), next);
      const nlohmann::json message = process.receive_message();
      if (message.is_null()) return fail(State::kFaulted, "its process ended", next);
      if (message.contains("failure")) return fail(State::kFaulted, message["failure"].get<std::string>(), next);
      if (message.contains("begin")) {
        running_ = true;
        begun_ = Clock::now();
        continue;
      }
      auto ranges = receive_ranges(process, message["distinct"]);
      if (!ranges) return fail(State::kFaulted, "its process ended", next);
      if (next == 0) measured_ = std::chrono::duration<double>(Clock::now() - begun_).count();
      take_(next++, *std::move(ranges));
      running_ = false;
    }
    return next;
  }

 private:
  size_t fail(State state, const std::string& message, size_t setting) {
    if (!running_ || setting == 0) throw CannotRelaunch(message);
    outcomes_[setting].state = state;
    outcomes_[setting].message = message;
    return setting + 1;
  }

  std::vector<PoisonOutcome>& outcomes_;
  const std::function<void(size_t, OutputRanges)>& take_;
  double& measured_;      // of the launch as recorded, in seconds
  bool running_ = false;  // a setting; else the process is only starting
  Clock::time_point begun_;
};

}  // namespace

struct PoisonReport::Impl {
  explicit Impl(int socket) : channel(socket) {}

  void send(const nlohmann::json& message) const {
    const std::vector<uint8_t> bytes = process::cbor_of(message);
    send_bytes(process::Channel::Kind::kMessage, std::as_bytes(std::span(bytes)));
  }
  void send_bytes(process::Channel::Kind kind, std::span<const std::byte> bytes) const {
    if (!channel.send(kind, bytes)) throw CannotRelaunch("nobody listens any more");
  }

  process::Channel channel;
};

PoisonReport::PoisonReport(int socket) : impl_(std::make_unique<Impl>(socket)) {}
PoisonReport::~PoisonReport() = default;

void PoisonReport::begin() { impl_->send({{"begin", true}}); }

void PoisonReport::end(const OutputRanges& ranges) {
  nlohmann::json distinct = nlohmann::json::array();
  for (const auto& range : ranges) distinct.push_back(range.distinct);
  impl_->send({{"distinct", std::move(distinct)}});
  for (const auto& range : ranges) {
    for (const auto* const bytes : {&range.first, &range.lowest, &range.highest}) {
      impl_->send_bytes(process::Channel::Kind::kData, *bytes);
    }
  }
}

void PoisonReport::fail(const std::string& message) { impl_->send({{"failure", message}}); }

std::vector<PoisonOutcome> run_settings(const Options& options, const capture::Invocation& invocation,
                                        const std::vector<PoisonSetting>& settings,
                                        const std::function<void(size_t, OutputRanges)>& take) {
  std::vector<PoisonOutcome> outcomes;
  for (const PoisonSetting& setting : settings) outcomes.push_back({setting, State::kRan, ""});
  double measured = 0;
  for (size_t next = 0; next < settings.size();) {
    const Process process(command_of(options, invocation, next));
    next = Run(outcomes, take, measured).run(process, next);
  }
  return outcomes;
}

int64_t poison_runs(const Options& options) {
  constexpr int64_t kUsual = 10;
  return options.repeat > 1 ? options.repeat : kUsual;
}

}  // namespace msda::replay
