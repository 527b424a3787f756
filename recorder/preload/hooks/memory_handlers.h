// The handlers of memory_table.h: each takes a hook (driver_hook.cpp) and returns a wrapper's body.
#pragma once

#include <cstddef>

#include "recorder/preload/driver/copy_layout.h"
#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/hooks/watching.h"
#include "recorder/preload/session/config.h"
#include "recorder/preload/survey/foreign_memory.h"

namespace msda::record {

inline unsigned first_of(unsigned flags, auto...) { return flags; }

template <class Hook>
auto created_stream(Hook hook) {
  return [hook](cuda::Stream* stream, auto... arguments) {
    const cuda::Result result = hook(stream, arguments...);
    if (surveys() && result == cuda::kSuccess) Survey::instance().memory().stream_created(*stream);
    if (trails() && result == cuda::kSuccess) Trail::instance().stream_created(*stream, first_of(arguments...));
    return result;
  };
}

inline void note_stream(cuda::Stream stream) { Survey::instance().memory().stream_used(stream); }
void note_stream(const auto&) {}

// While it lives no launch is run again, and repeated launches have ended.
inline TrialLock::Turn undisturbed_turn() { return surveys() ? Survey::instance().no_trial() : TrialLock::Turn(); }

// Gives the device the digests that it has not been given yet: after this, memory may change.
inline void flush_trail() {
  if (trails()) Trail::instance().flush();
}

// Handles calls that must not happen while a launch is run again, or that give a stream work which may wait for the
// program.
template <class Hook>
auto undisturbed(Hook hook) {
  return [hook](auto... arguments) {
    flush_trail();
    if (!surveys()) return hook(arguments...);
    const auto alone = Survey::instance().no_trial();
    (note_stream(arguments), ...);
    return hook(arguments...);
  };
}

inline void take_stream(Trail::Work& work, cuda::Stream stream) {
  work.stream = stream;
  work.is_waited_for = false;
}
void take_stream(Trail::Work&, const auto&) {}

// Does a copy or a memset that leaves a trail, with these arguments.
template <class Hook>
cuda::Result do_trailed(Trail::Work& work, Hook hook, auto... arguments) {
  (take_stream(work, arguments), ...);
  work.stream = stream_of(hook, work.stream);
  Trail::instance().before_work(work);
  const cuda::Result result = hook(arguments...);
  Trail::instance().after_work(work, result);
  return result;
}

template <class Hook>
auto waited_for_event(Hook hook) {
  return [hook](cuda::Stream stream, cuda::Event event, unsigned flags) {
    if (!trails()) return undisturbed(hook)(stream, event, flags);
    Trail::instance().stream_waits(stream_of(hook, stream), event);
    return hook(stream, event, flags);
  };
}

// Does a call that writes memory, with these arguments: `note` notes where, and `what` returns the work that it is.
template <class Note, class What, class Hook>
cuda::Result write_noted(Note&& note, What&& what, Hook hook, auto... arguments) {
  if (trails()) {
    Trail::Work work = what();
    note(work.written);
    return do_trailed(work, hook, arguments...);
  }
  if (!surveys()) return hook(arguments...);
  const auto alone = Survey::instance().no_trial();
  (note_stream(arguments), ...);
  note(Survey::instance().unwritten());
  return hook(arguments...);
}

inline Trail::Work work_within() { return Trail::Work(spool::TrailRow::kCopyWithin); }
inline Trail::Work work_from(const void* host, size_t) {
  Trail::Work work(spool::TrailRow::kCopyIn);
  work.from_host = host;
  return work;
}
inline Trail::Work work_from(cuda::DevicePointer from, size_t bytes) {
  Trail::Work work = work_within();
  work.read = {from, bytes};
  return work;
}

template <class Hook>
auto written_anywhere(Hook hook) {
  return [hook](auto... arguments) {
    return write_noted([](auto& memory) { memory.all_written(); }, work_within, hook, arguments...);
  };
}

template <class Hook>
auto copied_memory(Hook hook) {
  return [hook](cuda::DevicePointer to, auto from, size_t bytes, auto... stream) {
    return write_noted(
        [&](auto& memory) {
          memory.written({to, bytes});
        },
        [&] { return work_from(from, bytes); }, hook, to, from, bytes, stream...);
  };
}

// Handles a copy to the host, which may decide by what it reads.
template <class Hook>
auto copied_to_host(Hook hook) {
  return [hook](void* to, cuda::DevicePointer from, size_t bytes, auto... stream) {
    if (!trails()) return undisturbed(hook)(to, from, bytes, stream...);
    Trail::Work work(spool::TrailRow::kCopyOut);
    work.read = {from, bytes};
    return do_trailed(work, hook, to, from, bytes, stream...);
  };
}

template <class Hook>
auto copied_to_peer(Hook hook) {
  return [hook](cuda::DevicePointer to, cuda::Context of_to, cuda::DevicePointer from, cuda::Context of_from,
                size_t bytes, auto... stream) {
    return write_noted(
        [&](auto& memory) {
          memory.written({to, bytes});
        },
        work_within, hook, to, of_to, from, of_from, bytes, stream...);
  };
}

// Handles a copy of rows or of a box, as `Copy` describes it.
template <class Copy, class Hook>
auto copied_as_told(Hook hook) {
  return [hook](const void* copy, auto... stream) {
    const auto note = [&](auto& memory) {
      if (copy != nullptr) memory.copied(*static_cast<const Copy*>(copy));
    };
    const auto what = [&] { return copy != nullptr ? Trail::work_of(*static_cast<const Copy*>(copy)) : Trail::Work(); };
    return write_noted(note, what, hook, copy, stream...);
  };
}
template <class Hook>
auto copied_rows(Hook hook) {
  return copied_as_told<cuda::CopyOfRows>(hook);
}
template <class Hook>
auto copied_box(Hook hook) {
  return copied_as_told<cuda::CopyOfBox>(hook);
}

inline Trail::Work work_that_sets(uint64_t value) {
  Trail::Work work(spool::TrailRow::kSet);
  work.value = value;
  return work;
}

template <class Hook>
auto set_memory(Hook hook) {
  return [hook](cuda::DevicePointer to, auto value, size_t count, auto... stream) {
    return write_noted(
        [&](auto& memory) {
          memory.written({to, sizeof value * count});
        },
        [&] { return work_that_sets(value); }, hook, to, value, count, stream...);
  };
}

template <class Hook>
auto set_rows(Hook hook) {
  return [hook](cuda::DevicePointer to, size_t pitch, auto value, size_t width, size_t height, auto... stream) {
    return write_noted(
        [&](auto& memory) {
          memory.written_rows({to, sizeof value * width}, pitch, height);
        },
        [&] { return work_that_sets(value); }, hook, to, pitch, value, width, height, stream...);
  };
}

template <class Hook>
auto wrote_value(Hook hook) {
  return [hook](cuda::Stream stream, cuda::DevicePointer to, auto value, unsigned flags) {
    return write_noted(
        [&](auto& memory) {
          memory.written({to, sizeof value});
        },
        [&] { return work_that_sets(value); }, hook, stream, to, value, flags);
  };
}

// Calls the hook, and once more if the recorder can free memory of its own.
template <class Call>
cuda::Result with_room(Call&& call) {
  constexpr cuda::Result kOutOfMemory = 2;
  const cuda::Result result = call();
  if (result != kOutOfMemory) return result;
  const bool has_more = (surveys() && Survey::instance().make_room()) || (trails() && Trail::instance().make_room());
  return has_more ? call() : result;
}

inline void note_allocation(cuda::Result result, const DeviceRange& range, bool is_of_host, bool is_fresh,
                            bool is_mapped = false) {
  if (result != cuda::kSuccess) return;
  if (surveys()) Survey::instance().memory().allocated(range);
  if (trails()) Trail::instance().allocated(range, is_of_host, is_fresh, is_mapped);
}

// Notes memory that only launches and the functions above write.
inline void note_unwritten(cuda::Result result, cuda::DevicePointer address, size_t bytes) {
  note_allocation(result, {address, bytes}, /*is_of_host=*/false, /*is_fresh=*/true);
  if (config().survey_poison && surveys() && result == cuda::kSuccess) {
    Survey::instance().unwritten().allocated({address, bytes});
  }
}

template <class Hook>
auto allocated_memory(Hook hook) {
  return [hook](cuda::DevicePointer* pointer, size_t bytes, auto... arguments) {
    const cuda::Result result = with_room([&] { return hook(pointer, bytes, arguments...); });
    note_unwritten(result, pointer != nullptr ? *pointer : 0, bytes);
    return result;
  };
}

// Handles memory that the host writes, too, which no hook sees.
template <class Hook>
auto allocated_managed(Hook hook) {
  return [hook](cuda::DevicePointer* pointer, size_t bytes, unsigned flags) {
    const cuda::Result result = with_room([&] { return hook(pointer, bytes, flags); });
    note_allocation(result, {pointer != nullptr ? *pointer : 0, bytes}, /*is_of_host=*/true, /*is_fresh=*/false);
    return result;
  };
}

// Handles memory of the host that devices reach from now on.
template <class Hook>
auto pinned_memory(Hook hook) {
  return [hook](auto... arguments) {
    const cuda::Result result = hook(arguments...);
    if (trails()) Trail::instance().host_memory_changed();
    return result;
  };
}

template <class Hook>
auto allocated_pitch(Hook hook) {
  return [hook](cuda::DevicePointer* pointer, size_t* pitch, size_t width, size_t height, unsigned element) {
    const cuda::Result result = with_room([&] { return hook(pointer, pitch, width, height, element); });
    if (result == cuda::kSuccess) note_unwritten(result, *pointer, *pitch * height);
    return result;
  };
}

inline void note_freed(cuda::DevicePointer pointer, auto...) { Trail::instance().freed(pointer); }
inline void note_freed(cuda::DevicePointer pointer, size_t unmapped) {
  Trail::instance().unmapped({pointer, unmapped});
}

template <class Hook>
auto freed_memory(Hook hook) {
  return [hook](cuda::DevicePointer pointer, auto... arguments) {
    if (trails()) note_freed(pointer, arguments...);
    if (watches_all()) ForeignMemory::instance().forget(pointer);
    if (!surveys()) return hook(pointer, arguments...);
    const auto alone = Survey::instance().no_trial();
    Survey::instance().memory().freed(pointer);
    Survey::instance().unwritten().freed(pointer);
    return hook(pointer, arguments...);
  };
}

}  // namespace msda::record
