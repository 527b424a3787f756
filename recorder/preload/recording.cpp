#include "recorder/preload/recording.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <regex>
#include <set>

#include "recorder/preload/config.h"
#include "recorder/preload/provenance.h"
#include "recorder/preload/warn.h"
#include "recorder/preload/writer_process.h"
#include "recorder/spool/appender.h"
#include "recorder/spool/checksum.h"

namespace msda::record {
namespace {

constexpr char kRecover[] = "; what is there can be had by msda-replay recover";

// Calls whose inputs were seen, by digest; those not seen for longest go when they grow many.
class Seen {
 public:
  struct Entry {
    std::string inputs, before;
    uint64_t invocation = 0;
    int64_t duplicates = 0;
    std::set<std::string> outputs;
  };
  Entry* find(const std::string& inputs) {
    for (Entry& entry : entries_) {
      if (entry.inputs == inputs) return &entry;
    }
    return nullptr;
  }
  Entry& add(const std::string& inputs, uint64_t invocation) {
    constexpr size_t kMost = 256;
    if (entries_.size() == kMost) entries_.erase(entries_.begin());
    entries_.push_back({inputs, "", invocation, 0, {}});
    return entries_.back();
  }

 private:
  std::vector<Entry> entries_;
};

// The outputs of a thread's last call, if it was a duplicate. They are written when it is known that no equal call
// follows.
struct Latest {
  std::mutex mutex;
  Ticket ticket;
  std::vector<HostTensor> outputs_before, outputs;
  std::vector<std::string> digests;  // of outputs
};

class Recording {
 public:
  bool over() const { return over_; }

  std::optional<Ticket> begin(const CallFacts& facts, const std::vector<HostTensor>& inputs,
                              const std::vector<HostTensor>& outputs_before, const LaunchParameters& parameters) {
    if (!start()) return std::nullopt;
    const std::vector<std::string> digests = digests_of(inputs), before = digests_of(outputs_before);
    Ticket ticket;
    ticket.inputs_digest = digest_of_all(describe(facts), inputs, digests);
    // The scatter sum (grid_sample's is grad_input) adds to what is there; the other outputs are written over, whatever
    // they held.
    for (size_t i = 0; i < outputs_before.size(); ++i) {
      const std::string& name = outputs_before[i].name;
      if (name == "grad_value" || name == "grad_input") ticket.before_digest = before[i];
    }
    {
      const std::lock_guard lock(mutex_);
      if (Seen::Entry* entry = seen_.find(ticket.inputs_digest)) {
        ticket.invocation = entry->invocation;
        ticket.duplicate = true;
      } else {
        ticket.invocation = next_invocation_++;
        seen_.add(ticket.inputs_digest, ticket.invocation).before = ticket.before_digest;
      }
    }
    if (latest().ticket.invocation != ticket.invocation) write_latest(latest());
    if (ticket.duplicate) return ticket;
    spool::Begin begin;
    begin.invocation = ticket.invocation;
    begin.texts = facts.texts;
    begin.integers = facts.integers;
    begin.grid = facts.grid;
    begin.block = facts.block;
    begin.texts["time"] = now();
    begin.texts["label"] = label();
    begin.integers["process"] = getpid();
    begin.integers["thread"] = static_cast<int64_t>(syscall(SYS_gettid));
    append(begin);
    append(ticket, "inputs", inputs, digests);
    append(ticket, "outputs_before", outputs_before, before);
    if (!parameters.bytes.empty()) {
      append(spool::Parameters{ticket.invocation, parameters.offsets, parameters.sizes}, parameters.bytes);
    }
    return ticket;
  }

  void end(const Ticket& ticket, const std::vector<HostTensor>& outputs_before, const std::vector<HostTensor>& outputs,
           bool bytes_stay) {
    const std::vector<std::string> digests = digests_of(outputs);
    spool::Count count;
    {
      const std::lock_guard lock(mutex_);
      if (Seen::Entry* entry = seen_.find(ticket.inputs_digest)) {
        entry->duplicates += ticket.duplicate;
        if (entry->before == ticket.before_digest) entry->outputs.insert(digest_of_all("", outputs, digests));
        count = {ticket.invocation, entry->duplicates, static_cast<int64_t>(entry->outputs.size())};
      }
    }
    if (!ticket.duplicate) {
      append(ticket, "outputs", outputs, digests);
      append(spool::End{ticket.invocation});
    } else if (count.duplicates > 0) {
      append(count);
      if (bytes_stay) {
        const std::lock_guard lock(latest().mutex);
        latest().ticket = ticket;
        latest().outputs_before = outputs_before;
        latest().outputs = outputs;
        latest().digests = digests;
      }
    }
    ring(writer_);
  }

  // What threads still hold back.
  void finish() {
    std::vector<std::shared_ptr<Latest>> all;
    {
      const std::lock_guard lock(mutex_);
      all = latest_;
    }
    for (const auto& one : all) write_latest(*one);
    if (started_) ring(writer_);
  }

  // In a forked child: the spool and the writer are the parent's.
  void forget() {
    spool_.abandon();
    if (writer_.doorbell >= 0) close(writer_.doorbell);
    writer_ = {};
    seen_ = {};
    latest_.clear();
    started_ = false;
    over_ = false;
    next_invocation_ = 0;
    new (&mutex_) std::mutex;
    new (&start_mutex_) std::mutex;
  }

  // Nothing more from this process.
  void stop(const std::string& why) {
    if (!over_.exchange(true)) warn(why);
  }

  static std::string& label() {
    static thread_local std::string label;
    return label;
  }

 private:
  Latest& latest() {
    static thread_local std::shared_ptr<Latest> mine;
    static thread_local pid_t process = 0;
    if (process != getpid()) {  // the first call here, or the first after a fork
      mine = std::make_shared<Latest>();
      process = getpid();
      const std::lock_guard lock(mutex_);
      latest_.push_back(mine);
    }
    return *mine;
  }

  void write_latest(Latest& latest) {
    const std::lock_guard lock(latest.mutex);
    if (latest.outputs.empty()) return;
    append(latest.ticket, "outputs_before", latest.outputs_before, digests_of(latest.outputs_before));
    append(latest.ticket, "outputs", latest.outputs, latest.digests);
    latest.outputs.clear();
  }

  // What makes calls with equal tensors different ones. A launch's grid and block do not: autotuning tries them out.
  static std::string describe(const CallFacts& facts) {
    std::string text;
    for (const auto& [name, value] : facts.texts) text += name + "=" + value + "\n";
    if (const auto found = facts.integers.find("align_corners"); found != facts.integers.end()) {
      text += std::to_string(found->second) + "\n";
    }
    return text;
  }

  bool start() {
    if (over_) return false;
    if (started_) return true;
    const std::lock_guard lock(start_mutex_);
    if (over_ || started_) return !over_;
    if (!open_spool()) return false;
    const int session = lock_session();
    const int error =
        start_writer(config().writer, spool_path_, output_, config().force, config().keep_last, session, writer_);
    if (session >= 0) close(session);
    if (error != 0) {
      warn("cannot start the writer " + (config().writer.empty() ? "msda-record" : config().writer) + ": " +
           std::strerror(error) + "; recording goes on into " + spool_path_ + kRecover);
    }
    static const int kAtFork = pthread_atfork(nullptr, nullptr, [] { instance().forget(); });
    (void)kAtFork;
    append(run_of_this_process());
    for (const spool::Seed& seed : seeds_of_the_environment()) append(seed);
    started_ = true;
    return true;
  }

  // The spool's name lies beside the output's. Whoever creates it owns the output's name.
  bool open_spool() {
    const std::string wanted_output = output_of(config().output);
    const size_t dot = wanted_output.find_last_of("./");
    const bool has_ending = dot != std::string::npos && wanted_output[dot] == '.';
    const std::string stem = has_ending ? wanted_output.substr(0, dot) : wanted_output;
    const std::string ending = has_ending ? wanted_output.substr(dot) : "";
    for (int attempt = 0; attempt < 100; ++attempt) {
      output_ = wanted_output;
      if (attempt > 0) output_ = stem + "." + std::to_string(getpid()) + ending;
      if (attempt > 1) output_ = stem + "." + std::to_string(getpid()) + "." + std::to_string(attempt) + ending;
      if (!config().force && access(output_.c_str(), F_OK) == 0) continue;
      spool_path_ = output_ + ".spool";
      const int error = spool_.open(spool_path_);
      if (error == EEXIST) continue;
      if (error != 0) {
        stop(spool_path_ + ": cannot create it: " + std::strerror(error) + "; nothing is recorded");
        return false;
      }
      if (attempt > 0) warn(wanted_output + " exists; recording into " + output_);
      return true;
    }
    stop(wanted_output + " exists, and a hundred other names too; nothing is recorded");
    return false;
  }

  // A file in the session's folder, locked for as long as the writer lives: msda-record waits for the lock.
  int lock_session() const {
    if (config().session.empty()) return -1;
    const std::string path = config().session + "/" + std::to_string(getpid()) + "." + std::to_string(time(nullptr));
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return -1;
    const int moved = above_standard(file);
    flock(moved, LOCK_EX);
    return moved;
  }

  template <class Message>
  void append(const Message& message, std::span<const std::byte> payload = {}) {
    if (over_) return;
    if (config().max_bytes > 0 && spool_.bytes() + payload.size() > config().max_bytes) {
      stop("MSDA_RECORD_MAX_BYTES is reached; recording ends here");
      return;
    }
    if (spool_.append(message, payload)) return;
    stop(spool_path_ + ": cannot write it: " + std::strerror(spool_.error() != 0 ? spool_.error() : ENOMEM) +
         "; recording ends here");
  }
  void append(const Ticket& ticket, const char* section, const std::vector<HostTensor>& tensors,
              const std::vector<std::string>& digests) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const HostTensor& tensor = tensors[i];
      append(spool::Tensor{ticket.invocation, section, tensor.name, tensor.type, digests[i], tensor.shape},
             tensor.bytes);
    }
  }

  static std::vector<std::string> digests_of(const std::vector<HostTensor>& tensors) {
    std::vector<std::string> digests;
    for (const HostTensor& tensor : tensors) digests.push_back(spool::digest_of(tensor.bytes));
    return digests;
  }
  static std::string digest_of_all(std::string text, const std::vector<HostTensor>& tensors,
                                   const std::vector<std::string>& digests) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      text += tensors[i].name + " " + tensors[i].type + " " + digests[i];
      for (const int64_t side : tensors[i].shape) text += " " + std::to_string(side);
      text += "\n";
    }
    return spool::digest_of(std::as_bytes(std::span(text.data(), text.size())));
  }

 public:
  static Recording& instance() {
    // Never destroyed: threads of the host may still call when the program's destructors have run.
    static Recording* recording = new Recording;
    return *recording;
  }

 private:
  std::atomic<bool> over_{false}, started_{false};
  std::mutex start_mutex_, mutex_;
  std::string output_, spool_path_;
  spool::Appender spool_;
  WriterProcess writer_;
  uint64_t next_invocation_ = 0;
  Seen seen_;
  std::vector<std::shared_ptr<Latest>> latest_;  // of every thread that recorded
};

}  // namespace

bool wanted(const char* kernel) noexcept {
  try {
    Recording& recording = Recording::instance();
    if (recording.over()) return false;
    if (config().kernel.empty()) return true;
    static const std::optional<std::regex> kPattern = []() -> std::optional<std::regex> {
      try {
        return std::regex(config().kernel);
      } catch (const std::regex_error&) {
        Recording::instance().stop("--kernel " + config().kernel + " is not a regular expression; nothing is recorded");
        return std::nullopt;
      }
    }();
    return kPattern && std::regex_search(kernel, *kPattern);
  } catch (...) {
    return false;
  }
}

std::optional<Ticket> begin(const CallFacts& facts, const std::vector<HostTensor>& inputs,
                            const std::vector<HostTensor>& outputs_before,
                            const LaunchParameters& parameters) noexcept {
  const int saved = errno;
  std::optional<Ticket> ticket;
  try {
    ticket = Recording::instance().begin(facts, inputs, outputs_before, parameters);
  } catch (...) {
    Recording::instance().stop("out of memory; recording ends here");
  }
  errno = saved;
  return ticket;
}

void end(const Ticket& ticket, const std::vector<HostTensor>& outputs_before, const std::vector<HostTensor>& outputs,
         bool bytes_stay) noexcept {
  const int saved = errno;
  try {
    Recording::instance().end(ticket, outputs_before, outputs, bytes_stay);
  } catch (...) {
    Recording::instance().stop("out of memory; recording ends here");
  }
  errno = saved;
}

void finish() noexcept {
  try {
    Recording::instance().finish();
  } catch (...) {
  }
}

void set_label(const char* label) noexcept {
  try {
    Recording::label() = label != nullptr ? label : "";
  } catch (...) {
  }
}

}  // namespace msda::record
