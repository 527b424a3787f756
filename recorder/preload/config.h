// The recorder's settings, from MSDA_RECORD_* variables. Read once, when the library is loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace msda::record {

struct Config {
  std::string output;                 // pattern, absolute; %p is the process, %r its rank
  bool force = false;                 // replace an output that exists
  std::string kernel;                 // regular expression that a kernel's name must match somewhere; empty: any
  std::vector<std::string> adapters;  // files of user adapters, absolute
  int64_t keep_last = 0;              // 0: all
  uint64_t max_bytes = 0;             // of a process' spool; 0: no limit
  std::string writer;                 // the program msda-record
  std::string session;                // folder in which msda-record waits for writers; empty without it
};

const Config& config();

// The pattern with its %p and %r put in.
std::string output_of(const std::string& pattern);

}  // namespace msda::record
