// The handlers of memory_table.h: each takes a hook (driver_hook.cpp) and returns a wrapper's body.
#pragma once

#include <cstddef>

#include "recorder/preload/driver/copy_layout.h"
#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/session/config.h"
#include "recorder/preload/survey/foreign_memory.h"
#include "recorder/preload/survey/survey.h"

namespace msda::record {

template <class Hook>
auto created_stream(Hook hook) {
  return [hook](cuda::Stream* stream, auto... arguments) {
    const cuda::Result result = hook(stream, arguments...);
    if (surveys() && result == cuda::kSuccess) Survey::instance().memory().stream_created(*stream);
    return result;
  };
}

inline void note_stream(cuda::Stream stream) { Survey::instance().memory().stream_used(stream); }
void note_stream(const auto&) {}

// While it lives no launch is run again, and those that were have come to their end.
inline TrialLock::Turn undisturbed_turn() { return surveys() ? Survey::instance().no_trial() : TrialLock::Turn(); }

// What must not happen while a launch is run again; what gives a stream something to do that may wait for the program.
template <class Hook>
auto undisturbed(Hook hook) {
  return [hook](auto... arguments) {
    if (!surveys()) return hook(arguments...);
    const auto alone = Survey::instance().no_trial();
    (note_stream(arguments), ...);
    return hook(arguments...);
  };
}

// A function that writes memory, with these arguments: `note` tells where.
template <class Note, class Hook>
cuda::Result write_noted(Note&& note, Hook hook, auto... arguments) {
  if (!surveys()) return hook(arguments...);
  const auto alone = Survey::instance().no_trial();
  (note_stream(arguments), ...);
  note(Survey::instance().unwritten());
  return hook(arguments...);
}

template <class Hook>
auto written_anywhere(Hook hook) {
  return [hook](auto... arguments) {
    return write_noted([](Unwritten& memory) { memory.all_written(); }, hook, arguments...);
  };
}

template <class Hook>
auto copied_memory(Hook hook) {
  return [hook](cuda::DevicePointer to, auto from, size_t bytes, auto... stream) {
    return write_noted([&](Unwritten& memory) { memory.written({to, bytes}); }, hook, to, from, bytes, stream...);
  };
}

template <class Hook>
auto copied_to_peer(Hook hook) {
  return [hook](cuda::DevicePointer to, cuda::Context of_to, cuda::DevicePointer from, cuda::Context of_from,
                size_t bytes, auto... stream) {
    return write_noted(
        [&](Unwritten& memory) {
          memory.written({to, bytes});
        },
        hook, to, of_to, from, of_from, bytes, stream...);
  };
}

// Of rows, or of a box, as `Copy` tells it.
template <class Copy, class Hook>
auto copied_as_told(Hook hook) {
  return [hook](const void* copy, auto... stream) {
    const auto note = [&](Unwritten& memory) {
      if (copy != nullptr) memory.copied(*static_cast<const Copy*>(copy));
    };
    return write_noted(note, hook, copy, stream...);
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

template <class Hook>
auto set_memory(Hook hook) {
  return [hook](cuda::DevicePointer to, auto value, size_t count, auto... stream) {
    return write_noted(
        [&](Unwritten& memory) {
          memory.written({to, sizeof value * count});
        },
        hook, to, value, count, stream...);
  };
}

template <class Hook>
auto set_rows(Hook hook) {
  return [hook](cuda::DevicePointer to, size_t pitch, auto value, size_t width, size_t height, auto... stream) {
    return write_noted(
        [&](Unwritten& memory) {
          memory.written_rows({to, sizeof value * width}, pitch, height);
        },
        hook, to, pitch, value, width, height, stream...);
  };
}

template <class Hook>
auto wrote_value(Hook hook) {
  return [hook](cuda::Stream stream, cuda::DevicePointer to, auto value, unsigned flags) {
    return write_noted([&](Unwritten& memory) { memory.written({to, sizeof value}); }, hook, stream, to, value, flags);
  };
}

// Calls the hook, and again if there is more memory without the survey's.
template <class Call>
cuda::Result with_room(Call&& call) {
  constexpr cuda::Result kOutOfMemory = 2;
  const cuda::Result result = call();
  return result == kOutOfMemory && surveys() && Survey::instance().make_room() ? call() : result;
}

inline void note_allocation(cuda::Result result, cuda::DevicePointer address, size_t bytes) {
  if (surveys() && result == cuda::kSuccess) Survey::instance().memory().allocated({address, bytes});
}

// Memory that only launches and the functions above write.
inline void note_unwritten(cuda::Result result, cuda::DevicePointer address, size_t bytes) {
  note_allocation(result, address, bytes);
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

// The host writes it, too, and no hook sees that.
template <class Hook>
auto allocated_managed(Hook hook) {
  return [hook](cuda::DevicePointer* pointer, size_t bytes, unsigned flags) {
    const cuda::Result result = with_room([&] { return hook(pointer, bytes, flags); });
    note_allocation(result, pointer != nullptr ? *pointer : 0, bytes);
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

template <class Hook>
auto freed_memory(Hook hook) {
  return [hook](cuda::DevicePointer pointer, auto... arguments) {
    if (!surveys()) return hook(pointer, arguments...);
    const auto alone = Survey::instance().no_trial();
    Survey::instance().memory().freed(pointer);
    Survey::instance().unwritten().freed(pointer);
    ForeignMemory::instance().forget(pointer);
    return hook(pointer, arguments...);
  };
}

}  // namespace msda::record
