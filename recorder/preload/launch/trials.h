// Trials: launches that a program makes to measure a kernel, an autotuner's above all, on content that is recorded
// already.
//
// A launch whose parameters, and by the digests its inputs too, are those of one before that is recorded already is
// taken for a trial if the program measures it, having recorded an event that keeps time since it last waited for the
// device, or if it follows that other launch without such a wait between them. Nothing is done before a trial, and
// behind it only digests are asked for.
#pragma once

#include <cstdint>
#include <memory>

#include "recorder/preload/launch/known_launch.h"

namespace msda::record {

// Whether the program has recorded an event that keeps time since it last waited for the device; and how often it has
// waited.
bool program_measures() noexcept;
uint64_t waits_of_program() noexcept;

// Before a launch: looks at the measured trials before it while their inputs are still there, unless it is another of
// them. `known` is null for a launch that is no trial.
void before_another(const Known* known, const LastContent& last);
// After a trial, that is taken for the launch of `last`.
void end_trial(cuda::Stream stream, const std::shared_ptr<Known>& known, const LastContent& last);

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

// The program is going to wait for the device, and has done so.
void program_waits() noexcept;
void program_waited() noexcept;
// It has recorded an event that keeps time.
void program_took_time() noexcept;

}  // namespace msda::record
