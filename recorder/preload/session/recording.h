// What this process records: its spool, its writer process, and the calls on their way into them. The hooks, for calls
// on the CPU and for launches, hand over what they saw; nothing here throws, and after the first trouble nothing here
// does anything any more.
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

// What the device's side does for a recording. Null functions do nothing.
struct DeviceServices {
  void (*pin)(void* memory, uint64_t bytes) = nullptr;  // TargetRing::Owner says what these are
  void (*unpin)(void* memory) = nullptr;
  void (*add_facts)(std::map<std::string, std::string>& facts) = nullptr;  // of the calling thread's device
};

class Recording {
 public:
  explicit Recording(const Config& config);
  void serve(const DeviceServices& services) { services_ = services; }

  // Nothing more is recorded.
  bool is_over() const noexcept { return over_; }
  // Whether a kernel of this name is asked for, and recording is not over.
  bool wants(const char* kernel) noexcept;
  // Starts the recording, if that has not been done. False if nothing is recorded any more.
  bool start() noexcept;
  // Nothing more from this process; says why, if there is a reason.
  void stop(const std::string& why = "") noexcept;

  // A call of the C ABI begins. Empty if it is not to be recorded. `options` distinguish calls with equal inputs;
  // stream and device do not.
  std::optional<HostCall> begin_call(const CallFacts& facts, const std::vector<HostTensor>& inputs,
                                     const std::string& options) noexcept;
  // It has succeeded. A HostCall that ends without this has failed.
  void end_call(HostCall&& call, const std::vector<HostTensor>& outputs) noexcept;

  // A launch of this content begins, with output buffers that hold what `before` names. Empty if nothing is recorded.
  std::optional<RegisteredContent> register_content(const std::string& key, const std::string& before) noexcept;
  // The device is done with it.
  void deliver(LaunchRecord&& record) noexcept;
  // Equal launches of which nothing is kept. False if the content is not recorded (any more).
  bool count_duplicates(const std::string& key, const std::string& code, const std::string& outputs_digest,
                        int64_t launches) noexcept;
  bool knows_content(const std::string& key) noexcept;
  // A launch that was neither recorded nor counted, though it should have been.
  void report_missed_launch(const std::string& kernel) noexcept;
  // Of a row of equal launches the last is held back until another one comes. Called when none has come for a while.
  void write_held() noexcept;

  // Whether the image of that digest has been delivered.
  bool has_code(const std::string& digest) noexcept;
  // The image of a launch's code, that its facts name by "kernel_digest"; kept once.
  void deliver_code(const spool::Kernel& kernel, std::span<const std::byte> image) noexcept;

  // The memory shared with the writer; null if there is none.
  TargetRing* ring() noexcept;
  // Does work once the device is done with what it is for. False if that cannot be arranged.
  bool when_ready(std::function<bool()> is_ready, std::function<void()> work) noexcept;
  // The device forgets what the recorder pinned.
  void device_is_reset() noexcept;

  // Waits for launches under way. From a signal handler, too.
  void drain() noexcept;
  // The program ends: waits for launches under way, and tells the writer. From a signal handler, too.
  void finish() noexcept;

  // In a forked child: everything so far is the parent's.
  void forget_in_child() noexcept;

 private:
  friend class RegisteredContent;
  struct State;

  template <class Work>
  void guarded(Work&& work) noexcept;
  bool start_locked(State& state);
  State& state();
  void abandon(const RegisteredContent& content) noexcept;
  void say_trouble(State& state);
  void notify_writer(State& state);

  const Config& config_;
  DeviceServices services_;
  std::atomic<bool> over_{false}, started_{false};
  std::mutex start_mutex_;
  std::atomic<State*> state_{nullptr};  // never destroyed: threads of the host may still call while the program ends
  DeliveryThread delivery_;
};

// This process' own. In a copy of the process that is not a fork's (a vfork child, a raw clone) one that is over.
Recording& recording() noexcept;

// Recording::finish() of this process, if it has a recording. From a signal handler, too.
void finish_recording() noexcept;

// Facts with the time, the process, the calling thread and its label.
CallFacts stamped(CallFacts facts);

}  // namespace msda::record
