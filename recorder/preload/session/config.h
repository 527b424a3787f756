// The recorder's settings, from MSDA_RECORD_* variables. Read once, when the library is loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace msda::record {

// How launches are intercepted: by the driver hook, with CUPTI for launches that it misses; by CUPTI while it is
// available; by the driver hook alone.
enum class HookChoice { kAuto, kCupti, kDriver };

struct Config {
  std::string output;                  // pattern, absolute; %p is the process, %r its rank
  std::string announced_output;        // the name that msda-record announced because the wanted one exists; absolute
  bool force = false;                  // replace an output that exists
  std::string kernel;                  // a regular expression that must match somewhere in a kernel's name; empty: any
  std::vector<std::string> adapters;   // files of user adapters, absolute
  std::vector<std::string> variables;  // environment variables to record beside the usual ones
  HookChoice hook = HookChoice::kAuto;
  int64_t keep_last = 0;     // 0: all
  std::string stages;        // none, summary or full
  uint64_t max_bytes = 0;    // the most that a process records; 0: half of the free disk space
  uint64_t ring_bytes = 0;   // the most pinned memory shared with the writer
  bool digest_only = false;  // record digests instead of tensors
  bool survey = false;       // run each launch again, and report which vary
  bool trail = false;        // a digest of what each launch writes
  bool watches_all() const { return survey || trail; }  // launches, whatever they are
  int survey_runs = 2;                                  // extra launches
  double survey_patience = 10;                          // seconds that it waits for a launch, or for work before it
  bool survey_neighbour = true;                         // beside which they run
  bool survey_poison = false;  // and on poisoned memory, to find results that depend on memory that nobody wrote
  // Which launches are surveyed: from this number of the program's to that, from 1 on, 0 for no end; those in so many
  // seconds from the first one on, 0 for no end; those whose label has this text.
  uint64_t survey_from = 0, survey_to = 0, survey_seconds = 0;
  std::string survey_label;
  double survey_share = 0;  // of the free memory, of the device's and of the host's, for copies
  std::string writer;       // the program msda-record
  std::string session;      // the folder in which msda-record waits for writers; empty without msda-record
};

const Config& config();

// Returns the pattern with %p and %r replaced.
std::string output_of(const std::string& pattern);

}  // namespace msda::record
