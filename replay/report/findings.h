// What run, survey and stress found, each finding once, as it is followed from night to night: compared with a
// baseline, and printed for other tools.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "replay/base/json.h"
#include "replay/base/options.h"
#include "replay/base/output.h"
#include "replay/report/page.h"
#include "replay/report/result.h"

namespace msda::replay {

// A finding, in an outcome's "findings" (replay/many/many.h), is an object of
//   "test"         the label of the call; empty without one: then the capture's name takes its place
//   "kernel", "operator", "tensor"
//   "cause"        for a survey and for --poison the verdict
//   "at_fault"
//   "pattern"      the mistake that gives such values, without its numbers
//   "level"        "error", or "warning"
//   "message"      a sentence
//   "invocation"   a number, or null
//   "failures"     if the outcome has "trials": how many of these failed for it
// By the first seven it is known again; whatever is a number may differ in the next run.
Json run_findings(const std::vector<InvocationResult>& results, const std::vector<Relaunched>& relaunched);

// The findings of one command in all captures.
class TrackedFindings {
 public:
  // Reads the baseline that the options name. Throws BadInput if it is none of this command, or if a file that the
  // options name cannot be written.
  TrackedFindings(const Options& options, std::string command);
  // Takes the findings of each outcome, and its "capture", "labels" and "error"; "trials", if it has them, are how many
  // runs of each test it stands for, by label. Otherwise it stands for one of each.
  void take(const std::vector<Json>& outcomes);

  // Prints how many are new; nothing without a baseline. Then the lines of --github.
  void print(const Terminal& terminal) const;
  // With a baseline: adds "baseline" to a result, `comparison` in docs/baseline.schema.json, and sets "status" of its
  // "captures" whose findings are all in the baseline to 0.
  void add_to(Json& result) const;
  // Writes what the options name, and sets "status" of the outcomes as add_to() does.
  void publish(std::vector<Json>& outcomes) const;
  // Calls `task`, which judges this one capture, and returns what it returns. If it throws, --github and the files for
  // other tools get the error first.
  int judge_one(const std::string& capture, const std::function<int()>& task);

  struct Tested {
    std::string capture, name;       // its path, and its path below the folder that was named
    std::vector<std::string> tests;  // labels, or the name
    std::string error;               // why it could not be read or judged; or empty
  };
  const std::string& command() const { return command_; }
  bool has_baseline() const { return !known_.is_null(); }
  const std::vector<Tested>& captures() const { return captures_; }
  // Each once; with "capture", and "known": whether the baseline has it.
  const std::vector<Json>& all() const { return findings_; }

 private:
  std::vector<OutputFile> outputs() const;
  void write_reports() const;
  void forgive_known(Json& outcome) const;
  Json comparison() const;
  void print_comparison(const Terminal& terminal) const;
  Json baseline() const;
  void count(const Json& outcome, const Tested& tested);
  Json tally() const;
  size_t count_known() const;

  const Options& options_;
  std::string command_;
  Json known_;  // the findings of the baseline; null without one
  std::vector<Tested> captures_;
  std::vector<Json> findings_;
  std::map<std::string, int64_t> trials_, failures_;  // by test; by identity
  std::set<std::string> with_known_, with_new_;       // captures that have such findings
};

// Returns whether the baseline has one of TrackedFindings::all().
bool is_known(const Json& finding);
// Returns the members by which a finding is known.
Json identity_of(const Json& finding);
// "cell_boundary in grad_value, kernel ms_deform_attn"
std::string title_of(const Json& finding);

}  // namespace msda::replay
