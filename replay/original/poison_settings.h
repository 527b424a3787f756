// The settings of `run --poison`: which memory holds something else than in the recorded launch, and what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "recorder/capture/capture.h"
#include "replay/original/relaunch.h"

namespace msda::replay {

// Changes one memory at a time, so that a result which changes shows what the kernel read.
struct PoisonSetting {
  enum class Memory { kNone, kOutput, kUnwritten, kScratch, kBeside, kShared };
  enum class Contents { kRecorded, kZero, kNan, kPattern };

  Memory memory = Memory::kNone;
  size_t number =
      0;  // of the output among the plan's outputs, of the buffer with unwritten bytes, or of scratch memory
  Contents contents = Contents::kRecorded;
  std::string name;  // of the memory: the output's, "the unwritten bytes of memory_0", "parameter 3", ...
};

const char* name_of(PoisonSetting::Contents contents);

// The launch as it was recorded comes first. Inputs and integers are never changed, except for bytes that nobody had
// written: a kernel may take addresses from them.
std::vector<PoisonSetting> poison_settings(const Relaunch& plan);

// Returns the byte with which memory of no known type is filled.
unsigned char fill_byte(PoisonSetting::Contents contents);

// Returns the row-major contents of a floating-point output. Each element of the pattern is a number between 1 and 2
// that every type has, different from those of its neighbours.
std::vector<std::byte> fill_of(msda_dtype type, int64_t elements, PoisonSetting::Contents contents);

}  // namespace msda::replay
