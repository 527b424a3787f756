// What `run` found in one invocation, on its way to the terminal or to JSON.
#pragma once

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

#include "analysis/judge/analyze.h"
#include "recorder/capture/capture.h"
#include "replay/base/lines.h"
#include "replay/modes/recorded_order.h"
#include "replay/modes/replays.h"
#include "replay/original/original_result.h"

namespace msda::replay {

struct InvocationResult {
  capture::Invocation invocation;
  std::shared_ptr<const analysis::Call> call;    // its outline, to say where an element lies
  std::optional<analysis::Tolerance> tolerance;  // empty: nobody set one
  bool customary = false;                        // what lies within the customary one is then no drift
  std::map<std::string, std::array<std::string, 3>> digests;
  std::map<std::string, Repeats> repeats;
  std::map<std::string, Whereabouts> whereabouts;
  std::optional<OriginalResult> original;
  std::vector<RecordedOrder> recorded_order;
  std::string original_left_out;     // why there is none, where it might have been; empty: nothing to say
  std::vector<std::string> notes;    // sentences on how the invocation was read
  std::vector<std::string> altered;  // tensors whose digest is not the recorded one
  bool compared = true;              // else no gradients were recorded that could be compared
  analysis::Report report;
  std::optional<PoisonResult> poison;  // of --poison
};

// The summary where no gradients were recorded.
inline constexpr char kNothingToCompare[] = "Nothing to compare: no gradients were recorded.";

// An invocation that is no call of the operator's.
struct NotReplayed {
  int64_t id;
  std::string why;  // "kernel ... is known only by its machine code"
};

// What becomes of a capture: its verdict, and what that rests on.
struct Conclusion {
  analysis::Verdict verdict;
  bool compared = false;  // an invocation's gradients were compared
  bool damaged = false;   // some data do not match their digests
  bool faulty = false;    // --poison found a race, or a read of what nobody wrote
};
Conclusion conclusion_of(const InvocationResult& result);

// What colours and headings say of a conclusion, from harmless to worst.
enum class Grade { kGood, kUndecided, kDrift, kWrong };
NLOHMANN_JSON_SERIALIZE_ENUM(Grade, {{Grade::kGood, "good"},
                                     {Grade::kUndecided, "undecided"},
                                     {Grade::kDrift, "drift"},
                                     {Grade::kWrong, "wrong"}})
Grade grade_of(const Conclusion& conclusion);

// docs/run.schema.json; and one of its invocations.
nlohmann::ordered_json to_json(const std::string& capture, const std::vector<InvocationResult>& results,
                               const std::vector<Relaunched>& relaunched, const std::vector<NotReplayed>& not_replayed,
                               const Conclusion& conclusion);
nlohmann::ordered_json to_json(const InvocationResult& result);

}  // namespace msda::replay
