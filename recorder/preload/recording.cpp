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
    std::string inputs;
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
    entries_.push_back({inputs, invocation, 0, {}});
    return entries_.back();
  }

 private:
  std::vector<Entry> entries_;
};

class Recording {
 public:
  bool over() const { return over_; }

  std::optional<Ticket> begin(const CallFacts& facts, const std::vector<HostTensor>& inputs,
                              const std::vector<HostTensor>& outputs_before) {
    if (!start()) return std::nullopt;
    std::vector<std::string> digests;
    std::string all = describe(facts);
    for (const auto* tensors : {&inputs, &outputs_before}) {
      for (const HostTensor& tensor : *tensors) {
        digests.push_back(spool::digest_of(tensor.bytes));
        all += tensor.name + " " + tensor.type + " " + digests.back() + "\n";
        for (const int64_t side : tensor.shape) all += std::to_string(side) + " ";
      }
    }
    Ticket ticket;
    ticket.inputs_digest = spool::digest_of(std::as_bytes(std::span(all.data(), all.size())));
    {
      const std::lock_guard lock(mutex_);
      if (Seen::Entry* entry = seen_.find(ticket.inputs_digest)) {
        ticket.invocation = entry->invocation;
        ticket.duplicate = true;
        return ticket;
      }
      ticket.invocation = next_invocation_++;
      seen_.add(ticket.inputs_digest, ticket.invocation);
    }
    spool::Begin begin;
    begin.invocation = ticket.invocation;
    begin.texts = facts.texts;
    begin.integers = facts.integers;
    begin.texts["time"] = now();
    begin.texts["label"] = label();
    begin.integers["process"] = getpid();
    begin.integers["thread"] = static_cast<int64_t>(syscall(SYS_gettid));
    append(begin);
    size_t at = 0;
    for (const HostTensor& tensor : inputs) append(ticket, "inputs", tensor, digests[at++]);
    for (const HostTensor& tensor : outputs_before) append(ticket, "outputs_before", tensor, digests[at++]);
    return ticket;
  }

  void end(const Ticket& ticket, const std::vector<HostTensor>& outputs) {
    std::string all;
    std::vector<std::string> digests;
    for (const HostTensor& tensor : outputs) {
      digests.push_back(spool::digest_of(tensor.bytes));
      all += digests.back();
    }
    spool::Count count;
    {
      const std::lock_guard lock(mutex_);
      if (Seen::Entry* entry = seen_.find(ticket.inputs_digest)) {
        entry->duplicates += ticket.duplicate;
        entry->outputs.insert(all);
        count = {ticket.invocation, entry->duplicates, static_cast<int64_t>(entry->outputs.size())};
      }
    }
    if (!ticket.duplicate) {
      for (size_t i = 0; i < outputs.size(); ++i) append(ticket, "outputs", outputs[i], digests[i]);
      append(spool::End{ticket.invocation});
    } else if (count.duplicates > 0) {
      append(count);
    }
    ring(writer_);
  }

  // In a forked child: the spool and the writer are the parent's.
  void forget() {
    spool_.abandon();
    if (writer_.doorbell >= 0) close(writer_.doorbell);
    writer_ = {};
    seen_ = {};
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
  static std::string describe(const CallFacts& facts) {
    std::string text;
    for (const auto& [name, value] : facts.texts) text += name + "=" + value + "\n";
    for (const auto& [name, value] : facts.integers) text += name + "=" + std::to_string(value) + "\n";
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
  void append(const Ticket& ticket, const char* section, const HostTensor& tensor, const std::string& digest) {
    append(spool::Tensor{ticket.invocation, section, tensor.name, tensor.type, digest, tensor.shape}, tensor.bytes);
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
                            const std::vector<HostTensor>& outputs_before) noexcept {
  const int saved = errno;
  std::optional<Ticket> ticket;
  try {
    ticket = Recording::instance().begin(facts, inputs, outputs_before);
  } catch (...) {
    Recording::instance().stop("out of memory; recording ends here");
  }
  errno = saved;
  return ticket;
}

void end(const Ticket& ticket, const std::vector<HostTensor>& outputs) noexcept {
  const int saved = errno;
  try {
    Recording::instance().end(ticket, outputs);
  } catch (...) {
    Recording::instance().stop("out of memory; recording ends here");
  }
  errno = saved;
}

void set_label(const char* label) noexcept {
  try {
    Recording::label() = label != nullptr ? label : "";
  } catch (...) {
  }
}

}  // namespace msda::record
