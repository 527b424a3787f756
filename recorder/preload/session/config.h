// The recorder's settings, from MSDA_RECORD_* variables. Read once, when the library is loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace msda::record {

// Who catches launches: the driver hook, with CUPTI for what it does not see; CUPTI, as long as it is to be had; the
// driver hook alone.
enum class HookChoice { kAuto, kCupti, kDriver };

struct Config {
  std::string output;                  // pattern, absolute; %p is the process, %r its rank
  std::string announced_output;        // that msda-record has named, because another name is taken; absolute
  bool force = false;                  // replace an output that exists
  std::string kernel;                  // regular expression that a kernel's name must match somewhere; empty: any
  std::vector<std::string> adapters;   // files of user adapters, absolute
  std::vector<std::string> variables;  // of the environment, recorded beside the usual ones
  HookChoice hook = HookChoice::kAuto;
  int64_t keep_last = 0;     // 0: all
  std::string stages;        // none, summary or full
  uint64_t max_bytes = 0;    // that a process records; 0: half of what is free on the disk
  uint64_t ring_bytes = 0;   // of pinned memory shared with the writer, at most
  bool digest_only = false;  // of the tensors their digests alone
  std::string writer;        // the program msda-record
  std::string session;       // folder in which msda-record waits for writers; empty without it
};

const Config& config();

// The pattern with its %p and %r put in.
std::string output_of(const std::string& pattern);

}  // namespace msda::record
