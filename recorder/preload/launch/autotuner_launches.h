// Launches that an autotuner makes to measure a kernel, on content that is recorded already.
//
// A launch whose parameters, and by the digests its inputs too, are those of one before that is recorded already is
// taken for an autotuner launch if the program measures it, having recorded an event that keeps time since it last
// waited for the device, or if it follows that other launch without such a wait between them. Before an autotuner
// launch nothing is done, and after it only digests are computed.
#pragma once

#include <cstdint>
#include <memory>

#include "recorder/preload/launch/known_launch.h"

namespace msda::record {

// Whether the program has recorded an event that keeps time since it last waited for the device; and how often it has
// waited.
bool program_measures() noexcept;
uint64_t waits_of_program() noexcept;

// Before a launch: checks the measured launches before it while their inputs are still there, unless it is another of
// them. `known` is null for a launch that is no autotuner launch.
void before_another(const KnownLaunch* known, const LastContent& last);
// After an autotuner launch, that is taken for the launch of `last`.
void end_autotuner_launch(cuda::Stream stream, const std::shared_ptr<KnownLaunch>& known, const LastContent& last);

// Around the end of a stream.
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
// Called after it has recorded an event that keeps time.
void program_took_time() noexcept;

}  // namespace msda::record
