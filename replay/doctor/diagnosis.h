// Why a program's kernels are recorded or not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/writer/program_file.h"
#include "replay/doctor/check.h"
#include "replay/doctor/observations.h"

namespace msda::replay {

struct CaptureRead {
  std::string path;
  int64_t invocations = 0;
  std::string error;  // why it cannot be read
};

struct ProgramRun {
  std::string name;  // as typed
  std::string path;  // empty if there is none
  record::ProgramFile file;
  int status = 0;
};

const char* name_of(ObservedKernel::Fate fate);

Check diagnose(const ProgramRun& run, const Observations& seen, const std::vector<CaptureRead>& captures);

}  // namespace msda::replay
