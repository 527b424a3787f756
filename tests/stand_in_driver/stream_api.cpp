// The driver's functions of streams, captures and events.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "tests/stand_in_driver/graph.h"
#include "tests/stand_in_driver/stream.h"

namespace msda::stand_in {

namespace {

// May this thread wait for, or ask about, the stream? Invalidates a capture if that is a mistake. With the lock held.
CUresult check_wait(const std::shared_ptr<cuda::StreamHandle>& stream) {
  if (stream->is_legacy) {
    if (const auto capturing = capture_that_legacy_waits_for()) {
      capturing->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  const auto capturing = stream->capture == CU_STREAM_CAPTURE_STATUS_NONE ? capture_to_heed() : stream;
  if (!capturing) return CUDA_SUCCESS;
  capturing->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult nothing() { return CUDA_SUCCESS; }

// Null for a handle that is no event. With the lock held.
cuda::EventHandle* find_event(CUevent handle) {
  const auto found = streams().events.find(handle);
  return found == streams().events.end() ? nullptr : found->second.get();
}

}  // namespace

void end_streams_of(CUcontext context) {
  const std::lock_guard lock(streams().mutex);
  for (const auto& stream : streams().others) stream->closed |= stream->context == context;
  std::erase_if(streams().others, [](const auto& stream) { return stream->closed && !stream->has_thread; });
  std::erase_if(streams().per_thread, [&](const auto& entry) { return entry.first.second == context; });
  streams().changed.notify_all();
}

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  if (const CUresult error = enter()) return error;
  if (!stream || flags > kStreamNonBlocking) return CUDA_ERROR_INVALID_VALUE;
  const auto fresh = std::make_shared<cuda::StreamHandle>();
  fresh->blocking = flags != kStreamNonBlocking;
  const std::lock_guard lock(streams().mutex);
  streams().others.push_back(fresh);
  *stream = fresh.get();
  return CUDA_SUCCESS;
}

// Does not wait: what is in the queue still runs.
CUresult cuStreamDestroy_v2(CUstream stream) {
  if (const CUresult error = enter()) return error;
  if (reinterpret_cast<uintptr_t>(stream) <= kStreamPerThread) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock(streams().mutex);
  const auto found = find_stream(stream);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  found->closed = true;
  found->capture = CU_STREAM_CAPTURE_STATUS_NONE;
  if (!found->has_thread) std::erase(streams().others, found);
  streams().changed.notify_all();
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  if (const CUresult error = enter()) return error;
  Ticket ticket;
  {
    const std::lock_guard lock(streams().mutex);
    const auto found = find_stream(stream);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult error = check_wait(found)) return error;
    ticket = {found, found->submitted};
  }
  // The legacy stream's own work is not all that it waits for.
  if (ticket.stream->is_legacy) {
    if (const CUresult error = submit_and_wait(nothing)) return error;
  } else {
    wait(ticket);
  }
  return enter();
}

CUresult cuStreamQuery(CUstream stream) {
  if (const CUresult error = enter()) return error;
  const std::lock_guard lock(streams().mutex);
  const auto found = find_stream(stream);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult error = check_wait(found)) return error;
  return idle(found) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void*), void* data) {
  if (const CUresult error = enter()) return error;
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  cuda::GraphNodeHandle node{cuda::NodeType::kHost};
  node.host = {function, data};
  return submit_or_capture(stream, std::move(node));
}

// Waits until the word is at least the value, or equal to it.
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr at, unsigned int value, unsigned int flags) {
  constexpr unsigned int kAtLeast = 0, kEqual = 1;
  if (const CUresult error = enter()) return error;
  if (!allocated(at, sizeof value) || flags > kEqual) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, [=] {
    const std::atomic_ref word(*reinterpret_cast<unsigned int*>(static_cast<uintptr_t>(at)));
    const auto is_reached = [&] {
      const unsigned int now = word.load();
      return flags == kAtLeast ? static_cast<int>(now - value) >= 0 : now == value;
    };
    while (!is_reached()) std::this_thread::sleep_for(std::chrono::microseconds(50));
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSynchronize(void) {
  if (const CUresult error = enter()) return error;
  {
    const std::lock_guard lock(streams().mutex);
    for (const auto& stream : streams().others) {
      if (stream->capture == CU_STREAM_CAPTURE_STATUS_NONE) continue;
      stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  wait_for_all(context_of_thread());
  return enter();
}

CUresult cuStreamIsCapturing(CUstream stream, int* status) {
  if (const CUresult error = enter()) return error;
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(streams().mutex);
  const auto found = find_stream(stream);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  if (found->is_legacy && capture_that_legacy_waits_for()) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = found->capture;
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(*mode, capture_mode_of_thread);
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  if (const CUresult error = enter()) return error;
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(streams().mutex);
  const auto found = find_stream(stream);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  if (found->is_legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (found->capture != CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_ILLEGAL_STATE;
  found->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  found->capture_mode = mode;
  found->capture_thread = std::this_thread::get_id();
  found->capture_graph = new_graph();
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  if (const CUresult error = enter()) return error;
  const std::lock_guard lock(streams().mutex);
  const auto found = find_stream(stream);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  if (found->capture == CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_ILLEGAL_STATE;
  if (found->capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED && found->capture_thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const bool valid = found->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  found->capture = CU_STREAM_CAPTURE_STATUS_NONE;
  if (!valid || !graph) destroy_graph(found->capture_graph);
  if (graph) *graph = valid ? found->capture_graph : nullptr;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  if (const CUresult error = enter()) return error;
  if (!event || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  auto fresh = std::make_unique<cuda::EventHandle>();
  *event = fresh.get();
  const std::lock_guard lock(streams().mutex);
  streams().events[*event] = std::move(fresh);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event) {
  if (const CUresult error = enter()) return error;
  const std::lock_guard lock(streams().mutex);
  return streams().events.erase(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  if (const CUresult error = enter()) return error;
  {
    const std::lock_guard lock(streams().mutex);
    if (!find_event(event)) return CUDA_ERROR_INVALID_HANDLE;
  }
  const auto reached = std::make_shared<double>();
  const auto note_time = [reached] {
    const std::chrono::duration<double, std::milli> now = std::chrono::steady_clock::now().time_since_epoch();
    *reached = now.count();
    return CUDA_SUCCESS;
  };
  const Submitted submitted = submit_after(stream, note_time, false, {});
  if (submitted.result) return submitted.result;
  const std::lock_guard lock(streams().mutex);
  if (cuda::EventHandle* const found = find_event(event)) *found = {submitted.ticket, submitted.captured, reached};
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
  if (enter() == CUDA_ERROR_NOT_INITIALIZED) return CUDA_ERROR_NOT_INITIALIZED;
  {
    const std::lock_guard lock(streams().mutex);
    const cuda::EventHandle* const found = find_event(event);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    if (found->captured) return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult error = enter()) return error;
  if (const CUresult error = forbidden_in_capture()) return error;
  const std::lock_guard lock(streams().mutex);
  const cuda::EventHandle* const found = find_event(event);
  return !found || found->ticket.done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  if (const CUresult error = enter()) return error;
  const std::lock_guard lock(streams().mutex);
  const cuda::EventHandle *const first = find_event(begin), *const second = find_event(end);
  if (!milliseconds || !first || !second || !first->milliseconds || !second->milliseconds) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!first->ticket.done() || !second->ticket.done()) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(*second->milliseconds - *first->milliseconds);
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  if (enter() == CUDA_ERROR_NOT_INITIALIZED) return CUDA_ERROR_NOT_INITIALIZED;
  Ticket ticket;
  {
    const std::lock_guard lock(streams().mutex);
    const cuda::EventHandle* const found = find_event(event);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    if (found->captured) return CUDA_ERROR_INVALID_VALUE;
    ticket = found->ticket;
  }
  if (const CUresult error = enter()) return error;
  if (const CUresult error = forbidden_in_capture()) return error;
  wait(ticket);
  return enter();
}

// The real driver makes a stream that waits for a captured event part of the capture; here that is not supported.
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int) {
  if (const CUresult error = enter()) return error;
  Ticket ticket;
  {
    const std::lock_guard lock(streams().mutex);
    const cuda::EventHandle* const recorded = find_event(event);
    const auto found = find_stream(stream);
    if (!recorded || !found) return CUDA_ERROR_INVALID_HANDLE;
    ticket = recorded->ticket;
    if (found->capture == CU_STREAM_CAPTURE_STATUS_NONE && recorded->captured) return CUDA_ERROR_NOT_SUPPORTED;
    if (found->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE && ticket.stream) {
      found->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
  }
  return submit_after(stream, nothing, false, ticket).result;
}

}  // extern "C"

}  // namespace msda::stand_in
