// The values of the flags that the subcommands share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/model/call.h"
#include "analysis/numbers/compare.h"
#include "kernels/msda.h"
#include "recorder/capture/isolated_reader.h"

namespace msda::replay {

struct Options {
  std::string capture;
  std::vector<std::string> captures;  // files and folders, of a command that takes several
  std::string invocation = "all";
  std::optional<int64_t> reference;  // the invocation whose outputs are the reference, in place of a recorded one
  std::string modes;                 // empty: all modes that this machine can run, except `mixed`
  std::string float64_stages;
  std::string device = "auto";
  uint64_t device_memory = 0;  // bytes of each GPU; 0: what is free
  int64_t repeat = 1;
  int64_t threads = 0;
  uint64_t seed = 0;
  std::optional<double> atol, rtol;
  bool customary = false;            // without a tolerance, nothing within the customary one is drift
  std::string block, kernel_digest;  // for mode original, in place of the recorded ones
  std::string json;                  // a file, "-", or empty
  std::string baseline, write_baseline, tally, junit, sarif;  // files, or empty
  std::string save_replays;                                   // a file, or empty
  bool github = false;                                        // print findings as annotations
  bool damaged = false;                                       // go on with data that do not match their digests
  bool quiet = false;
  bool verbose = false;
  bool poison = false;          // launch in mode original with other contents of unwritten memory, too
  std::string poison_folder;    // where the results of --poison are kept; empty: in memory
  std::string colour = "auto";  // or "always", "never"
};

// Throws BadInput, with the flag's name, unless the number is from `least` to `most`.
void check_range(const char* flag, int64_t value, int64_t least, int64_t most);

// These return the flags' checked values. Each throws BadInput or Unavailable, naming the flag.
std::vector<int64_t> chosen_invocations(const Options& options, const capture::IsolatedReader& reader);
struct Modes {
  std::vector<msda_mode> replayed;
  bool original = false, recorded_order = false;
  bool are_named = false;  // by --mode
};
Modes chosen_modes(const Options& options);
struct DeviceChoice {
  enum { kCpu, kIfPossible, kAsked } wanted = kCpu;
  int first = 0;     // GPU
  bool all = false;  // and all after it
};
DeviceChoice chosen_device(const Options& options);
struct OriginalChoice {
  enum { kNo, kIfPossible, kAsked } wanted = kNo;
  int device = 0;
  std::optional<uint32_t> block;  // threads
};
OriginalChoice chosen_original(const Options& options);
uint32_t chosen_float64_stages(const Options& options, const analysis::Call& call);
void check_numbers(const Options& options);
// Returns the flags' tolerance, otherwise the recorded one; a single flag replaces only its half. Nothing if neither is
// set.
std::optional<analysis::Tolerance> chosen_tolerance(const Options& options, const capture::Invocation& invocation,
                                                    msda_dtype stored);

}  // namespace msda::replay
