// The options of the command msda-record.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "recorder/text/escape.h"

namespace msda::record {

struct Options {
  std::string output = "msda-capture.%p.h5", kernel, hook = "auto", keep = "all", stages = "none";
  bool force = false, digest_only = false, survey = false, trail = false;
  int survey_runs = 2, survey_memory = 50;                     // extra launches; percent of the device's free memory
  int64_t survey_from = 0, survey_to = 0, survey_seconds = 0;  // 0: from the first, to the last, without end
  int64_t survey_patience = 10;                                // seconds that it waits for a launch
  std::string survey_label;                                    // a part of the label
  bool survey_alone = false;                                   // nothing occupies a part of the device
  bool survey_poison = false;                                  // memory that nobody wrote is filled with patterns
  uint64_t max_bytes = 0;                                      // 0: half of the free disk space
  std::vector<std::string> adapters;
  std::vector<std::string> variables;  // environment variables to record beside the usual ones
  std::vector<std::string> command;
  std::vector<std::string> typed;  // this program's own name and all of its arguments
  // For the writer.
  std::string spool;
  int64_t keep_last = 0;
};

inline void say(const std::string& message) {
  std::fputs(("msda-record: " + text::escaped(message) + "\n").c_str(), stderr);
}

}  // namespace msda::record
