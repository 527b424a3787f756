#include "recorder/preload/session/recording.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

#include "recorder/adapters/made_once.h"
#include "recorder/adapters/name_pattern.h"
#include "recorder/preload/session/host_digests.h"
#include "recorder/preload/session/labels.h"
#include "recorder/preload/session/observations.h"
#include "recorder/preload/session/own_thread.h"
#include "recorder/preload/session/provenance.h"
#include "recorder/preload/session/recording_state.h"
#include "recorder/preload/session/seeds.h"
#include "recorder/preload/session/warn.h"
#include "recorder/spool/cancellation.h"
#include "recorder/spool/output.h"
#include "recorder/spool/session_file.h"

namespace msda::record {
namespace {

constexpr char kRecover[] = ", for msda-replay recover";

// How many recorder functions this thread is in. A signal handler that interrupts one must not wait for its work.
constinit thread_local int depth = 0;
constinit thread_local bool holds_start = false;  // while this thread forks

}  // namespace

// Runs work of the recorder so that neither exceptions nor errno reach the program.
template <class Work>
void Recording::guarded(Work&& work) noexcept {
  if (over_) return;
  const spool::CancellationHeld uncancelled;
  const int saved = errno;
  ++depth;
  try {
    work();
  } catch (...) {
    stop("out of memory; recording ends here");
  }
  --depth;
  errno = saved;
}

RegisteredContent& RegisteredContent::operator=(RegisteredContent&& source) noexcept {
  std::swap(key, source.key);
  std::swap(invocation, source.invocation);
  std::swap(known, source.known);
  std::swap(same_before, source.same_before);
  std::swap(recording_, source.recording_);
  return *this;
}

RegisteredContent::~RegisteredContent() {
  if (recording_ != nullptr) recording_->abandon(*this);
}

Recording::Recording(const Config& config) : config_(config), delivery_([]() noexcept { recording().write_held(); }) {}

void Recording::stop(const std::string& why) noexcept {
  if (!over_.exchange(true) && !why.empty()) warn(why);
}

bool Recording::wants(const char* kernel) noexcept {
  if (config_.kernel.empty()) return !over_;
  bool wanted = false;
  guarded([&] {
    const Answer* answer = answers_.load(std::memory_order_acquire);
    while (answer != nullptr && answer->kernel != kernel) answer = answer->before;
    if (answer == nullptr) answer = answer_for(kernel);
    wanted = answer != nullptr && answer->wanted;
  });
  return wanted && !over_;
}

// Matches on a thread of its own: regular expressions take stack, and the calling thread may have little.
const Recording::Answer* Recording::answer_for(const char* kernel) {
  auto fresh = std::make_unique<Answer>(Answer{kernel, false, nullptr});
  std::string trouble = "cannot be matched, as no thread can be started";
  const bool answered = on_own_thread([&] {
    using adapters::NamePattern;
    static constinit MadeOnce<const NamePattern> made;
    try {
      const auto& pattern = made.get([this] { return std::make_unique<const NamePattern>(config_.kernel); });
      fresh->wanted = pattern.is_found_in(kernel);
      trouble.clear();
    } catch (const std::invalid_argument& e) {
      trouble = std::string("is not a regular expression (ECMAScript, without back references): ") + e.what();
    }
  });
  if (!answered || !trouble.empty()) {
    stop("--kernel " + config_.kernel + " " + trouble + "; nothing is recorded");
    return nullptr;
  }
  fresh->before = answers_;
  while (!answers_.compare_exchange_weak(fresh->before, fresh.get(), std::memory_order_acq_rel)) {
  }
  return fresh.release();  // never destroyed
}

Recording::State& Recording::state() { return *state_.load(std::memory_order_acquire); }

[[gnu::hot]] bool Recording::start() noexcept {
  if (started_.load(std::memory_order_acquire)) return !over_;
  guarded([&] {
    const std::lock_guard lock(start_mutex_);
    if (over_ || started_) return;
    auto fresh = std::make_unique<State>(config_);
    if (!start_locked(*fresh)) return;
    started_.store(true, std::memory_order_release);
    fresh.release();  // never destroyed
  });
  return started_ && !over_;
}

// Opens the spool without asking the calling thread's device. Returns false, after stop(), if there is no spool.
bool Recording::open(State& fresh) {
  const std::string trouble = fresh.frames.open();
  if (!trouble.empty()) {
    stop(trouble);
    return false;
  }
  observe("output", fresh.frames.output());
  fresh.ring.open(config_.ring_bytes, {services_.pin, services_.unpin, []() noexcept { recording().write_held(); },
                                       []() noexcept {
                                         State* mine = recording().state_;
                                         return mine != nullptr && mine->writer_reads;
                                       }});
  // msda-record waits for this file's lock, which the writer holds as long as it lives.
  const spool::OwnedDescriptor session(config_.session.empty() ? -1 : spool::SessionFile::make(config_.session));
  spool::SessionFile(session.get()).begin(fresh.frames.output(), fresh.frames.spool_path());
  const int error = fresh.writer.start({config_.writer, fresh.frames.spool_path(), fresh.frames.output(), config_.force,
                                        config_.keep_last, config_.stages, session.get(), fresh.ring.descriptor()});
  fresh.writer_reads = error == 0;
  state_.store(&fresh, std::memory_order_release);
  if (error != 0) {
    if (session.get() >= 0 && ftruncate(session.get(), 0) != 0) {
    }  // then msda-record says it again
    warn("cannot start the writer " + (config_.writer.empty() ? "msda-record" : config_.writer) + ": " +
         std::strerror(error) + "; recording continues into " + fresh.frames.spool_path() + kRecover);
  }
  return true;
}

bool Recording::start_locked(State& fresh) {
  bool is_open = false;
  spool::Run run;
  const bool done = on_enough_stack([&] {
    is_open = open(fresh);
    if (is_open) run = run_of_this_process();
    if (is_open && services_.find != nullptr) services_.find();
  });
  if (!done) stop("no memory, or no thread can be started; nothing is recorded");
  if (!done || !is_open) return false;
  // Registered now, it runs before the exit handlers of libraries that were loaded when recording began, among them
  // CUDA's.
  static constinit std::atomic<bool> registered{false};
  if (!registered.exchange(true)) std::atexit([] { recording().finish(); });
  if (services_.add_facts != nullptr) services_.add_facts(run.facts);
  fresh.frames.append(run);
  for (const spool::Seed& seed : seeds_of_the_environment()) fresh.frames.append(seed);
  write_seeds([](const spool::Seed& seed) {
    if (State* mine = recording().state_) mine->frames.append(seed);
  });
  return true;
}

void Recording::say_trouble(State& mine) {
  if (const auto trouble = mine.frames.take_trouble()) stop(*trouble);
}

void Recording::notify_writer(State& mine) {
  say_trouble(mine);
  if (mine.writer.notify() != WriterProcess::Answer::kGone || !mine.writer_reads.exchange(false)) return;
  const size_t lost = mine.write_unread();
  warn("the writer of " + mine.frames.output() + " ended unexpectedly; recording continues into " +
       mine.frames.spool_path() + kRecover +
       (lost > 0 ? "; it held " + std::to_string(lost) + " of the last calls in its own memory, and they are lost"
                 : ""));
}

// Reports missing launches in place of a writer that has ended; again only if more are missing by then, as when the
// program goes on.
void Recording::say_missing(State& mine) {
  const spool::Missing all = mine.ring.missing();
  if (mine.writer_reads || all.missing == mine.told_missing) return;
  mine.told_missing = all.missing;
  warn(mine.frames.output() + ": " + all.description());
}

std::optional<HostCall> Recording::begin_call(const CallFacts& given, const std::vector<HostTensor>& inputs,
                                              const std::string& options) noexcept {
  std::optional<HostCall> call;
  guarded([&] {
    const CallFacts facts = stamped(given);
    std::string key = facts.texts.at("label") + "\n" + options;
    for_each_type(given, [&](const auto& values) {
      for (const auto& [name, value] : values) {
        if (name != "stream" && name != "device") key += name + "=" + tensors::fact_text(value) + "\n";
      }
    });
    auto content = register_content(digest_of_all(key, inputs), "");
    if (!content) return;
    HostCall begun{std::move(*content), {}, 0};
    if (!begun.content.known) {
      const uint64_t invocation = begun.content.invocation;
      begun.bytes = state().frames.append_begin(facts, invocation, 0);
      if (config_.digest_only) {
        add_digests("inputs", inputs, begun.digests);
      } else {
        begun.bytes += state().frames.append_tensors(invocation, 0, "inputs", inputs);
      }
    }
    call = std::move(begun);
  });
  return call;
}

void Recording::end_call(HostCall&& call, const std::vector<HostTensor>& outputs) noexcept {
  guarded([&] {
    const std::string digest = digest_of_all("", outputs);
    State& mine = state();
    const std::lock_guard lock(mine.mutex);
    const RegisteredContent& content = call.content;
    call.content.settle();
    if (content.known) {
      if (mine.ledger.deliver_later(content.key, content.invocation, "", false) == ContentLedger::Later::kLost) return;
      mine.ledger.add_outputs(content.key, "", digest);
      mine.append_count(mine.ledger.count(content.key, 1));
      mine.forget_evicted();
      return notify_writer(mine);
    }
    if (config_.digest_only) {
      add_digests("outputs", outputs, call.digests);
    } else {
      call.bytes += mine.frames.append_tensors(content.invocation, 0, "outputs", outputs);
    }
    call.bytes += mine.frames.append_end(content.invocation, 0, call.digests);
    mine.ledger.deliver_first(content.key, "", call.bytes);
    mine.ledger.add_outputs(content.key, "", digest);
    mine.forget_evicted();
    notify_writer(mine);
  });
}

std::optional<RegisteredContent> Recording::register_content(const std::string& key,
                                                             const std::string& before) noexcept {
  std::optional<RegisteredContent> content;
  guarded([&] {
    if (!start()) return;
    State& mine = state();
    const std::lock_guard lock(mine.mutex);
    content.emplace(this, key, mine.ledger.register_call(key, before));
  });
  return content;
}

// Withdraws a call whose inputs may be in the spool already.
void Recording::abandon(const RegisteredContent& content) noexcept {
  guarded([&] {
    State& mine = state();
    const std::lock_guard lock(mine.mutex);
    if (mine.ledger.abandon_call(content.key, content.invocation)) return;
    mine.frames.append(spool::Drop{content.invocation});
    notify_writer(mine);
  });
}

void Recording::deliver(LaunchRecord&& record) noexcept {
  guarded([&] {
    State& mine = state();
    const std::lock_guard lock(mine.mutex);
    mine.deliver(std::move(record));
    notify_writer(mine);
  });
}

bool Recording::count_duplicates(const std::string& key, const std::string& code, const std::string& outputs_digest,
                                 int64_t launches) noexcept {
  bool known = false;
  guarded([&] {
    if (!started_) return;
    State& mine = state();
    const std::lock_guard lock(mine.mutex);
    mine.ledger.add_outputs(key, code, outputs_digest);
    const auto count = mine.ledger.count(key, launches);
    known = count.has_value();
    mine.append_count(count);
    notify_writer(mine);
  });
  return known;
}

bool Recording::knows_content(const std::string& key) noexcept {
  bool known = false;
  guarded([&] {
    if (!started_) return;
    State& mine = state();
    const std::lock_guard lock(mine.mutex);
    known = mine.ledger.knows(key);
  });
  return known;
}

void Recording::report_missed_launch(const std::string& kernel) noexcept {
  guarded([&] {
    if (!started_) return;
    State& mine = state();
    {
      const std::lock_guard lock(mine.mutex);
      if (!mine.missed.insert(kernel).second) return;
    }
    warn("kernel " + kernel +
         ": a launch that seemed to repeat an equal one had other inputs, or they could not be checked; it is not "
         "recorded; to record it, synchronize with the device before it (cudaStreamSynchronize)");
  });
}

void Recording::write_held() noexcept {
  guarded([&] {
    if (!started_) return;
    State& mine = state();
    const std::lock_guard lock(mine.mutex);
    mine.write_held();
    notify_writer(mine);
  });
}

bool Recording::has_code(const std::string& digest, const std::string& function) noexcept {
  bool has = false;
  guarded([&] {
    if (!started_) return;
    State& mine = state();
    const std::lock_guard lock(mine.mutex);
    const auto functions = mine.code.find(digest);
    has = functions != mine.code.end() && functions->second.contains(function);
  });
  return has;
}

void Recording::deliver_code(const spool::Kernel& kernel, std::span<const std::byte> image) noexcept {
  guarded([&] {
    if (!start()) return;
    State& mine = state();
    // Held while the code is appended: it must come before the calls of other threads that find it delivered.
    const std::lock_guard lock(mine.mutex);
    auto& functions = mine.code[kernel.digest];
    const bool image_is_there = !functions.empty();
    if (!functions.insert(kernel.name).second) return;
    if (image_is_there) image = {};
    mine.frames.append(kernel, image);
    say_trouble(mine);
  });
}

void Recording::deliver_survey(const spool::Surveyed& kernel) noexcept {
  guarded([&] {
    if (!start()) return;
    State& mine = state();
    const std::lock_guard lock(mine.mutex);
    mine.frames.append(kernel);
    notify_writer(mine);
  });
}

void Recording::deliver_trail(const spool::TrailPart& part, std::span<const std::byte> payload) noexcept {
  guarded([&] {
    if (!start()) return;
    State& mine = state();
    const std::lock_guard lock(mine.mutex);
    mine.frames.append(part, payload);
    notify_writer(mine);
  });
}

TargetRing* Recording::ring() noexcept {
  TargetRing* ring = nullptr;
  guarded([&] {
    if (start() && state().ring.is_open()) ring = &state().ring;
  });
  return ring;
}

bool Recording::when_ready(std::function<bool()> is_ready, std::function<void()> work) noexcept {
  bool arranged = false;
  guarded([&] { arranged = delivery_.when_ready(std::move(is_ready), std::move(work)); });
  return arranged;
}

void Recording::device_is_reset() noexcept {
  if (State* mine = state_) mine->ring.pins_are_lost();
}

// Ends the capture. Returns the cut's number, or 0 if there is nothing in it.
uint64_t Recording::cut(bool keep) noexcept {
  if (!started_) return 0;
  wait_for_launches();  // those left go into the next capture
  uint64_t number = 0;
  guarded([&] {
    State& mine = state();
    const std::lock_guard lock(mine.mutex);
    number = mine.cut(keep);
    notify_writer(mine);
  });
  return number;
}

int64_t Recording::complete_capture(std::string& output) noexcept {
  const spool::CancellationHeld uncancelled;
  const std::lock_guard lock(complete_mutex_);
  const uint64_t number = cut(/*keep=*/true);
  if (over_) return -1;
  if (number == 0) return 0;
  State& mine = state();
  auto done = mine.writer.wait_for_cut(number);
  if (!done && mine.writer.is_unreachable()) done = mine.ring.wait_for_cut(number);
  guarded([&] {
    const std::string& usual = mine.frames.output();
    output = done && done->renamed > 0 ? spool::next_name(usual, done->renamed) : usual;
    if (done && done->invocations > 0) observe("completed", std::to_string(done->invocations));
  });
  return done ? done->invocations : -1;
}

void Recording::discard_calls() noexcept {
  if (cut(/*keep=*/false) > 0) observe("discarded", "");
}

void Recording::finish() noexcept {
  if (over_ || depth > 0) return;
  const spool::CancellationHeld uncancelled;
  if (services_.report != nullptr) services_.report();
  drain();
  guarded([&] {
    if (!started_) return;
    State& mine = state();
    const std::unique_lock lock(mine.mutex, std::try_to_lock);  // whoever holds it notifies the writer
    if (!lock) return;
    notify_writer(mine);
    say_missing(mine);
  });
}

size_t Recording::wait_for_launches() noexcept {
  if (over_ || depth > 0) return 0;
  const spool::CancellationHeld uncancelled;
  const int saved = errno;
  const size_t left = delivery_.drain();
  errno = saved;
  return left;
}

void Recording::drain() noexcept {
  if (const size_t left = wait_for_launches(); left > 0) {
    guarded([&] { warn(std::to_string(left) + " launches did not finish and are not recorded"); });
  }
}

void Recording::before_fork() noexcept {
  constexpr std::chrono::seconds kPatience{1};
  holds_start = depth == 0 && start_mutex_.try_lock_for(kPatience);
}

void Recording::after_fork() noexcept {
  if (std::exchange(holds_start, false)) start_mutex_.unlock();
}

void Recording::forget_in_child() noexcept {
  delivery_.forget_in_child();
  if (State* parents = state_) {
    parents->frames.close_in_child();
    parents->ring.close_in_child();
    parents->writer.close_in_child();
  }
  state_ = nullptr;
  started_ = false;
  over_ = false;
  depth = 0;
  holds_start = false;
  new (&start_mutex_) std::timed_mutex;
  new (&complete_mutex_) std::mutex;
}

CallFacts stamped(CallFacts facts) {
  facts.texts["time"] = now();
  facts.texts["label"] = current_label();
  facts.integers["process"] = getpid();
  facts.integers["thread"] = static_cast<int64_t>(syscall(SYS_gettid));
  return facts;
}

}  // namespace msda::record
