#include "recorder/preload/session/recording.h"

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

#include "recorder/preload/session/config.h"
#include "recorder/preload/session/courier.h"
#include "recorder/device/digest.h"
#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/session/host_digests.h"
#include "recorder/preload/session/provenance.h"
#include "recorder/preload/session/ring.h"
#include "recorder/preload/session/seeds.h"
#include "recorder/preload/session/seen.h"
#include "recorder/preload/session/warn.h"
#include "recorder/preload/session/writer_process.h"
#include "recorder/spool/appender.h"
#include "recorder/spool/checksum.h"

namespace msda::record {
namespace {

constexpr char kRecover[] = "; what is there can be had by msda-replay recover";

class Recording {
 public:
  bool over() const { return over_; }

  bool start() {
    if (over_) return false;
    if (started_) return true;
    const std::lock_guard lock(start_mutex_);
    if (over_ || started_) return !over_;
    memory_.open(config().ring_bytes, {cuda::pin, cuda::unpin, [] { instance().write_held(); }});
    if (!open_spool()) return false;
    const int session = lock_session();
    const int error = start_writer(config().writer, spool_path_, output_, config().force, config().keep_last,
                                   config().stages, session, memory_.descriptor(), writer_);
    if (session >= 0) close(session);
    writer_reads_ = error == 0;
    if (error != 0) {
      warn("cannot start the writer " + (config().writer.empty() ? "msda-record" : config().writer) + ": " +
           std::strerror(error) + "; recording goes on into " + spool_path_ + kRecover);
    }
    // Before the handlers of libraries that were there when recording began: CUDA's, too.
    static const int kAtExit = std::atexit([] { instance().finish(); });
    (void)kAtExit;
    append(run_of_this_process());
    for (const spool::Seed& seed : seeds_of_the_environment()) append(seed);
    write_seeds([](const spool::Seed& seed) { instance().append(seed); });
    started_ = true;
    return true;
  }

  std::optional<Ticket> begin(const CallFacts& given, const std::vector<HostTensor>& inputs,
                              const std::string& asked_for) {
    if (!start()) return std::nullopt;
    const CallFacts facts = stamped(given);
    std::string key = facts.texts.at("label") + "\n" + asked_for;
    for (const auto& [name, value] : given.texts) key += name + "=" + value + "\n";
    for (const auto& [name, value] : given.integers) {
      if (name != "stream" && name != "device") key += name + "=" + std::to_string(value) + "\n";
    }
    const auto content = enter(digest_of_all(key, inputs), "");
    if (!content) return std::nullopt;
    Ticket ticket{content->invocation, content->key, content->known, {}};
    if (ticket.duplicate) return ticket;
    append(begin_of(facts, ticket.invocation, 0));
    if (config().digest_only) {
      add_digests("inputs", inputs, ticket.digests);
    } else {
      append(ticket.invocation, 0, "inputs", inputs, std::nullopt);
    }
    return ticket;
  }

  void end(const Ticket& ticket, const std::vector<HostTensor>& outputs) {
    const std::string digest = digest_of_all("", outputs);
    const std::lock_guard lock(mutex_);
    Seen::Entry* entry = seen_.find(ticket.content);
    if (entry != nullptr) entry->add_outputs("", digest);
    if (ticket.duplicate) {
      if (entry != nullptr) count(*entry);
    } else {
      if (config().digest_only) {
        auto digests = ticket.digests;
        add_digests("outputs", outputs, digests);
        append(spool::Digests{ticket.invocation, 0, std::move(digests)});
      } else {
        append(ticket.invocation, 0, "outputs", outputs, std::nullopt);
      }
      append(spool::End{ticket.invocation, 0});
    }
    ring_doorbell();
  }

  std::optional<Content> enter(const std::string& key, const std::string& before) {
    if (!start()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    if (const Seen::Entry* entry = seen_.find(key)) {
      return Content{key, entry->invocation, true, entry->before == before};
    }
    Seen::Entry& entry = seen_.add(key, next_invocation_++);
    entry.before = before;
    return Content{key, entry.invocation, false, false};
  }

  void leave(const Content& content) {
    const std::lock_guard lock(mutex_);
    if (!content.known) seen_.remove(content.key);
  }

  void deliver(LaunchRecord&& record) {
    const std::lock_guard lock(mutex_);
    if (Seen::Entry* entry = seen_.find(record.content.key)) {
      entry->add_outputs(record.code, record.outputs_digest);
      if (record.content.known) count(*entry);
    }
    // Of launches with equal inputs the last is kept, and the one before need not go to the writer.
    if (held_ && record.content.known && held_->content.key == record.content.key) {
      if (held_->block) memory_.give_back(*held_->block);
      held_.reset();
    }
    write_held_locked();
    if (record.content.known) {
      held_ = std::move(record);
    } else {
      write(record);
    }
    ring_doorbell();
  }

  // What was held back because an equal launch might have followed.
  void write_held() {
    const std::lock_guard lock(mutex_);
    write_held_locked();
    if (started_) ring_doorbell();
  }

  void count(const std::string& key, const std::string& code, const std::string& outputs_digest, int64_t launches) {
    const std::lock_guard lock(mutex_);
    Seen::Entry* entry = seen_.find(key);
    if (entry == nullptr) return;
    entry->add_outputs(code, outputs_digest);
    count(*entry, launches);
    ring_doorbell();
  }

  bool has_code(const std::string& digest) {
    const std::lock_guard lock(mutex_);
    return images_.contains(digest);
  }

  void deliver_code(const std::string& kernel, const Image& image, const CodeFacts& facts) {
    if (!start()) return;
    {
      const std::lock_guard lock(mutex_);
      if (!images_.insert(image.digest).second) return;
    }
    append(spool::Kernel{image.digest, kernel, facts.architecture, facts.integers}, image.bytes);
  }

  void missed(const std::string& kernel) {
    const std::lock_guard lock(mutex_);
    if (missed_.insert(kernel).second) {
      warn(
          "kernel " + kernel +
          ": a launch that seemed to repeat an equal one had other inputs, or they could not be looked at, and it is " +
          "not recorded; a wait for " + "the device before it, as cudaStreamSynchronize, lets it be");
    }
  }

  Ring* ring() {
    if (!start()) return nullptr;
    return memory_.descriptor() >= 0 ? &memory_ : nullptr;
  }

  void finish() {
    if (getpid() != process_) return;
    if (const size_t left = Courier::instance().drain(); left > 0 && !over_) {
      warn(std::to_string(left) + " launches never came to an end, and are not recorded");
    }
    write_held();
  }

  // In a forked child: the spool and the writer are the parent's.
  void forget() {
    Courier::instance().abandon();
    spool_.abandon();
    memory_.abandon();
    if (writer_.doorbell >= 0) close(writer_.doorbell);
    writer_ = {};
    seen_ = {};
    held_.reset();
    images_.clear();
    missed_.clear();
    started_ = false;
    over_ = false;
    next_invocation_ = 0;
    process_ = getpid();
    new (&mutex_) std::mutex;
    new (&start_mutex_) std::mutex;
    new (&label_mutex_) std::mutex;
  }

  // Nothing more from this process.
  void stop(const std::string& why) {
    if (!over_.exchange(true)) warn(why);
  }

  // What the thread was given; or what any thread was given last, as a backward pass runs on a thread of its
  // framework's; or the test that pytest is running.
  std::string label() {
    const std::lock_guard lock(label_mutex_);
    if (label_of_thread() || label_) return label_of_thread() ? *label_of_thread() : *label_;
    const char* test = getenv("PYTEST_CURRENT_TEST");
    const std::string text = test != nullptr ? test : "";
    return text.substr(0, text.rfind(" ("));  // without the phase: "test_msda.py::test_backward[32] (call)"
  }

  void set_label(const char* label) {
    const std::lock_guard lock(label_mutex_);
    std::optional<std::string> given;
    if (label != nullptr) given = label;
    label_of_thread() = label_ = given;
  }

 private:
  void write_held_locked() {
    if (held_) write(*held_);
    held_.reset();
  }

  void write(const LaunchRecord& record) {
    const Content& content = record.content;
    Seen::Entry* entry = content.known ? seen_.find(content.key) : nullptr;
    const uint32_t attempt = content.known ? (entry != nullptr ? ++entry->attempts : 1) : 0;
    append(begin_of(record.facts, content.invocation, attempt));
    append(content.invocation, attempt, "inputs", record.inputs, record.block);
    append(content.invocation, attempt, "outputs_before", record.outputs_before, record.block);
    append(content.invocation, attempt, "outputs", record.outputs, record.block);
    append(spool::Parameters{content.invocation, attempt, record.parameter_offsets, record.parameter_sizes},
           record.parameter_bytes);
    append(spool::Digests{content.invocation, attempt, record.digests});
    append(spool::End{content.invocation, attempt});
    if (record.block && (over_ || !writer_reads_)) memory_.give_back(*record.block);
  }

  static spool::Begin begin_of(const CallFacts& facts, uint64_t invocation, uint32_t attempt) {
    spool::Begin begin;
    begin.invocation = invocation;
    begin.attempt = attempt;
    begin.texts = facts.texts;
    begin.integers = facts.integers;
    begin.grid = facts.grid;
    begin.block = facts.block;
    return begin;
  }

  void count(Seen::Entry& entry, int64_t launches = 1) {
    entry.duplicates += launches;
    append(spool::Count{entry.invocation, entry.duplicates, entry.distinct_outputs()});
  }

  void ring_doorbell() {
    if (knock(writer_) || !writer_reads_.exchange(false)) return;
    warn("the writer of " + output_ + " is gone; recording goes on into " + spool_path_ + kRecover);
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
  void append(const Message& message, std::span<const std::byte> payload = {}, uint64_t elsewhere = 0) {
    if (over_) return;
    elsewhere_ += elsewhere;
    if (config().max_bytes > 0 && spool_.bytes() + payload.size() + elsewhere_ > config().max_bytes) {
      stop("MSDA_RECORD_MAX_BYTES is reached; recording ends here");
      return;
    }
    if (spool_.append(message, payload)) return;
    stop(spool_path_ + ": cannot write it: " + std::strerror(spool_.error() != 0 ? spool_.error() : ENOMEM) +
         "; recording ends here");
  }
  void append(uint64_t invocation, uint32_t attempt, const char* section, const std::vector<HostTensor>& tensors,
              std::optional<uint32_t> block) {
    for (const HostTensor& tensor : tensors) {
      spool::Tensor message{invocation, attempt, section, tensor.name, tensor.type, tensor.shape, tensor.strides};
      if (tensor.zeros) {
        message.zeros = true;
        append(message);
      } else if (block && tensor.offset && writer_reads_) {
        message.block = *block;
        message.offset = *tensor.offset;
        message.bytes = tensor.bytes.size();
        append(message, {}, tensor.bytes.size());
      } else {
        append(message, tensor.bytes);
      }
    }
  }

  static std::optional<std::string>& label_of_thread() {
    static thread_local std::optional<std::string> label;
    return label;
  }

 public:
  static Recording& instance() {
    // Never destroyed: threads of the host may still call when the program's destructors have run.
    static Recording* recording = new Recording;
    return *recording;
  }

 private:
  Recording() {
    pthread_atfork(nullptr, nullptr, [] { instance().forget(); });
  }

  std::atomic<bool> over_{false}, started_{false};
  std::atomic<bool> writer_reads_{false};  // what lies in the shared memory
  std::mutex start_mutex_, mutex_;
  pid_t process_ = getpid();  // whose recording it is: a child of vfork shares it
  std::string output_, spool_path_;
  spool::Appender spool_;
  Ring memory_;
  uint64_t elsewhere_ = 0;  // bytes recorded there
  WriterProcess writer_;
  uint64_t next_invocation_ = 0;
  Seen seen_;
  std::optional<LaunchRecord> held_;  // whose content is recorded already
  std::set<std::string> images_;      // those in the spool
  std::set<std::string> missed_;      // kernels of which that was said
  std::mutex label_mutex_;
  std::optional<std::string> label_;
};

// What the recorder was about to do for the host, without harm to it.
template <class Do>
void harmlessly(Do&& work) noexcept {
  const int saved = errno;
  try {
    work(Recording::instance());
  } catch (...) {
    Recording::instance().stop("out of memory; recording ends here");
  }
  errno = saved;
}

}  // namespace

bool is_over() noexcept {
  bool over = true;
  harmlessly([&](Recording& recording) { over = recording.over(); });
  return over;
}

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
                            const std::string& asked_for) noexcept {
  std::optional<Ticket> ticket;
  harmlessly([&](Recording& recording) { ticket = recording.begin(facts, inputs, asked_for); });
  return ticket;
}

void end(const Ticket& ticket, const std::vector<HostTensor>& outputs) noexcept {
  harmlessly([&](Recording& recording) { recording.end(ticket, outputs); });
}

CallFacts stamped(CallFacts facts) {
  facts.texts["time"] = now();
  facts.texts["label"] = Recording::instance().label();
  facts.integers["process"] = getpid();
  facts.integers["thread"] = static_cast<int64_t>(syscall(SYS_gettid));
  return facts;
}

std::optional<Content> enter(const std::string& key, const std::string& before) noexcept {
  std::optional<Content> content;
  harmlessly([&](Recording& recording) { content = recording.enter(key, before); });
  return content;
}

void leave(const Content& content) noexcept {
  harmlessly([&](Recording& recording) { recording.leave(content); });
}

void deliver(LaunchRecord&& record) noexcept {
  harmlessly([&](Recording& recording) { recording.deliver(std::move(record)); });
}

void write_held() noexcept {
  harmlessly([&](Recording& recording) { recording.write_held(); });
}

void count(const std::string& key, const std::string& code, const std::string& outputs_digest,
           int64_t launches) noexcept {
  harmlessly([&](Recording& recording) { recording.count(key, code, outputs_digest, launches); });
}

bool has_code(const std::string& digest) noexcept {
  bool has = false;
  harmlessly([&](Recording& recording) { has = recording.has_code(digest); });
  return has;
}

void deliver_code(const std::string& kernel, const Image& image, const CodeFacts& facts) noexcept {
  harmlessly([&](Recording& recording) { recording.deliver_code(kernel, image, facts); });
}

void missed(const std::string& kernel) noexcept {
  harmlessly([&](Recording& recording) { recording.missed(kernel); });
}

bool start_recording() noexcept {
  bool started = false;
  harmlessly([&](Recording& recording) { started = recording.start(); });
  return started;
}

Ring* ring_of_this_process() noexcept {
  Ring* ring = nullptr;
  harmlessly([&](Recording& recording) { ring = recording.ring(); });
  return ring;
}

void finish() noexcept {
  harmlessly([](Recording& recording) { recording.finish(); });
}

void set_label(const char* label) noexcept {
  harmlessly([&](Recording& recording) { recording.set_label(label); });
}

}  // namespace msda::record
