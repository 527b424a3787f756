// Streams: queues of work, each with a thread of its own if MSDA_STAND_IN_ASYNC=1.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/stand_in_driver/driver.h"

namespace msda::stand_in {

// A point in a stream: done once the stream has completed that many tasks. Without a stream: nothing to wait for.
struct Ticket {
  std::shared_ptr<cuda::StreamHandle> stream;
  uint64_t number = 0;

  bool done() const;
};

struct Task {
  Work work;
  std::vector<Ticket> after;  // in other streams
};

}  // namespace msda::stand_in

namespace msda::cuda {

struct StreamHandle {
  const Context context = stand_in::context_of_thread();
  const bool is_legacy = false;
  bool blocking = true;  // ordered with the legacy stream
  bool closed = false;   // destroyed by the program; ends once its queue is empty
  bool has_thread = false;
  std::deque<stand_in::Task> queue;
  uint64_t submitted = 0, completed = 0;
  stand_in::CUstreamCaptureStatus capture = stand_in::CU_STREAM_CAPTURE_STATUS_NONE;
  stand_in::CUstreamCaptureMode capture_mode = stand_in::CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id capture_thread;
  Graph capture_graph = nullptr;
};

struct EventHandle {
  stand_in::Ticket ticket;
  bool captured = false;                           // last recorded in a capturing stream
  std::shared_ptr<double> milliseconds = nullptr;  // when it was reached
};

}  // namespace msda::cuda

namespace msda::stand_in {

// Has every stream a thread?
bool async_wanted();

struct Streams {
  const bool async = async_wanted();
  std::mutex run;    // held while work runs on its caller's thread; taken before `mutex`
  std::mutex mutex;  // guards all below, and the streams and events
  std::condition_variable changed;
  std::map<CUcontext, std::shared_ptr<cuda::StreamHandle>> legacy;
  std::vector<std::shared_ptr<cuda::StreamHandle>> others;
  // These are among the others, too.
  std::map<std::pair<std::thread::id, CUcontext>, std::shared_ptr<cuda::StreamHandle>> per_thread;
  std::map<CUevent, std::unique_ptr<cuda::EventHandle>> events;
};

Streams& streams();

// All below: call with `mutex` held.

// The stream of a context; made when it is first asked for.
const std::shared_ptr<cuda::StreamHandle>& legacy_of(CUcontext context);

// Null for a handle that is no stream. What stands for the default streams means those of the thread's context.
std::shared_ptr<cuda::StreamHandle> find_stream(CUstream handle, bool null_is_per_thread = false);

// If a blocking stream captures, then work on the legacy stream would depend on it. Null if none does.
std::shared_ptr<cuda::StreamHandle> capture_that_legacy_waits_for();

// A thread's mode concerning captures of other threads: with RELAXED it may allocate and wait.
extern thread_local int capture_mode_of_thread;

// A capture that forbids this thread to allocate or wait. Null if there is none.
std::shared_ptr<cuda::StreamHandle> capture_to_heed();

bool idle(const std::shared_ptr<cuda::StreamHandle>& stream);

// The rest takes the lock itself.

struct Submitted {
  CUresult result;
  Ticket ticket;
  bool captured;  // the work was dropped, as part of a graph
};

Submitted submit_after(CUstream handle, Work work, bool null_is_per_thread, Ticket after);

void wait(const Ticket& ticket);

}  // namespace msda::stand_in
