// What a survey knows of a kernel: its code, whether its launches may run again, and what their results were.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recorder/preload/driver/digester.h"
#include "recorder/preload/driver/images.h"
#include "recorder/preload/launch/launch_facts.h"
#include "recorder/preload/survey/caller.h"
#include "recorder/preload/survey/evidence.h"
#include "recorder/preload/survey/loaded_twin.h"
#include "recorder/preload/survey/places.h"
#include "recorder/spool/messages.h"

namespace msda::record {

// Why a launch was not surveyed; the names are those of docs/survey.md.
enum class Unsurveyed {
  kNone,
  kNotAsked,     // the program is surveyed for other launches only
  kCaptured,     // into a CUDA graph that cannot be done again, kernel by kernel
  kGraphNodes,   // in a CUDA graph that does more than launch kernels, copy and set memory
  kCollective,   // it waits for other processes or devices
  kOtherMemory,  // it changes memory that its parameters do not name
  kShared,       // it changes memory of the host, of another device, or that other processes have, too
  kOverLimit,    // there is no room for copies of what it reaches
  kUnknownCode,  // so its variables on the device are not known
  kCallsOut,     // it prints, allocates, or launches kernels itself
  kBusy,         // other streams, or another thread's survey, did not come to an end
  kParameters,   // the driver does not report them
  kRefused,      // by the driver, or by the device
  kCount
};
const char* name_of(Unsurveyed why);

struct SurveyedKernel {
  uint64_t number = 0;
  Layout layout;
  std::shared_ptr<const Image> image;  // null: its code is not known
  CodeFacts facts;                     // with the counts of its instructions
  Unsurveyed never = Unsurveyed::kNone;
  // Launches that varied and for which the order-free twin was tried, and how many of these gave equal results.
  std::optional<LoadedTwin> twin;
  int64_t twin_trials = 0, twin_equal = 0;
  std::optional<Evidence> evidence;  // of the first launch whose twin gave equal results
  Places additions, communication;   // once a launch has varied
  bool is_checked = false;           // a launch has changed memory that its parameters name, and no other
  bool has_pointers = false;         // in memory, to more than its parameters name: in one of its launches
  // Numbers of launches: all, surveyed, and surveyed ones that varied. Then the number of the first that varied, among
  // all of the program's, from 1 on.
  int64_t launches = 0, surveyed = 0, varied = 0, first_varied = 0;
  int64_t kept = 0;  // of those that varied: recorded for the replay
  Caller caller;     // of the first launch that varied
  // Numbers of the survey's own launches: all, and those beside a neighbour, each with how many gave other results.
  int64_t extra = 0, extra_that_differ = 0, extra_beside = 0, beside_that_differ = 0;
  int64_t tried_alone = 0;  // launches that differed only beside a neighbour, and were then run again without, often
  uint64_t most_words = 0, most_bytes = 0;  // 32-bit words that differed; memory that a launch reaches
  // Launches that ran again on poisoned memory: those whose results were compared, those whose results depend on it,
  // and those for which there was no room. Then the first that depends on it, among all of the program's, with its
  // words and the memory that nobody wrote.
  struct {
    int64_t compared = 0, depend = 0, first = 0, no_room = 0;
    uint64_t most_words = 0, unwritten = 0, allocation_bytes = 0;
  } poison;
  int64_t left_on_host = 8;  // launches that may be surveyed with copies on the host, which takes long
  double seconds = 0;
  std::map<Unsurveyed, int64_t> unsurveyed;
  bool is_told = false;  // the writer has it as it is now

  // Returns whether its code has neither floating-point atomics nor communication between blocks.
  bool cannot_vary() const;
  bool differs_alone() const { return extra_that_differ > beside_that_differ; }
  // Returns whether it varied, but only beside a neighbour, and not by a race.
  bool varies_only_beside() const;
  std::string digest() const { return image != nullptr ? image->digest : ""; }
  spool::Surveyed message() const;
};

// Returns what is found out about a function before its first launch. Needs its context to be current.
SurveyedKernel examine(cuda::Function function);

// Returns where the variables that a kernel may use lie in the current context. Nothing if the driver does not find
// one.
std::optional<std::vector<DeviceRange>> variables_of(const SurveyedKernel& kernel, cuda::Function function);

}  // namespace msda::record
