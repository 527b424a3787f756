// The result of `run --poison`.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recorder/capture/capture.h"
#include "replay/base/lines.h"
#include "replay/original/atomic_lines.h"
#include "replay/original/poison_settings.h"

namespace msda::replay {

// From harmless to worst.
enum class PoisonVerdict { kDeterministic, kOrderOnly, kReadsUnwritten, kRace };
const char* name_of(PoisonVerdict verdict);

// What became of a setting.
struct PoisonOutcome {
  PoisonSetting setting;
  enum class State { kRan, kFaulted, kHung } state = State::kRan;
  std::string message;  // of the driver, or how long it ran
};

// What `order` says of a tensor that varies: pixels with additions, those that an order explains, those that none does.
struct PoisonOrders {
  int64_t pixels = 0, explained = 0, impossible = 0;
};

struct PoisonTensor : tensors::Description {
  PoisonVerdict verdict = PoisonVerdict::kDeterministic;
  std::string why;  // a sentence; empty for kDeterministic

  std::vector<std::string> varies_across;  // memories on whose contents it depends, by the settings' names
  int64_t across = 0;                      // elements that do
  int64_t varies_within = 0;               // settings in which launches differ
  int64_t within = 0;                      // elements that do
  double spread = 0;                       // the widest range of an element within a setting
  int64_t never_written = 0;               // elements that keep what they held
  int64_t adds = 0, adds_to_nonzero = 0;   // elements to which the kernel adds; that were not zero when it was recorded
  std::optional<PoisonOrders> orders;
  // An element that varies, and its range in each setting that ran.
  struct Value {
    size_t setting;
    double lowest, highest;
  };
  std::optional<int64_t> example;
  std::vector<Value> values;
};

struct PoisonResult {
  int64_t runs = 0;  // launches in each setting
  std::vector<PoisonOutcome> settings;
  std::vector<PoisonTensor> tensors;
  std::vector<AtomicPlace> atomics;  // of the kernel's code

  // Returns the worst of all tensors; a kernel that faults or hangs only where a memory holds something else reads that
  // memory.
  PoisonVerdict verdict() const;
  bool is_faulty() const { return verdict() >= PoisonVerdict::kReadsUnwritten; }
};

nlohmann::ordered_json to_json(const PoisonResult& result);
// Returns some indented lines.
Lines to_text(const PoisonResult& result);

}  // namespace msda::replay
