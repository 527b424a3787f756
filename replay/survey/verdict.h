// What a survey found out about a kernel, and what follows from it. docs/survey.md explains the verdicts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msda::replay {

enum class SurveyVerdict { kReadsUnwritten, kRace, kArrivalOrder, kOrderOnly, kMayVary, kNotSurveyed, kDeterministic };
const char* name_of(SurveyVerdict verdict);
// Returns whether its results may be others in the next run, with equal inputs.
bool varies(SurveyVerdict verdict);

// Instructions of one place.
struct SurveyPlace {
  std::string instruction;  // "RED", or, of what hands results on, the name that it counts under
  int64_t count = 0;
  std::vector<std::pair<std::string, int64_t>> lines;  // of files, from the inside out
};

struct Surveyed {
  std::string kernel, mangled;
  std::string kernel_digest;            // of its code; empty if that is not known
  std::string node, operation, python;  // who launched it: PyTorch's autograd node and operation, a line of Python
  SurveyVerdict verdict = SurveyVerdict::kNotSurveyed;
  std::string why;                              // one or two sentences
  std::map<std::string, int64_t> facts;         // as the capture has them
  std::map<std::string, double> numbers;        // the same
  std::map<std::string, int64_t> not_surveyed;  // launches, by the reason's name
  // The type of its additions, and why nothing else is known of them.
  std::string added_type, evidence_missing;
  std::map<std::string, std::vector<SurveyPlace>> places;  // of "additions", and of "communication"
  int64_t fact(const char* name) const;                    // 0 if it has none
  std::optional<double> number(const char* name) const;
};

// Returns the survey of a capture; none if it has none. Kernels that vary first; then by the share of launches that
// did, and by launches. Throws BadInput for numbers that no survey has, and for what is no capture.
std::vector<Surveyed> survey_of(const std::string& capture);

// Returns why launches were not surveyed, by the reason's name: "Captured into a CUDA graph".
std::string reason_text(const std::string& reason);

}  // namespace msda::replay
