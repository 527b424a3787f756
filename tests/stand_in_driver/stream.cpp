#include "tests/stand_in_driver/stream.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace msda::stand_in {

namespace {

void run_work(const Work& work) {
  if (const CUresult error = work()) fail(error);
}

// The thread of a stream.
void work_off(const std::shared_ptr<cuda::StreamHandle>& stream) {
  Streams& all = streams();
  std::unique_lock lock(all.mutex);
  while (true) {
    all.changed.wait(lock, [&] { return stream->closed || !stream->queue.empty(); });
    if (stream->queue.empty()) break;
    const Task task = std::move(stream->queue.front());
    stream->queue.pop_front();
    all.changed.wait(lock, [&] { return std::ranges::all_of(task.after, &Ticket::done); });
    lock.unlock();
    run_work(task.work);
    lock.lock();
    ++stream->completed;
    all.changed.notify_all();
  }
  std::erase(all.others, stream);
}

// The legacy stream waits for every blocking stream, and every blocking stream for it. Tickets point to what was
// submitted before, so that no two streams can wait for each other.
std::vector<Ticket> implied_order(const std::shared_ptr<cuda::StreamHandle>& stream) {
  const Streams& all = streams();
  std::vector<Ticket> after;
  if (stream->is_legacy) {
    for (const auto& another : all.others) {
      if (another->blocking && another->context == stream->context) after.push_back({another, another->submitted});
    }
  } else if (stream->blocking) {
    const auto& legacy = legacy_of(stream->context);
    after.push_back({legacy, legacy->submitted});
  }
  std::erase_if(after, &Ticket::done);
  return after;
}

}  // namespace

bool async_wanted() {
  const char* const value = std::getenv("MSDA_STAND_IN_ASYNC");
  return value && std::strcmp(value, "1") == 0;
}

bool Ticket::done() const { return !stream || stream->completed >= number; }

// Never destroyed: the streams' threads are not joined, so they may still work while the process exits.
Streams& streams() {
  static Streams* const instance = new Streams;
  return *instance;
}

const std::shared_ptr<cuda::StreamHandle>& legacy_of(CUcontext context) {
  auto& stream = streams().legacy[context];
  if (!stream) stream = std::make_shared<cuda::StreamHandle>(context, /*is_legacy=*/true);
  return stream;
}

std::shared_ptr<cuda::StreamHandle> find_stream(CUstream handle, bool null_is_per_thread) {
  Streams& all = streams();
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (value == kStreamLegacy || (value == 0 && !null_is_per_thread)) return legacy_of(context_of_thread());
  if (value == kStreamPerThread || value == 0) {
    auto& stream = all.per_thread[{std::this_thread::get_id(), context_of_thread()}];
    if (!stream) stream = all.others.emplace_back(std::make_shared<cuda::StreamHandle>());
    return stream;
  }
  const auto found =
      std::ranges::find_if(all.others, [&](const auto& stream) { return stream.get() == handle && !stream->closed; });
  return found == all.others.end() ? nullptr : *found;
}

std::shared_ptr<cuda::StreamHandle> capture_that_legacy_waits_for() {
  for (const auto& stream : streams().others) {
    if (stream->context == context_of_thread() && stream->blocking &&
        stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
      return stream;
    }
  }
  return nullptr;
}

thread_local int capture_mode_of_thread = CU_STREAM_CAPTURE_MODE_GLOBAL;

std::shared_ptr<cuda::StreamHandle> capture_to_heed() {
  if (capture_mode_of_thread == CU_STREAM_CAPTURE_MODE_RELAXED) return nullptr;
  for (const auto& stream : streams().others) {
    if (stream->capture == CU_STREAM_CAPTURE_STATUS_NONE) continue;
    const bool own = stream->capture_thread == std::this_thread::get_id();
    if (stream->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
        (stream->capture_mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && own)) {
      return stream;
    }
  }
  return nullptr;
}

bool idle(const std::shared_ptr<cuda::StreamHandle>& stream) {
  if (stream->completed != stream->submitted) return false;
  return !stream->is_legacy || implied_order(stream).empty();
}

Submitted submit_after(CUstream handle, Work work, bool null_is_per_thread, Ticket after) {
  Streams& all = streams();
  std::unique_lock running(all.run, std::defer_lock);
  if (!all.async) running.lock();
  std::unique_lock lock(all.mutex);
  const auto stream = find_stream(handle, null_is_per_thread);
  if (!stream || stream->context != context_of_thread()) return {CUDA_ERROR_INVALID_HANDLE, {}, false};
  if (stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE) return {CUDA_SUCCESS, {}, true};
  if (stream->capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED) return {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, {}, true};
  if (stream->is_legacy) {
    if (const auto capturing = capture_that_legacy_waits_for()) {
      capturing->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
      return {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, {}, false};
    }
  }
  const Ticket ticket{stream, ++stream->submitted};
  if (all.async) {
    Task task{std::move(work), implied_order(stream)};
    task.after.push_back(std::move(after));
    stream->queue.push_back(std::move(task));
    if (!stream->has_thread) std::thread(work_off, stream).detach();
    stream->has_thread = true;
    all.changed.notify_all();
  } else {
    lock.unlock();
    stand_in::run_work(work);
    lock.lock();
    ++stream->completed;
    all.changed.notify_all();
  }
  return {CUDA_SUCCESS, ticket, false};
}

void wait(const Ticket& ticket) {
  std::unique_lock lock(streams().mutex);
  streams().changed.wait(lock, [&] { return ticket.done(); });
}

CUresult submit(CUstream stream, Work work, bool null_is_per_thread) {
  return submit_after(stream, std::move(work), null_is_per_thread, {}).result;
}

CUresult submit_and_wait(Work work) {
  const Submitted submitted = submit_after(nullptr, std::move(work), false, {});
  if (!submitted.result) wait(submitted.ticket);
  return submitted.result;
}

void wait_for_all(CUcontext context) {
  std::vector<Ticket> tickets;
  {
    const std::lock_guard lock(streams().mutex);
    const auto& legacy = legacy_of(context);
    tickets.push_back({legacy, legacy->submitted});
    for (const auto& stream : streams().others) {
      if (stream->context == context) tickets.push_back({stream, stream->submitted});
    }
  }
  for (const Ticket& ticket : tickets) wait(ticket);
}

CUresult forbidden_in_capture() {
  const std::lock_guard lock(streams().mutex);
  const auto capturing = capture_to_heed();
  if (!capturing) return CUDA_SUCCESS;
  capturing->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

}  // namespace msda::stand_in
