// Checks of recording, by recording.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "replay/doctor/check.h"

namespace msda::replay {

// Returns whether the parts of the installation are where they look for each other.
Check check_installation();

// Records one call of the operator, made by this program in another process, and reads it back: recorder, shared
// memory, writer, HDF5 and disk in one.
Check check_test_recording();
// That call, made in the other process. Throws BadInput.
void make_test_call();

// Records a program, into a temporary file, and says what the recorder met in it. The program's output goes to standard
// error. A command that begins with msda-record is run as it is.
struct ProgramCheck {
  Check check;
  nlohmann::ordered_json json;
};
ProgramCheck check_program(const std::vector<std::string>& command, const std::vector<std::string>& adapters);

}  // namespace msda::replay
