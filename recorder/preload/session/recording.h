// The recording of this process: its spool, its writer process, and the calls being recorded. The hooks hand over CPU
// calls and launches. Nothing here throws, and after the first error all functions do nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recorder/preload/session/call_record.h"
#include "recorder/preload/session/config.h"
#include "recorder/preload/session/delivery_thread.h"
#include "recorder/preload/session/target_ring.h"
#include "recorder/spool/messages.h"

namespace msda::record {

// Functions of the CUDA driver that a recording calls. A null function does nothing.
struct DeviceServices {
  void (*pin)(void* memory, uint64_t bytes) = nullptr;  // see TargetRing::Owner
  void (*unpin)(void* memory) = nullptr;
  void (*find)() = nullptr;  // the driver's functions; takes some stack, the first time
  void (*add_facts)(std::map<std::string, std::string>& facts) = nullptr;  // of the calling thread's device
  void (*report)() = nullptr;  // delivers what is still to be reported, before the end
};

class Recording {
 public:
  explicit Recording(const Config& config);
  void serve(const DeviceServices& services) { services_ = services; }

  // Returns whether recording has ended.
  bool is_over() const noexcept { return over_; }
  // Returns whether --kernel selects this name, and recording has not ended.
  bool wants(const char* kernel) noexcept;
  // Starts the recording, unless it has started. Returns false if recording has ended.
  bool start() noexcept;
  // Ends the recording of this process; prints `why`, unless it is empty.
  void stop(const std::string& why = "") noexcept;

  // Called when a call of the C ABI begins. Returns nothing if it is not to be recorded. `options` distinguish calls
  // with equal inputs; stream and device do not.
  std::optional<HostCall> begin_call(const CallFacts& facts, const std::vector<HostTensor>& inputs,
                                     const std::string& options) noexcept;
  // Called when the call has succeeded. A HostCall that is destroyed without this has failed.
  void end_call(HostCall&& call, const std::vector<HostTensor>& outputs) noexcept;

  // Called when a launch of this content begins; `before` identifies what its output buffers hold. Returns nothing if
  // recording has ended.
  std::optional<RegisteredContent> register_content(const std::string& key, const std::string& before) noexcept;
  // Called when the device has finished the launch.
  void deliver(LaunchRecord&& record) noexcept;
  // Counts equal launches that are not recorded. Returns false if the content is not recorded, or no longer.
  bool count_duplicates(const std::string& key, const std::string& code, const std::string& outputs_digest,
                        int64_t launches) noexcept;
  bool knows_content(const std::string& key) noexcept;
  // Warns of a launch that should have been recorded or counted, and was not.
  void report_missed_launch(const std::string& kernel) noexcept;
  // Writes the last of a series of equal launches, which is held back until another one comes. Called when none has
  // come for a while.
  void write_held() noexcept;

  // Returns whether this function of the image with this digest has been delivered.
  bool has_code(const std::string& digest, const std::string& function) noexcept;
  // Delivers the image of a launch's code, which the launch's facts name by "kernel_digest"; recorded once.
  void deliver_code(const spool::Kernel& kernel, std::span<const std::byte> image) noexcept;

  // Delivers what a survey knows of a kernel so far.
  void deliver_survey(const spool::Surveyed& kernel) noexcept;

  // Delivers the next part of the trail.
  void deliver_trail(const spool::TrailPart& part, std::span<const std::byte> payload) noexcept;

  // Returns the memory shared with the writer; null if there is none.
  TargetRing* ring() noexcept;
  // Runs `work` on the delivery thread once `is_ready` returns true. Returns false if that cannot be arranged.
  bool when_ready(std::function<bool()> is_ready, std::function<void()> work) noexcept;
  // Called when the device was reset and has lost what the recorder pinned.
  void device_is_reset() noexcept;

  // Completes the capture of the calls so far; the next call begins another one under the same name. Waits until its
  // file, whose name it returns in `output`, is closed. Returns the number of its invocations: 0 if there are none, and
  // no file; -1 if that is not known, because recording or its writer has ended.
  int64_t complete_capture(std::string& output) noexcept;
  // Discards the calls so far.
  void discard_calls() noexcept;

  // Waits for launches under way, and warns of those that do not finish. A signal handler may call it.
  void drain() noexcept;
  // Called when the program ends: waits for launches under way, and notifies the writer, or does what a writer that has
  // ended leaves to it. A signal handler may call it.
  void finish() noexcept;

  // Makes a fork wait while another thread starts the recording: the locks that thread holds, libc's among them, would
  // be held in the child for ever.
  void before_fork() noexcept;
  void after_fork() noexcept;
  // Called in a forked child: everything so far is the parent's.
  void forget_in_child() noexcept;

 private:
  friend class RegisteredContent;
  struct State;
  struct Answer {  // to wants()
    std::string kernel;
    bool wanted;
    const Answer* before;
  };

  const Answer* answer_for(const char* kernel);
  template <class Work>
  void guarded(Work&& work) noexcept;
  bool open(State& state);
  bool start_locked(State& state);
  State& state();
  void abandon(const RegisteredContent& content) noexcept;
  size_t wait_for_launches() noexcept;  // returns how many did not finish
  uint64_t cut(bool keep) noexcept;
  void say_trouble(State& state);
  void notify_writer(State& state);
  void say_missing(State& state);

  const Config& config_;
  DeviceServices services_;
  std::atomic<bool> over_{false}, started_{false};
  std::timed_mutex start_mutex_;
  std::mutex complete_mutex_;  // one thread at a time waits for the writer's answer
  std::atomic<const Answer*> answers_{nullptr};
  std::atomic<State*> state_{nullptr};  // never destroyed: threads of the program may still call while it ends
  DeliveryThread delivery_;
};

// Returns this process' recording; in a copy of the process that no fork handler has seen (a vfork child, a raw clone),
// one that has ended.
Recording& recording() noexcept;

// Calls Recording::finish() if this process has a recording. A signal handler may call it.
void finish_recording() noexcept;

// Returns the facts with time, process, calling thread and label added.
CallFacts stamped(CallFacts facts);

}  // namespace msda::record
