#include "replay/original/poison_runs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "replay/original/relaunch.h"

namespace msda::replay {
namespace {

using Clock = std::chrono::steady_clock;
using State = PoisonOutcome::State;

// The driver starts, and the launch as recorded is measured, within the first limit; the others are multiples of that.
constexpr double kFirstLimitSeconds = 120, kLeastLimitSeconds = 10, kLimitTimes = 20;

std::vector<std::string> command_of(const Options& options, const capture::Invocation& invocation, size_t first) {
  std::vector<std::string> command{
      "/proc/self/exe", "relaunch-poisoned",   "--invocation", fmt::to_string(invocation.id),
      "--first",        fmt::to_string(first), "--repeat",     fmt::to_string(poison_runs(options))};
  for (const auto& [flag, value] : {std::pair{"--device", options.device},
                                    {"--block", options.block},
                                    {"--kernel-digest", options.kernel_digest}}) {
    if (!value.empty()) command.insert(command.end(), {flag, value});
  }
  command.insert(command.end(), {"--", options.capture});  // whose name may begin with a dash
  return command;
}

// `sent`: the bytes of each range, in the order in which PoisonReport sends them. Returns nothing if some are missing.
std::optional<OutputRanges> ranges_of(const nlohmann::json& distinct, std::vector<std::vector<std::byte>> sent) {
  if (sent.size() != 3 * distinct.size()) return std::nullopt;
  OutputRanges ranges;
  for (size_t i = 0; i < distinct.size(); ++i) {
    ranges.push_back({.distinct = distinct[i],
                      .lowest = std::move(sent[3 * i + 1]),
                      .highest = std::move(sent[3 * i + 2]),
                      .first = std::move(sent[3 * i])});
  }
  return ranges;
}

// Runs the settings from the first on, until one fails.
class Run {
 public:
  Run(std::vector<PoisonOutcome>& outcomes, const std::function<void(size_t, OutputRanges)>& take, double& measured)
      : outcomes_(outcomes), take_(take), measured_(measured) {}

  // Returns the next setting to be run.
  size_t run(process::FencedProcess& process, size_t next) {
    using Limit = std::chrono::duration<double>;
    process::Channel& channel = process.channel();
    const auto allow = [&](double seconds) {
      channel.allow(std::chrono::duration_cast<std::chrono::milliseconds>(Limit(seconds)));
    };
    while (next < outcomes_.size()) {
      const double limit =
          !running_ || next == 0 ? kFirstLimitSeconds : std::max(kLeastLimitSeconds, kLimitTimes * measured_);
      std::vector<std::vector<std::byte>> sent;
      allow(limit);
      const auto message = channel.receive([&](uint64_t bytes) {
        allow(kFirstLimitSeconds);  // the launches have ended, and what is left is to be sent
        return std::span(sent.emplace_back(bytes));
      });
      if (!message && errno == EAGAIN) return fail(State::kHung, fmt::format("stopped after {:.0f} s", limit), next);
      if (!message) return fail(State::kFaulted, "its process ended", next);
      if (message->contains("failure")) return fail(State::kFaulted, message->at("failure"), next);
      if (message->contains("begin")) {
        running_ = true;
        begun_ = Clock::now();
        continue;
      }
      auto ranges = ranges_of(message->at("distinct"), std::move(sent));
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

void PoisonReport::send(const nlohmann::json& message) const {
  if (!channel_.send(message)) throw CannotRelaunch("nobody listens any more");
}

void PoisonReport::end(const OutputRanges& ranges) {
  nlohmann::json distinct = nlohmann::json::array();
  bool sent = true;
  for (const auto& range : ranges) {
    distinct.push_back(range.distinct);
    for (const auto* const bytes : {&range.first, &range.lowest, &range.highest}) {
      sent = sent && channel_.send_data(*bytes);
    }
  }
  if (sent) send({{"distinct", std::move(distinct)}});
}

std::vector<PoisonOutcome> run_settings(const Options& options, const capture::Invocation& invocation,
                                        const std::vector<PoisonSetting>& settings,
                                        const std::function<void(size_t, OutputRanges)>& take) try {
  std::vector<PoisonOutcome> outcomes;
  for (const PoisonSetting& setting : settings) outcomes.push_back({setting, State::kRan, ""});
  double measured = 0;
  for (size_t next = 0; next < settings.size();) {
    const std::vector<std::string> command = command_of(options, invocation, next);
    process::FencedProcess worker([&](const auto&) { process::become(command); },
                                  process::FencedProcess::Errors::kShown);
    next = Run(outcomes, take, measured).run(worker, next);
  }
  return outcomes;
} catch (const std::system_error&) {
  throw CannotRelaunch("no process can be started for --poison");
}

int64_t poison_runs(const Options& options) {
  constexpr int64_t kUsual = 10;
  return options.repeat > 1 ? options.repeat : kUsual;
}

}  // namespace msda::replay
