// What the recorder met in a program, read from the file that MSDA_RECORD_OBSERVATIONS named
// (recorder/preload/session/observations.h).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace msda::replay {

struct ObservedProcess {
  std::string program;      // its path
  bool has_driver = false;  // it found functions of the CUDA driver
  bool has_ended = false;   // else it was killed, or became a program without the recorder
};

struct ObservedKernel {
  enum class Fate { kMatched, kUnmatched, kExcluded } fate = Fate::kUnmatched;
  std::string adapter;  // of a matched one
};

struct Observations {
  std::map<int64_t, ObservedProcess> processes;
  std::map<std::string, ObservedKernel> kernels;         // by name
  std::map<std::string, std::set<std::string>> refused;  // reasons, by kernel
  std::vector<std::string> outputs;                      // captures that were begun
  int64_t completed = 0;                                 // calls in captures that the program completed, and may move
  int64_t discards = 0;                                  // times that it discarded its calls
  std::vector<std::string> warnings;                     // other lines of the recorder
  std::string why_no_cupti;                              // of the process that came to it last
};

// Lines that cannot be read, which a killed process may leave, are skipped. A missing file is an empty one.
Observations read_observations(const std::string& path);

}  // namespace msda::replay
