// Autotuner launches: launches that measure a kernel on content that is recorded already.
//
// A launch is taken for an autotuner launch if the last launch with the same parameters repeated recorded content, and
// if the program measures it, that is, has recorded a timing event since it last synchronized with the device, or if it
// follows that launch without a synchronization in between. Before an autotuner launch the recorder does nothing; after
// it only digests are computed, which check the inputs.
#pragma once

#include <cstdint>
#include <memory>

#include "recorder/preload/launch/known_launch.h"

namespace msda::record {

// Returns whether the program has recorded a timing event since it last synchronized with the device; and how often it
// has synchronized.
bool program_measures() noexcept;
uint64_t waits_of_program() noexcept;

// Called before a launch: checks the measured launches before it while their inputs still exist, unless this launch
// continues the series. `known` is null for a launch that is no autotuner launch.
void before_another(const KnownLaunch* known, const LastContent& last);
// Called after an autotuner launch, which is taken for a repetition of `last`.
void end_autotuner_launch(cuda::Stream stream, const std::shared_ptr<KnownLaunch>& known,
                          std::shared_ptr<const LastContent> last);

// Lives while the program destroys a stream, or a context, and with it its streams.
class EndOfStream {
 public:
  EndOfStream() noexcept;
  ~EndOfStream();
  EndOfStream(const EndOfStream&) = delete;
  EndOfStream& operator=(const EndOfStream&) = delete;

 private:
  bool locked_ = false;
};

// Called before and after the program synchronizes with the device.
void program_waits() noexcept;
void program_waited() noexcept;
// Called after it has recorded a timing event.
void program_took_time() noexcept;

}  // namespace msda::record
